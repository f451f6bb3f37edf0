/* Avro messages: a program of steps for each writer's schema fills the columns. */
#include "avro.h"

#define MOST_RECORDS 200 /* records within records; avro_code.py */
#define MOST_NESTED 600  /* calls of `run` within each other: what is deeper is left to Python */
#define HEADER 5         /* a zero byte and the schema's id */

struct reading {
    struct program *s;
    const struct schema *schema;
    text end;
    int nested;
};

static text run(struct reading *r, int32_t at, text p, int records);

static inline struct taking taking_of(struct program *s, const struct step *o)
{
    return (struct taking){ &s->nodes[o->column], o->how, o->a, o->b };
}

static inline text length_of(struct reading *r, text p, int64_t *length)
{
    uint64_t number;
    p = tg_varint(p, &number);
    if (!p || p > r->end || number & 1 || number >> 1 > (uint64_t)(r->end - p))
        return NULL;
    *length = (int64_t)(number >> 1);
    return p;
}

static text symbol(struct reading *r, const struct step *o, text p)
{
    uint64_t number;
    p = tg_varint(p, &number);
    if (!p || number & 1 || number >> 1 >= (uint64_t)o->size)
        return NULL;
    if (o->column < 0)
        return p;
    const int32_t *ends = r->schema->pool + o->a + (number >> 1);
    struct taking t = taking_of(r->s, o);
    if (!tg_reserve(r->s, t.column) || !tg_wire_bytes(r->s, &t, r->schema->names + ends[0], ends[1] - ends[0]))
        return NULL;
    return p;
}

static text number(struct reading *r, const struct step *o, text p)
{
    uint64_t found;
    p = tg_varint(p, &found);
    if (!p)
        return NULL;
    int64_t value = tg_zigzag(found);
    if (o->op == INT && value != (int32_t)value)
        return NULL;
    if (o->column < 0)
        return p;
    struct taking t = taking_of(r->s, o);
    return tg_reserve(r->s, t.column) && tg_wire_whole(r->s, &t, value) ? p : NULL;
}

static text bytes(struct reading *r, const struct step *o, text p)
{
    int64_t length = o->size;
    if (o->op == BYTES ? !(p = length_of(r, p, &length)) : length > r->end - p)
        return NULL;
    if (o->column < 0)
        return p + length;
    struct taking t = taking_of(r->s, o);
    return tg_reserve(r->s, t.column) && tg_wire_bytes(r->s, &t, p, length) ? p + length : NULL;
}

static text real(struct reading *r, const struct step *o, text p)
{
    int size = o->op == FLOAT_VALUE ? 4 : 8;
    if (size > r->end - p)
        return NULL;
    if (o->column >= 0) {
        struct taking t = taking_of(r->s, o);
        if (!tg_reserve(r->s, t.column) || !tg_wire_real(r->s, &t, size == 4 ? tg_real32(p) : tg_real64(p)))
            return NULL;
    }
    return p + size;
}

static text boolean(struct reading *r, const struct step *o, text p)
{
    if (*p > 1)
        return NULL;
    if (o->column >= 0) {
        struct taking t = taking_of(r->s, o);
        if (!tg_reserve(r->s, t.column) || !tg_wire_boolean(r->s, &t, *p))
            return NULL;
    }
    return p + 1;
}

static text record(struct reading *r, const struct step *o, text p, int records)
{
    if (records >= MOST_RECORDS)
        return NULL;
    if (o->op == RECORD)
        return run(r, o->a, p, records + 1);
    struct column *c = &r->s->nodes[o->column];
    if (!tg_reserve(r->s, c) || !(p = run(r, o->a, p, records + 1)))
        return NULL;
    return tg_wire_struct_end(r->s, c) ? p : NULL;
}

/* A map's key, into its column if there is one; a key twice is not sure. */
static text key_of(struct reading *r, struct column *key, int since, text p)
{
    int64_t length;
    if (!(p = length_of(r, p, &length)) || !key)
        return p ? p + length : NULL;
    struct taking t = { key, AS_TEXT, 0, 0 };
    if (length > UINT32_MAX || !tg_first_time(r->s, since, tg_hash(p, (uint32_t)length)))
        return NULL;
    return tg_reserve(r->s, key) && tg_wire_bytes(r->s, &t, p, length) ? p + length : NULL;
}

/* Blocks of items, each with its count and perhaps its size before it. */
static text items(struct reading *r, const struct step *o, text p, int records)
{
    struct column *c = o->column < 0 ? NULL : &r->s->nodes[o->column];
    struct column *key = o->op == MAP_VALUE ? c->child : NULL, *item = key ? key->sibling : c ? c->child : NULL;
    bool map = o->op == MAP_VALUE || (o->op == ITEMS && o->size);
    int since = r->s->hash_count;
    if (c && !tg_reserve(r->s, c))
        return NULL;
    for (;;) {
        uint64_t number;
        text block_end = NULL;
        p = tg_varint(p, &number);
        if (!p || p > r->end)
            return NULL;
        int64_t count = tg_zigzag(number);
        if (!count)
            break;
        if (count < 0) {
            int64_t size;
            if (count < -(int64_t)INT32_MAX || !(p = length_of(r, p, &size)))
                return NULL;
            count = -count;
            block_end = p + size;
        }
        if (o->b < 1 || count > r->end - p)
            return NULL;
        for (; count; count--) {
            if (map && !(p = key_of(r, key, since, p)))
                return NULL;
            if (!(p = run(r, o->a, p, records)))
                return NULL;
            if (key && key->length != item->length)
                return NULL;
        }
        if (block_end && p != block_end)
            return NULL;
    }
    r->s->hash_count = since;
    return !c || tg_wire_list_end(c, item->length) ? p : NULL;
}

static text by_branch(struct reading *r, const struct step *o, text p, int records)
{
    uint64_t number;
    p = tg_varint(p, &number);
    if (!p || p > r->end || number & 1 || number >> 1 >= (uint64_t)o->b)
        return NULL;
    return run(r, r->schema->pool[o->a + (int64_t)(number >> 1)], p, records);
}

static text by_each(struct reading *r, const struct step *o, text from, int records)
{
    text p = NULL;
    for (int32_t i = 0; i < o->b; i++)
        if (!(p = run(r, r->schema->pool[o->a + i], from, records)))
            return NULL;
    return p;
}

/* What the steps from `at` on read; `records`: how many are open. */
static text run(struct reading *r, int32_t at, text p, int records)
{
    if (++r->nested > MOST_NESTED)
        return NULL;
    for (const struct step *o = r->schema->steps + at;; o++) {
        switch (o->op) {
        case END:
            r->nested--;
            return p;
        case NULL_VALUE: {
            struct column *c = o->column < 0 ? NULL : &r->s->nodes[o->column];
            if (c && (c->required || !tg_append_null(r->s, c)))
                return NULL;
            break;
        }
        case BOOLEAN_VALUE: p = boolean(r, o, p); break;
        case INT: case LONG: p = number(r, o, p); break;
        case FLOAT_VALUE: case DOUBLE_VALUE: p = real(r, o, p); break;
        case BYTES: case FIXED: p = bytes(r, o, p); break;
        case ENUM: p = symbol(r, o, p); break;
        case UNION: p = by_branch(r, o, p, records); break;
        case EACH: p = by_each(r, o, p, records); break;
        case RECORD: case STRUCT_VALUE: p = record(r, o, p, records); break;
        case LIST_VALUE: case MAP_VALUE: case ITEMS: p = items(r, o, p, records); break;
        default: return NULL;
        }
        if (!p || p > r->end)
            return NULL;
    }
}

/* The id of a message with a header; -1: it has none. */
static int64_t id_of(text p, text end)
{
    if (end - p < HEADER || *p)
        return -1;
    return (int64_t)p[1] << 24 | (int64_t)p[2] << 16 | (int64_t)p[3] << 8 | p[4];
}

static bool avro_message(struct program *s, void *context, text p, text end)
{
    struct avro *a = context;
    const struct schema *schema = tg_avro_schema(a, a->framed ? id_of(p, end) : 0);
    if (!schema || !schema->steps) {
        s->why = SCHEMA;
        return false;
    }
    struct reading r = { s, schema, end, 0 };
    return run(&r, 0, a->framed ? p + HEADER : p, 1) == end;
}

/* The first message from `from` on whose schema has not been added; -1: there is none. `data` as for tg_avro_read. */
EXPORTED int64_t tg_avro_stranger(struct avro *a, text data, int64_t size, const int32_t *lengths, int64_t count,
                                  int64_t from)
{
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t length = lengths[i] < 0 ? 0 : lengths[i];
        if (length > size - at - 1 - TG_PADDING)
            return -1;
        int64_t id = i < from || lengths[i] < 0 ? -1 : id_of(data + at, data + at + length);
        if (id >= 0 && !tg_avro_schema(a, id))
            return i;
        at += length + 1;
    }
    return -1;
}

/* Rows for `count` more messages; see tg_read_by. */
EXPORTED int64_t tg_avro_read(struct avro *a, text data, int64_t size, const int32_t *lengths, int64_t count,
                              int64_t expected, uint8_t *look)
{
    return tg_read_by(a->columns, avro_message, a, data, size, lengths, count, expected, look);
}
