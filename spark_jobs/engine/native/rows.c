/* The 64-bit hash of each row (docs/row-identity.md): column by column over blocks of rows, from Arrow's buffers. */
#include "export.h"

#include <stdlib.h>

/* Python has the same numbers: identity.py. A list or a struct is followed by its children; a map is a list of structs
 * of two. */
enum { BITS = 0, I8, I16, I32, I64, F32, F64, D32, D64, D128, BYTES, LARGE_BYTES, ITEMS, LARGE_ITEMS, FIELDS };

enum { BLOCK = 1024 };

#define NULL_HASH 0xbf58476d1ce4e5b9u
#define MULTIPLIER 0xd6e8feb86659fd93u

struct program_of_rows {
    const int32_t *next, *end; /* kind and number of children of each node, parents first */
    bool out_of_memory;
};

static inline uint64_t mixed(uint64_t x)
{
    x ^= x >> 32;
    x *= MULTIPLIER;
    x ^= x >> 32;
    x *= MULTIPLIER;
    return x ^ x >> 32;
}

/* What came before, then one more value. */
static inline uint64_t joined(uint64_t before, uint64_t hash)
{
    before ^= before >> 32;
    return before * MULTIPLIER ^ hash;
}

/* The last `length` bytes of a value of `all` bytes, as a number; 0 < length < 8. */
static inline uint64_t tail(const uint8_t *p, int64_t length, int64_t all)
{
    uint64_t word;
    uint32_t low, high;
    if (all >= 8) { /* those before it are read, too, and shifted out */
        memcpy(&word, p + length - 8, 8);
        return word >> 8 * (8 - length);
    }
    if (length >= 4) {
        memcpy(&low, p, 4);
        memcpy(&high, p + length - 4, 4);
        return low | (uint64_t)high << 8 * (length - 4);
    }
    return p[0] | (uint64_t)p[length >> 1] << 8 * (length >> 1) | (uint64_t)p[length - 1] << 8 * (length - 1);
}

static inline uint64_t bytes_hash(const uint8_t *p, int64_t all)
{
    uint64_t hash = 0xe17a1465u ^ (uint64_t)all * 0xc6a4a7935bd1e995u, word;
    int64_t length = all;
    for (; length >= 8; p += 8, length -= 8) {
        memcpy(&word, p, 8);
        hash = (hash ^ word) * MULTIPLIER;
    }
    if (length)
        hash = (hash ^ tail(p, length, all)) * MULTIPLIER;
    return mixed(hash);
}

static inline uint64_t float_hash(float value)
{
    uint32_t bits;
    value = value == 0 ? 0 : value;
    memcpy(&bits, &value, sizeof bits);
    return mixed(value != value ? 0x7fc00000u : bits);
}

static inline uint64_t double_hash(double value)
{
    uint64_t bits;
    value = value == 0 ? 0 : value;
    memcpy(&bits, &value, sizeof bits);
    return mixed(value != value ? 0x7ff8000000000000u : bits);
}

static inline bool bit(const uint8_t *bits, int64_t at)
{
    return bits[at >> 3] >> (at & 7) & 1;
}

static inline const uint8_t *validity(const struct ArrowArray *array)
{
    return array->null_count ? array->buffers[0] : NULL;
}

static void join_all(uint64_t *state, const uint64_t *hashes, int64_t count, bool first)
{
    if (first)
        memcpy(state, hashes, (size_t)count * sizeof *state);
    else
        for (int64_t i = 0; i < count; i++)
            state[i] = joined(state[i], hashes[i]);
}

#define EACH(type, hash)                                       \
    do {                                                       \
        const type *values = (const type *)array->buffers[1] + at; \
        for (int64_t i = 0; i < count; i++)                    \
            hashes[i] = hash;                                  \
    } while (0)

#define EACH_BYTES(type)                                                                    \
    do {                                                                                    \
        const type *ends = (const type *)array->buffers[1] + at;                            \
        const uint8_t *data = array->buffers[2] ? array->buffers[2] : (const uint8_t *)"";  \
        for (int64_t i = 0; i < count; i++)                                                 \
            hashes[i] = bytes_hash(data + ends[i], (int64_t)ends[i + 1] - (int64_t)ends[i]); \
    } while (0)

/* `count` values from `at`, the array's own offset included. */
static bool hash_values(int32_t kind, const struct ArrowArray *array, int64_t at, int64_t count, uint64_t *hashes)
{
    switch (kind) {
    case BITS:
        for (int64_t i = 0; i < count; i++)
            hashes[i] = mixed(bit(array->buffers[1], at + i));
        return true;
    case I8:
        EACH(int8_t, mixed((uint32_t)values[i]));
        return true;
    case I16:
        EACH(int16_t, mixed((uint32_t)values[i]));
        return true;
    case I32:
        EACH(int32_t, mixed((uint32_t)values[i]));
        return true;
    case I64:
        EACH(uint64_t, mixed(values[i]));
        return true;
    case F32:
        EACH(float, float_hash(values[i]));
        return true;
    case F64:
        EACH(double, double_hash(values[i]));
        return true;
    case D32:
    case D64:
    case D128: {
        const uint64_t *values = (const uint64_t *)array->buffers[1] + 2 * at;
        for (int64_t i = 0; i < count; i++) {
            uint64_t low = values[2 * i];
            hashes[i] = mixed(kind == D32 ? (uint32_t)low : low);
            if (kind == D128)
                hashes[i] ^= mixed(values[2 * i + 1]);
        }
        return true;
    }
    case BYTES:
        EACH_BYTES(int32_t);
        return true;
    case LARGE_BYTES:
        EACH_BYTES(int64_t);
        return true;
    }
    return false;
}

static bool fold(struct program_of_rows *p, const struct ArrowArray *array, int64_t at, int64_t count,
                 uint64_t *state, bool first, const uint8_t *dead);

static bool fold_fields(struct program_of_rows *p, const struct ArrowArray *array, int32_t children, int64_t at,
                        int64_t count, uint64_t *state, bool first, const uint8_t *dead)
{
    const uint8_t *valid = validity(array);
    uint8_t mine[BLOCK];
    if (valid) { /* a field of a struct that is null is null, whatever its buffers say */
        for (int64_t i = 0; i < count; i++)
            mine[i] = !bit(valid, at + i) || (dead && dead[i]);
        dead = mine;
    }
    for (int32_t i = 0; i < children; i++)
        if (!fold(p, array->children[i], at, count, state, first && !i, dead))
            return false;
    return true;
}

static inline int64_t end_of(int32_t kind, const struct ArrowArray *array, int64_t at)
{
    return kind == ITEMS ? ((const int32_t *)array->buffers[1])[at] : ((const int64_t *)array->buffers[1])[at];
}

static bool fold_items(struct program_of_rows *p, int32_t kind, const struct ArrowArray *array, int64_t at,
                       int64_t count, uint64_t *state, bool first, const uint8_t *dead)
{
    int64_t low = count ? end_of(kind, array, at) : 0, high = count ? end_of(kind, array, at + count) : 0;
    uint64_t *items = malloc((size_t)(high - low + 1) * sizeof *items);
    p->out_of_memory = !items;
    bool done = items != NULL;
    struct program_of_rows after = *p;
    for (int64_t from = low; done && (from < high || from == low); from += BLOCK) {
        after = *p;
        done = fold(&after, array->children[0], from, high - from < BLOCK ? high - from : BLOCK, items + (from - low),
                    true, NULL);
    }
    *p = after;
    const uint8_t *valid = validity(array);
    for (int64_t i = 0; done && i < count; i++) {
        bool null = (valid && !bit(valid, at + i)) || (dead && dead[i]);
        int64_t next = end_of(kind, array, at + i) - low, end = null ? next : end_of(kind, array, at + i + 1) - low;
        if (first)
            state[i] = next < end ? items[next++] : NULL_HASH;
        for (; next < end; next++)
            state[i] = joined(state[i], items[next]);
    }
    free(items);
    return done;
}

/* At most BLOCK values from `at` join `state`; `dead`: those that are null for the sake of what they are a part of. */
static bool fold(struct program_of_rows *p, const struct ArrowArray *array, int64_t at, int64_t count,
                 uint64_t *state, bool first, const uint8_t *dead)
{
    if (p->next == p->end)
        return false;
    int32_t kind = p->next[0], children = p->next[1];
    p->next += 2;
    if (array->n_children != children || array->dictionary)
        return false;
    at += array->offset;
    if (kind == FIELDS)
        return fold_fields(p, array, children, at, count, state, first, dead);
    if (kind == ITEMS || kind == LARGE_ITEMS)
        return fold_items(p, kind, array, at, count, state, first, dead);
    uint64_t hashes[BLOCK];
    if (count && !hash_values(kind, array, at, count, hashes))
        return false;
    const uint8_t *valid = validity(array);
    if (valid)
        for (int64_t i = 0; i < count; i++)
            hashes[i] = bit(valid, at + i) ? hashes[i] : NULL_HASH;
    if (dead)
        for (int64_t i = 0; i < count; i++)
            hashes[i] = dead[i] ? NULL_HASH : hashes[i];
    join_all(state, hashes, count, first);
    return true;
}

/* The hash of each row of `array`, a struct array of all columns, which is released. `nodes`: twice the length of
 * `program`. Returns 0; -1: out of memory, -2: the array is not as the program says. */
EXPORTED int64_t tg_row_hashes(const int32_t *program, int64_t nodes, struct ArrowArray *array, uint64_t *hashes)
{
    int64_t answer = 0;
    for (int64_t at = 0; at < array->length && !answer; at += BLOCK) {
        struct program_of_rows p = { program, program + 2 * nodes, false };
        int64_t count = array->length - at < BLOCK ? array->length - at : BLOCK;
        if (!fold(&p, array, at, count, hashes + at, true, NULL))
            answer = p.out_of_memory ? -1 : -2;
    }
    array->release(array);
    return answer;
}
