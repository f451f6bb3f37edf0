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

static bool json_message(struct program *s, void *nothing, text p, text end)
{
    (void)nothing;
    p = tg_space(p);
    if (*p != '{')
        return false;
    s->found_count = 0;
    p = tg_members(s, s->nodes, p + 1, 1);
    return p && tg_space(p) == end && tg_unknown_of_many(s);
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

static int64_t give_up(struct program *s, int64_t why)
{
    for (int i = 0; i < s->count; i++)
        tg_free_column(&s->nodes[i]);
    s->rows = s->bytes = 0;
    return why;
}

int64_t tg_read_by(struct program *s, tg_reads *reads, void *context, text data, int64_t size, const int32_t *lengths,
                   int64_t count, int64_t expected, uint8_t *look)
{
    int64_t at = 0, unsure = 0;
    s->out_of_memory = false;
    s->bytes += size;
    if (s->bytes >= INT32_MAX) /* offsets have 32 bits */
        return give_up(s, -2);
    for (int i = 0; i < s->column_count && !s->rows; i++) {
        if (s->columns[i]->rows_before < expected)
            s->columns[i]->rows_before = expected;
    }
    for (int64_t i = 0; i < count; i++, s->rows++) {
        bool null = lengths[i] == -1;
        int32_t length = null ? 0 : lengths[i];
        if (length < 0 || length > size - at - 1 - TG_PADDING || data[at + length])
            return give_up(s, -2);
        text p = data + at;
        s->hash_count = 0;
        s->why = OTHER;
        look[i] = null || !reads(s, context, p, p + length) || !fill(s, s->rows) ? s->why : 0;
        if (UNLIKELY(look[i])) {
            unsure++;
            if (s->out_of_memory || !forget(s, s->rows))
                return give_up(s, -1);
        }
        at += length + 1;
    }
    return unsure;
}

/* Rows for `count` more JSON messages; see tg_read_by. */
EXPORTED int64_t tg_read(struct program *s, text data, int64_t size, const int32_t *lengths, int64_t count,
                         int64_t expected, uint8_t *look)
{
    return tg_read_by(s, json_message, NULL, data, size, lengths, count, expected, look);
}

/* `array` becomes all rows that were read; there are none afterwards. Returns 0; -1: out of memory. */
EXPORTED int64_t tg_take(struct program *s, struct ArrowArray *array)
{
    bool done = tg_export(s, s->rows, array);
    return give_up(s, done ? 0 : -1);
}
