/* A chunk of messages: each becomes a row. */
#include "export.h"

/* Columns that the message did not mention. False: one of them is required. */
static bool fill(struct program *s, int64_t row)
{
    for (int i = 0; i < s->column_count; i++) {
        struct column *c = s->columns[i];
        if (LIKELY(c->length > row))
            continue;
        if (c == s->extra) {
            if (!tg_reserve(s, c))
                return false;
            ((int32_t *)c->values)[row + 1] = (int32_t)c->child->length;
            tg_append_valid(c);
        } else if (c->required || !tg_append_null(s, c)) {
            return false;
        }
    }
    return true;
}

static bool message(struct program *s, text p, text end, int64_t row)
{
    p = tg_space(p);
    if (*p != '{')
        return false;
    s->hash_count = 0;
    p = tg_members(s, s->nodes, p + 1, 1);
    return p && tg_space(p) == end && fill(s, row);
}

static bool forget(struct program *s, int64_t row)
{
    for (int i = 0; i < s->column_count; i++) {
        tg_truncate(s->columns[i], row);
        if (!tg_append_null(s, s->columns[i]))
            return false;
    }
    return true;
}

/* `data`: messages, each followed by a NUL, and TG_PADDING bytes behind the last. `look[i]` becomes 1 where message i is
 * not sure; its row is null. Returns how many those are; -1: out of memory, -2: `data` is not as agreed. */
EXPORTED int64_t tg_decode(struct program *s, text data, int64_t size, const int32_t *lengths, int64_t count, uint8_t *look,
                           struct ArrowArray *array)
{
    int64_t at = 0, unsure = 0, row;
    if (size >= INT32_MAX) /* offsets have 32 bits */
        return -2;
    s->out_of_memory = false;
    for (int i = 0; i < s->column_count; i++) {
        if (s->columns[i]->rows_before < count)
            s->columns[i]->rows_before = count;
    }
    for (row = 0; row < count; row++) {
        if (lengths[row] < 0 || lengths[row] > size - at - 1 - TG_PADDING || data[at + lengths[row]])
            break;
        text end = data + at + lengths[row];
        look[row] = !message(s, data + at, end, row);
        if (UNLIKELY(look[row])) {
            unsure++;
            if (s->out_of_memory || !forget(s, row))
                break;
        }
        at += lengths[row] + 1;
    }
    bool agreed = row == count || s->out_of_memory;
    if (row == count && tg_export(s, count, array))
        return unsure;
    for (int i = 0; i < s->count; i++)
        tg_free_column(&s->nodes[i]);
    return agreed ? -1 : -2;
}
