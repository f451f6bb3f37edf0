/* Runs a decoder over chunks in a file, in memory of exactly their size, and touches all that comes out: built
 * with the address and undefined-behaviour sanitizers, it stops at the first byte that is not its own.
 *
 *     replay FILE...
 *
 * A file: int32 nodes, names' bytes, Avro schemas (-1: messages are JSON, -2: CSV); the nodes, 8 int32 each; the names;
 * of each schema int32 id, steps, length of the pool, bytes of the names, then these; for CSV int32 positions, takers,
 * bytes of the names, then 5 int32 of settings, the positions, 4 int32 each, the takers, the names; then chunks: int32
 * messages, int32 size of the data, the lengths, the data. */
#include "../../spark_jobs/engine/native/avro.h"
#include "../../spark_jobs/engine/native/export.h"

#include <stdio.h>
#include <stdlib.h>

struct description;
struct program *tg_new(const struct description *nodes, int32_t count, text names, int64_t size);
void tg_free(struct program *s);
int64_t tg_read(struct program *s, text data, int64_t size, const int32_t *lengths, int64_t count, int64_t expected,
                uint8_t *look);
struct avro *tg_avro_new(struct program *columns, int32_t framed);
void tg_avro_free(struct avro *a);
int64_t tg_avro_add(struct avro *a, int64_t id, const struct step *steps, int32_t count, const int32_t *pool,
                    int32_t pool_count, text names, int64_t size);
int64_t tg_avro_read(struct avro *a, text data, int64_t size, const int32_t *lengths, int64_t count, int64_t expected,
                     uint8_t *look);
struct csv *tg_csv_new(struct program *columns, const void *settings, const void *positions, int32_t count,
                       const int32_t *takers, int32_t taker_count, text names, int64_t size);
void tg_csv_free(struct csv *v);
int64_t tg_csv_read(struct csv *v, text data, int64_t size, const int32_t *lengths, int64_t count, int64_t expected,
                    uint8_t *look);
int64_t tg_take(struct program *s, struct ArrowArray *array);

static uint64_t sum; /* so that no look at the results can be left out */

static void *take(FILE *file, size_t size)
{
    void *found = malloc(size ? size : 1);
    if (!found || fread(found, 1, size, file) != size)
        exit(3);
    return found;
}

static void touch(const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + ((const uint8_t *)bytes)[i];
}

/* Offsets go up and end inside; `width` of 0: none or bits. */
static void look_at(const struct column *c, const struct ArrowArray *array)
{
    static const uint8_t widths[KINDS] = {
        [INT8] = 1, [INT16] = 2, [INT32] = 4, [INT64] = 8, [FLOAT] = 4, [DOUBLE] = 8, [DECIMAL] = 16, [DATE] = 4,
        [TIMESTAMP] = 8, [EPOCH_MS] = 8, [ISO_MS] = 8, [PATTERN_MS] = 8,
    };
    size_t rows = (size_t)array->length, bits = (rows + 7) / 8;
    bool map = c->kind == MAP || c->kind == EXTRA;
    touch(array->buffers[0], bits);
    if (c->kind == BOOLEAN)
        touch(array->buffers[1], bits);
    else if (widths[c->kind])
        touch(array->buffers[1], rows * widths[c->kind]);
    if (c->kind == STRING || c->kind == LIST || map) {
        const int32_t *offsets = array->buffers[1];
        for (size_t i = 0; i < rows; i++)
            if (offsets[i] < 0 || offsets[i] > offsets[i + 1])
                exit(4);
        if (c->kind == STRING)
            touch(array->buffers[2], (size_t)offsets[rows]);
        else if (offsets[rows] != array->children[0]->length)
            exit(5);
    }
    const struct ArrowArray *holder = map ? array->children[0] : array;
    int i = 0;
    for (const struct column *child = c->child; child; child = child->sibling) {
        if (child->kind != LIST && c->kind == STRUCT && holder->children[i]->length != array->length)
            exit(6);
        look_at(child, holder->children[i++]);
    }
}

struct reader { /* both NULL: JSON */
    struct program *s;
    struct avro *avro;
    struct csv *csv;
};

static int64_t read_by(struct reader *r, text data, int64_t size, const int32_t *lengths, int32_t count,
                       int64_t expected, uint8_t *look)
{
    return r->avro  ? tg_avro_read(r->avro, data, size, lengths, count, expected, look)
           : r->csv ? tg_csv_read(r->csv, data, size, lengths, count, expected, look)
                    : tg_read(r->s, data, size, lengths, count, expected, look);
}

static struct csv *positions_of(FILE *file, struct program *s)
{
    int32_t *head = take(file, 12);
    void *settings = take(file, 20), *positions = take(file, (size_t)head[0] * 16);
    int32_t *takers = take(file, (size_t)head[1] * 4);
    void *names = take(file, (size_t)head[2]);
    struct csv *v = tg_csv_new(s, settings, positions, head[0], takers, head[1], names, head[2]);
    if (!v)
        exit(14);
    free(head);
    free(settings);
    free(positions);
    free(takers);
    free(names);
    return v;
}

static struct avro *schemas_of(FILE *file, struct program *s, int32_t count)
{
    struct avro *a = tg_avro_new(s, true);
    for (int32_t i = 0; i < count; i++) {
        int32_t *head = take(file, 16);
        void *steps = take(file, (size_t)head[1] * sizeof(struct step)), *pool = take(file, (size_t)head[2] * 4);
        void *names = take(file, (size_t)head[3]);
        if (tg_avro_add(a, head[0], steps, head[1], pool, head[2], names, head[3]))
            exit(13);
        free(head);
        free(steps);
        free(pool);
        free(names);
    }
    return a;
}

static void replay(FILE *file)
{
    int32_t *head = take(file, 12);
    void *nodes = take(file, (size_t)head[0] * 32);
    void *names = take(file, (size_t)head[1]);
    struct program *s = tg_new(nodes, head[0], names, head[1]);
    if (!s)
        exit(7);
    struct reader r = { s, head[2] < 0 ? NULL : schemas_of(file, s, head[2]), NULL };
    if (head[2] == -2)
        r.csv = positions_of(file, s);
    int32_t chunk[2];
    while (fread(chunk, 4, 2, file) == 2) {
        int32_t *lengths = take(file, (size_t)chunk[0] * 4);
        uint8_t *data = take(file, (size_t)chunk[1]), *look = malloc((size_t)chunk[0] + 1);
        struct ArrowArray array;
        int64_t unsure = read_by(&r, data, chunk[1], lengths, chunk[0], chunk[0] / 2, look);
        if (unsure < 0 || read_by(&r, data, chunk[1], lengths, chunk[0], 0, look) != unsure || tg_take(s, &array))
            exit(8);
        if (array.length != 2 * chunk[0])
            exit(12);
        for (int32_t i = 0; i < chunk[0]; i++)
            unsure -= look[i] != 0;
        if (unsure)
            exit(9);
        for (int i = 0; i < s->column_count; i++)
            look_at(s->columns[i], array.children[i]);
        array.release(&array);
        /* not as agreed: no padding, a length too many */
        if (read_by(&r, data, chunk[1] - 1, lengths, chunk[0], 0, look) != -2)
            exit(10);
        data[lengths[0]] = ' '; /* nor is a message without a NUL behind it */
        if (read_by(&r, data, chunk[1], lengths, chunk[0], 0, look) != -2)
            exit(11);
        free(lengths);
        free(data);
        free(look);
    }
    tg_avro_free(r.avro);
    tg_csv_free(r.csv);
    tg_free(s);
    free(head);
    free(nodes);
    free(names);
}

int main(int count, char **paths)
{
    for (int i = 1; i < count; i++) {
        FILE *file = fopen(paths[i], "rb");
        if (!file)
            return 2;
        replay(file);
        fclose(file);
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
