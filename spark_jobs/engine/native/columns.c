/* Columns that grow, forget the end of a row that came to nothing, and become Arrow arrays.
 *
 * Buffers are handed over, not copied: the array that Python gets owns them (Arrow's C data interface). */
#include "json_native.h"

#include <stdlib.h>

#define SLACK 32 /* bytes that a copy may write behind `data_room` */
#define FIRST_ROWS 64

static const uint8_t widths[KINDS] = {
    [INT8] = 1,   [INT16] = 2, [INT32] = 4, [INT64] = 8,     [FLOAT] = 4, [DOUBLE] = 8, [DECIMAL] = 16,  [STRING] = 4,
    [DATE] = 4,   [TIMESTAMP] = 8,          [LIST] = 4,      [MAP] = 4,   [EXTRA] = 4,  [EPOCH_MS] = 8,  [ISO_MS] = 8,
    [PATTERN_MS] = 8,
};

static bool has_offsets(const struct column *c)
{
    return c->kind == STRING || c->kind == LIST || c->kind == MAP || c->kind == EXTRA;
}

static bool grown(struct program *s, uint8_t **buffer, size_t size)
{
    uint8_t *moved = realloc(*buffer, size);
    if (!moved) {
        s->out_of_memory = true;
        return false;
    }
    *buffer = moved;
    return true;
}

bool tg_more_rows(struct program *s, struct column *c, int64_t room)
{
    if (room < FIRST_ROWS)
        room = FIRST_ROWS;
    if (room < c->rows_before)
        room = c->rows_before;
    bool fresh = !c->valid;
    if (!grown(s, &c->valid, (size_t)(room / 8 + 1)))
        return false;
    size_t size = c->kind == BOOLEAN ? (size_t)(room / 8 + 1) : (size_t)(room + 1) * widths[c->kind];
    if (size && !grown(s, &c->values, size))
        return false;
    if (fresh && has_offsets(c))
        ((int32_t *)c->values)[0] = 0;
    c->room = room;
    return true;
}

bool tg_more_data(struct program *s, struct column *c, int64_t more)
{
    int64_t room = c->data_room * 2;
    if (room < c->data_before)
        room = c->data_before;
    if (room < c->data_length + more)
        room = c->data_length + more;
    if (!grown(s, &c->data, (size_t)room + SLACK))
        return false;
    c->data_room = room;
    return true;
}

bool tg_append_null(struct program *s, struct column *c)
{
    if (!tg_reserve(s, c))
        return false;
    int64_t row = c->length;
    if (has_offsets(c)) {
        ((int32_t *)c->values)[row + 1] = ((int32_t *)c->values)[row];
    } else if (c->kind == STRUCT) {
        for (struct column *child = c->child; child; child = child->sibling)
            if (child->length == row && !tg_append_null(s, child))
                return false;
    } else if (c->kind == BOOLEAN) {
        tg_put_bit(c->values, row, false);
    } else {
        memset(c->values + row * widths[c->kind], 0, widths[c->kind]);
    }
    tg_put_bit(c->valid, row, false);
    c->length++;
    return true;
}

/* Rows and all that has been put into children for the row that was about to come are gone. */
void tg_truncate(struct column *c, int64_t length)
{
    c->length = length;
    if (has_offsets(c)) {
        int32_t end = c->values ? ((int32_t *)c->values)[length] : 0;
        c->data_length = end;
        for (struct column *child = c->child; child; child = child->sibling)
            tg_truncate(child, end);
    } else if (c->kind == STRUCT) {
        for (struct column *child = c->child; child; child = child->sibling)
            tg_truncate(child, length);
    }
}

void tg_free_column(struct column *c)
{
    free(c->valid);
    free(c->values);
    free(c->data);
    c->valid = c->values = c->data = NULL;
    c->length = c->room = c->data_length = c->data_room = 0;
}
