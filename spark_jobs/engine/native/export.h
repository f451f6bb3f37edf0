/* Arrow's C data interface, as its specification spells it. */
#ifndef TIDEGATE_EXPORT_H
#define TIDEGATE_EXPORT_H

#include "json_native.h"

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

/* `array` becomes a struct array of all columns, which are empty afterwards. False: out of memory, nothing is left. */
bool tg_export(struct program *s, int64_t rows, struct ArrowArray *array);

#endif
