/* Columns handed over as Arrow arrays: https://arrow.apache.org/docs/format/CDataInterface.html */
#include "export.h"

#include <stdlib.h>

struct owned { /* what an array's release gives back */
    const void *buffers[3];
    struct ArrowArray *children[];
};

static void release(struct ArrowArray *array)
{
    struct owned *owned = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++) {
        struct ArrowArray *child = owned->children[i];
        if (child && child->release)
            child->release(child);
        free(child);
    }
    for (int i = 0; i < 3; i++)
        free((void *)owned->buffers[i]);
    free(owned);
    array->release = NULL;
}

static bool make(struct ArrowArray *array, int64_t length, int buffers, int children)
{
    struct owned *owned = calloc(1, sizeof *owned + (size_t)children * sizeof owned->children[0]);
    if (!owned)
        return false;
    *array = (struct ArrowArray){
        .length = length, .n_buffers = buffers, .n_children = children, .buffers = owned->buffers,
        .children = owned->children, .release = release, .private_data = owned,
    };
    for (int i = 0; i < children; i++)
        if (!(owned->children[i] = calloc(1, sizeof *owned->children[i]))) {
            release(array);
            return false;
        }
    return true;
}

static int64_t nulls(const struct column *c)
{
    int64_t set = 0, bytes = c->length >> 3, rest = c->length & 7;
    for (int64_t i = 0; i < bytes; i++)
        set += __builtin_popcount(c->valid[i]);
    if (rest)
        set += __builtin_popcount(c->valid[bytes] & ((1u << rest) - 1));
    return c->length - set;
}

static bool export_column(struct program *s, struct column *c, struct ArrowArray *array);

static bool export_children(struct program *s, struct column *c, struct ArrowArray *array)
{
    int i = 0;
    for (struct column *child = c->child; child; child = child->sibling)
        if (!export_column(s, child, array->children[i++]))
            return false;
    return true;
}

static bool export_column(struct program *s, struct column *c, struct ArrowArray *array)
{
    int children = 0;
    for (struct column *child = c->child; child; child = child->sibling)
        children++;
    /* even an empty array has its buffers */
    if (!c->valid && !tg_more_rows(s, c, 1))
        return false;
    if (c->kind == STRING && !c->data && !tg_more_data(s, c, 1))
        return false;
    bool map = c->kind == MAP || c->kind == EXTRA;
    int buffers = c->kind == STRING ? 3 : c->kind == STRUCT ? 1 : 2;
    if (!make(array, c->length, buffers, map ? 1 : children))
        return false;
    if (map) { /* a map is a list of structs */
        struct ArrowArray *entries = array->children[0];
        if (!make(entries, c->child->length, 1, children) || !export_children(s, c, entries))
            return false;
    } else if (!export_children(s, c, array)) {
        return false;
    }
    struct owned *owned = array->private_data;
    array->null_count = nulls(c);
    owned->buffers[0] = c->valid;
    owned->buffers[1] = c->values;
    owned->buffers[2] = c->data;
    c->rows_before = c->length + c->length / 8;
    c->data_before = c->data_length + c->data_length / 8;
    c->valid = c->values = c->data = NULL;
    tg_free_column(c);
    return true;
}

bool tg_export(struct program *s, int64_t rows, struct ArrowArray *array)
{
    if (!make(array, rows, 1, s->column_count))
        return false;
    for (int i = 0; i < s->column_count; i++)
        if (!export_column(s, s->columns[i], array->children[i])) {
            array->release(array);
            return false;
        }
    return true;
}
