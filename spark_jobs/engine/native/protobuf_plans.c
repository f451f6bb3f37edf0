/* The plans for protobuf messages: checked once, so that nothing has to be while messages are read. */
#include "protobuf.h"

#include <stdlib.h>

#define MOST_SLOTS 65536

static bool within(int64_t from, int64_t count, int64_t all)
{
    return from >= 0 && count >= 0 && from + count <= all;
}

static bool names_are_right(const struct protobuf *b, const struct field *f)
{
    if (!within(f->names, 3 * (int64_t)f->name_count, b->pool_count))
        return false;
    for (int32_t i = 0; i < f->name_count; i++) {
        const int32_t *name = b->pool + f->names + 3 * i;
        if (name[1] < 0 || name[2] < name[1] || name[2] > b->name_bytes || (i && name[-3] >= name[0]))
            return false;
    }
    return true;
}

/* Whether the column can hold what comes of a field's scalar. */
static bool scalar_fits(const struct field *f, const struct taker *t, const struct taking *taking)
{
    if (!tg_wire_fits(taking))
        return false;
    if (t->purpose == NAME)
        return f->type == T_ENUM && t->how == AS_TEXT;
    switch (f->type) {
    case T_BOOL: return t->how == AS_BOOLEAN;
    case T_FLOAT: case T_DOUBLE: return t->how == AS_REAL;
    case T_STRING: case T_BYTES: return t->how >= AS_TEXT && t->how < HOWS;
    case T_MESSAGE: return false;
    default: return t->how <= AS_EVENT;
    }
}

static bool stamp_is_right(const struct protobuf *b, const struct taker *t, const struct taking *taking)
{
    if (t->how != AS_INSTANT && t->how != AS_EVENT && t->how != AS_DECIMAL)
        return false;
    return tg_wire_fits(taking) && b->plans[t->plan].slots >= 2;
}

static bool taker_is_right(const struct protobuf *b, const struct field *f, const struct taker *t)
{
    if (t->column < -1 || t->column >= b->columns->count || t->list < -1 || t->list >= b->columns->count)
        return false;
    struct column *c = t->column < 0 ? NULL : &b->columns->nodes[t->column];
    struct taking taking = { c, t->how, t->a, t->b };
    if (t->purpose != VALUE && t->purpose != NAME && (f->type != T_MESSAGE || !within(t->plan, 1, b->plan_count)))
        return false;
    if ((t->list >= 0) != (f->repeated != 0))
        return false;
    if (f->repeated) {
        enum kind kind = b->columns->nodes[t->list].kind;
        if (kind != (t->purpose == INTO_MAP ? MAP : LIST))
            return false;
    }
    switch (t->purpose) {
    case VALUE: case NAME: return c && scalar_fits(f, t, &taking);
    case PATH: return !c;
    case INTO_STRUCT: return c && c->kind == STRUCT;
    case STAMP: return c && stamp_is_right(b, t, &taking);
    case INTO_MAP: return c && c->kind == MAP && t->list == t->column;
    default: return false;
    }
}

static bool field_is_right(const struct protobuf *b, const struct plan *plan, const struct field *f)
{
    if (f->number < 1 || f->type < 0 || f->type >= TYPES || f->slot < -1 || f->slot >= plan->slots || f->oneof < -1 ||
        f->oneof >= plan->slots || !within(f->takers, f->taker_count, b->taker_count) || !names_are_right(b, f))
        return false;
    if (f->type == T_MESSAGE && f->slot < 0 && !within(f->plan, 1, b->plan_count))
        return false;
    for (int32_t i = 0; i < f->taker_count; i++)
        if (!taker_is_right(b, f, &b->takers[f->takers + i]))
            return false;
    return true;
}

static bool plans_are_right(const struct protobuf *b)
{
    for (int32_t i = 0; i < b->plan_count; i++) {
        const struct plan *plan = &b->plans[i];
        if (!within(plan->fields, plan->field_count, b->field_count) || plan->slots < 0 ||
            plan->slots > MOST_SLOTS)
            return false;
        for (int32_t k = 0; k < plan->field_count; k++) {
            const struct field *f = &b->fields[plan->fields + k];
            if (!field_is_right(b, plan, f) || (k && f[-1].number >= f->number))
                return false;
        }
    }
    return b->plan_count > 0;
}

static void *copied(const void *from, size_t size)
{
    void *made = malloc(size + TG_PADDING);
    if (made) {
        memset((uint8_t *)made + size, 0, TG_PADDING);
        if (size)
            memcpy(made, from, size);
    }
    return made;
}

EXPORTED void tg_protobuf_free(struct protobuf *b)
{
    if (!b)
        return;
    free(b->plans);
    free(b->fields);
    free(b->takers);
    free(b->pool);
    free(b->names);
    free(b->waiting);
    free(b);
}

struct parts { /* as Python describes them: how many, and where */
    int64_t plans, fields, takers, pool, name_bytes;
    const void *plan, *field, *taker, *numbers, *names;
    int64_t header_lengths[2]; /* both 0: messages have no header */
    const void *headers[2];
};

/* NULL: out of memory, or it makes no sense. Plan 0 is the message's. */
EXPORTED struct protobuf *tg_protobuf_new(struct program *columns, const struct parts *parts)
{
    struct protobuf *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->columns = columns;
    b->plan_count = (int32_t)parts->plans;
    b->field_count = (int32_t)parts->fields;
    b->taker_count = (int32_t)parts->takers;
    b->pool_count = (int32_t)parts->pool;
    b->name_bytes = parts->name_bytes;
    b->plans = copied(parts->plan, (size_t)parts->plans * sizeof *b->plans);
    b->fields = copied(parts->field, (size_t)parts->fields * sizeof *b->fields);
    b->takers = copied(parts->taker, (size_t)parts->takers * sizeof *b->takers);
    b->pool = copied(parts->numbers, (size_t)parts->pool * sizeof *b->pool);
    b->names = copied(parts->names, (size_t)parts->name_bytes);
    bool right = b->plans && b->fields && b->takers && b->pool && b->names && plans_are_right(b);
    for (int i = 0; right && i < 2; i++) {
        int64_t length = parts->header_lengths[i];
        right = length >= 0 && length <= (int64_t)sizeof b->headers[i];
        if (!right || !length)
            continue;
        b->framed = true;
        b->header_lengths[i] = (int32_t)length;
        memcpy(b->headers[i], parts->headers[i], (size_t)length);
    }
    if (right)
        return b;
    tg_protobuf_free(b);
    return NULL;
}
