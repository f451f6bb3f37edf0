/* Protobuf messages: their fields wait until the message ends, because the last one counts; then they become rows. */
#include "protobuf.h"

#include <stdlib.h>

#define MOST_NESTED 60 /* Google's library takes 100 levels */
#define HEADER 5
#define NANOS 1000000000
#define MOST_SECONDS 315576000000 /* of a duration */

struct reading {
    struct program *s;
    struct protobuf *b;
    int64_t top; /* slots in use */
    int nested;
};

static bool message(struct reading *r, int32_t number, text p, text end, int64_t *kept);

static int wire_type(int32_t type)
{
    return type <= T_ENUM ? 0 : type <= T_FLOAT ? 5 : type <= T_DOUBLE ? 1 : 2;
}

/* A tag or a length: Google's library takes at most five bytes. */
static text short_number(text p, text end, uint64_t *value)
{
    text after = tg_varint(p, value);
    return after && after <= end && after - p <= 5 && *value <= UINT32_MAX ? after : NULL;
}

static text length_of(text p, text end, int64_t *length)
{
    uint64_t number;
    p = short_number(p, end, &number);
    if (!p || number > (uint64_t)(end - p))
        return NULL;
    *length = (int64_t)number;
    return p;
}

/* The number or the bytes of a field. */
static text raw(int wire, text p, text end, struct waiting *w)
{
    switch (wire) {
    case 0:
        p = tg_varint(p, &w->bits);
        return p && p <= end ? p : NULL;
    case 1: case 5: {
        int size = wire == 1 ? 8 : 4;
        if (end - p < size)
            return NULL;
        w->bits = 0;
        for (int i = size - 1; i >= 0; i--)
            w->bits = w->bits << 8 | p[i];
        return p + size;
    }
    case 2:
        if (!(p = length_of(p, end, &w->length)))
            return NULL;
        w->bytes = p;
        return p + w->length;
    default: return NULL; /* groups, and what does not exist */
    }
}

static bool whole(int32_t type, uint64_t bits, int64_t *value)
{
    switch (type) {
    case T_INT32: case T_ENUM: case T_SFIXED32: *value = (int32_t)(uint32_t)bits; return true;
    case T_UINT32: case T_FIXED32: *value = (int64_t)(uint32_t)bits; return true;
    case T_SINT32: *value = (int32_t)tg_zigzag((uint32_t)bits); return true;
    case T_SINT64: *value = tg_zigzag(bits); return true;
    default: *value = (int64_t)bits; return type == T_INT64 || type == T_SFIXED64 || *value >= 0;
    }
}

/* A number, and where its name begins and ends, three by three in the pool; in the order of the numbers. */
static const int32_t *name_of(struct reading *r, const struct field *f, int32_t number)
{
    const int32_t *names = r->b->pool + f->names;
    int32_t low = 0, high = f->name_count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (names[3 * middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < f->name_count && names[3 * low] == number ? names + 3 * low : NULL;
}

static bool put_scalar(struct reading *r, const struct field *f, const struct taker *t, const struct waiting *w)
{
    struct taking taking = { &r->s->nodes[t->column], t->how, t->a, t->b };
    int64_t value;
    if (!tg_reserve(r->s, taking.column))
        return false;
    switch (f->type) {
    case T_BOOL: return tg_wire_boolean(r->s, &taking, w->bits != 0);
    case T_FLOAT: case T_DOUBLE: {
        uint8_t bytes[8];
        for (int i = 0; i < 8; i++)
            bytes[i] = (uint8_t)(w->bits >> 8 * i);
        return tg_wire_real(r->s, &taking, f->type == T_FLOAT ? tg_real32(bytes) : tg_real64(bytes));
    }
    case T_STRING: case T_BYTES: return tg_wire_bytes(r->s, &taking, w->bytes, w->length);
    default: break;
    }
    if (!whole(f->type, w->bits, &value))
        return false;
    if (f->type == T_ENUM && (f->closed || t->purpose == NAME)) {
        const int32_t *name = name_of(r, f, (int32_t)value);
        if (!name)
            return false;
        if (t->purpose == NAME)
            return tg_wire_bytes(r->s, &taking, r->b->names + name[1], name[2] - name[1]);
    }
    return tg_wire_whole(r->s, &taking, value);
}

static bool put_stamp(struct reading *r, const struct taker *t, const struct waiting *w)
{
    struct taking taking = { &r->s->nodes[t->column], t->how, 1, t->how == AS_EVENT ? 1000 : 1 };
    int64_t kept[2]; /* seconds, nanoseconds */
    if (!message(r, t->plan, w->bytes, w->bytes + w->length, kept) || !tg_reserve(r->s, taking.column))
        return false;
    if (t->how == AS_DECIMAL) {
        if (kept[1] >= NANOS || kept[1] <= -NANOS || kept[0] > MOST_SECONDS || kept[0] < -MOST_SECONDS ||
            (kept[0] < 0 && kept[1] > 0) || (kept[0] > 0 && kept[1] < 0))
            return false;
        return tg_wire_decimal(taking.column, (int128)kept[0] * NANOS + kept[1], 9);
    }
    if (kept[1] < 0 || kept[1] >= NANOS || kept[0] > MOST_SECONDS || kept[0] < -MOST_SECONDS)
        return false; /* seconds of the years 1 to 9999 are fewer */
    return tg_wire_whole(r->s, &taking, kept[0] * 1000000 + kept[1] / 1000);
}

/* A value that is not to wait any longer: a message, or an element of a repeated field. */
static bool put(struct reading *r, const struct field *f, const struct taker *t, const struct waiting *w)
{
    text p = w->bytes, end = p + w->length;
    struct column *c = t->column < 0 ? NULL : &r->s->nodes[t->column];
    switch (t->purpose) {
    case VALUE: case NAME: return put_scalar(r, f, t, w);
    case STAMP: return put_stamp(r, t, w);
    case INTO_STRUCT:
        return tg_reserve(r->s, c) && message(r, t->plan, p, end, NULL) && tg_wire_struct_end(r->s, c);
    case INTO_MAP: return message(r, t->plan, p, end, NULL) && c->child->length == c->child->sibling->length;
    default: return message(r, t->plan, p, end, NULL);
    }
}

static bool put_all(struct reading *r, const struct field *f, const struct waiting *w)
{
    for (int32_t i = 0; i < f->taker_count; i++)
        if (!put(r, f, &r->b->takers[f->takers + i], w))
            return false;
    return true;
}

/* Numbers without tags between them. */
static bool packed(struct reading *r, const struct field *f, const struct waiting *all)
{
    struct waiting w = { 0 };
    for (text p = all->bytes, end = p + all->length; p < end;)
        if (!(p = raw(wire_type(f->type), p, end, &w)) || !put_all(r, f, &w))
            return false;
    return true;
}

/* What nobody wants has to be right all the same. */
static bool checked(struct reading *r, const struct field *f, const struct waiting *w)
{
    if (f->type == T_MESSAGE)
        return message(r, f->plan, w->bytes, w->bytes + w->length, NULL);
    return f->type != T_STRING || tg_utf8(w->bytes, w->length);
}

static bool packed_is_right(const struct field *f, const struct waiting *all)
{
    struct waiting w;
    for (text p = all->bytes, end = p + all->length; p < end;)
        if (!(p = raw(wire_type(f->type), p, end, &w)))
            return false;
    return true;
}

/* One field of the message whose slots begin at `base`. */
static bool take(struct reading *r, const struct field *f, int wire, const struct waiting *w, int64_t base)
{
    bool in_a_pack = wire == 2 && wire_type(f->type) != 2;
    if (wire != wire_type(f->type) && !(in_a_pack && f->repeated))
        return false;
    if (f->oneof >= 0) {
        struct waiting *oneof = &r->b->waiting[base + f->oneof];
        if (oneof->seen && oneof->seen != f->number)
            return false;
        oneof->seen = f->number;
    }
    if (f->slot < 0)
        return in_a_pack ? packed_is_right(f, w) : checked(r, f, w);
    struct waiting *slot = &r->b->waiting[base + f->slot];
    int32_t seen = slot->seen;
    if (f->repeated) {
        slot->seen = 1;
        if (seen && f->taker_count && r->b->takers[f->takers].purpose == INTO_MAP)
            return false;
        return in_a_pack ? packed(r, f, w) : put_all(r, f, w);
    }
    if (f->type == T_MESSAGE) { /* several would have to be merged */
        slot->seen = 1;
        return !seen && put_all(r, f, w);
    }
    if (f->type == T_STRING && seen && !tg_utf8(slot->bytes, slot->length)) /* the one that does not count */
        return false;
    if (f->closed && !name_of(r, f, (int32_t)(uint32_t)w->bits)) /* then it is an unknown field */
        return false;
    *slot = *w;
    slot->seen = 1;
    return true;
}

/* What has waited for the message's end; what is missing without presence is its default, zero. */
static bool finish(struct reading *r, const struct plan *plan, int64_t base)
{
    for (int32_t i = 0; i < plan->field_count; i++) {
        const struct field *f = &r->b->fields[plan->fields + i];
        if (f->slot < 0)
            continue;
        if (f->repeated) {
            for (int32_t k = 0; k < f->taker_count; k++) {
                struct column *c = &r->s->nodes[r->b->takers[f->takers + k].list];
                if (!tg_reserve(r->s, c) || !tg_wire_list_end(c, c->child->length))
                    return false;
            }
        } else if (f->type != T_MESSAGE) {
            struct waiting w = r->b->waiting[base + f->slot];
            if (!w.seen && f->presence)
                continue;
            if (!w.seen)
                w = (struct waiting){ 0, (text) "", 0, 0 };
            if (!put_all(r, f, &w))
                return false;
        }
    }
    return true;
}

static const struct field *find(const struct field *fields, int32_t count, int32_t *hint, uint32_t number)
{
    for (int32_t at = *hint; at < *hint + 2 && at < count; at++) /* the same again, or the next one */
        if (fields[at].number == (int32_t)number) {
            *hint = at;
            return &fields[at];
        }
    int32_t low = 0, high = count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if ((uint32_t)fields[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == count || fields[low].number != (int32_t)number)
        return NULL;
    *hint = low;
    return &fields[low];
}

static bool parse(struct reading *r, const struct plan *plan, text p, text end, int64_t base)
{
    const struct field *fields = r->b->fields + plan->fields;
    int32_t hint = 0;
    while (p < end) {
        uint64_t tag;
        struct waiting w = { 0, NULL, 0, 0 };
        if (!(p = short_number(p, end, &tag)) || !(tag >> 3))
            return false;
        int wire = (int)(tag & 7);
        if (!(p = raw(wire, p, end, &w)))
            return false;
        const struct field *f = find(fields, plan->field_count, &hint, (uint32_t)(tag >> 3));
        if (plan->all_known && (!f || (f->slot < 0 && !f->known)))
            return false;
        if (f && !take(r, f, wire, &w, base))
            return false;
    }
    return true;
}

/* `kept`: the numbers in the first two slots, instead of rows. */
static bool message(struct reading *r, int32_t number, text p, text end, int64_t *kept)
{
    const struct plan *plan = &r->b->plans[number];
    int64_t base = r->top;
    if (++r->nested > MOST_NESTED)
        return false;
    r->top += plan->slots;
    if (r->top > r->b->room) {
        int64_t room = r->top * 2 + 64;
        struct waiting *moved = realloc(r->b->waiting, (size_t)room * sizeof *moved);
        if (!moved) {
            r->s->out_of_memory = true;
            return false;
        }
        r->b->waiting = moved;
        r->b->room = room;
    }
    if (plan->slots)
        memset(r->b->waiting + base, 0, (size_t)plan->slots * sizeof *r->b->waiting);
    if (!parse(r, plan, p, end, base))
        return false;
    if (kept) {
        const struct waiting *w = r->b->waiting + base;
        kept[0] = (int64_t)w[0].bits;
        kept[1] = (int32_t)(uint32_t)w[1].bits;
    } else if (!finish(r, plan, base)) {
        return false;
    }
    r->top = base;
    r->nested--;
    return true;
}

static bool protobuf_message(struct program *s, void *context, text p, text end)
{
    struct protobuf *b = context;
    struct reading r = { s, b, 0, 0 };
    if (b->framed) {
        bool ours = false;
        if (end - p <= HEADER || *p)
            return false;
        p += HEADER;
        for (int i = 0; i < 2 && !ours; i++) {
            int32_t length = b->header_lengths[i];
            if (length && length <= end - p && !memcmp(p, b->headers[i], (size_t)length)) {
                p += length;
                ours = true;
            }
        }
        if (!ours)
            return false;
    }
    return message(&r, 0, p, end, NULL);
}

/* Rows for `count` more messages; see tg_read_by. */
EXPORTED int64_t tg_protobuf_read(struct protobuf *b, text data, int64_t size, const int32_t *lengths, int64_t count,
                                  int64_t expected, uint8_t *look)
{
    return tg_read_by(b->columns, protobuf_message, b, data, size, lengths, count, expected, look);
}
