/* The programs for Avro messages: checked, so that nothing has to be while messages are read, and found by their ids. */
#include "avro.h"

#include <stdlib.h>

/* Where the schema of this id is, or should be. */
static int32_t place_of(const struct avro *a, int64_t id)
{
    int32_t low = 0, high = a->count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (a->schemas[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct schema *tg_avro_schema(struct avro *a, int64_t id)
{
    if (a->last >= a->count || a->schemas[a->last].id != id)
        a->last = place_of(a, id);
    return a->last < a->count && a->schemas[a->last].id == id ? &a->schemas[a->last] : NULL;
}

/* `framed`: messages begin with their schema's id; without, the id is 0. NULL: out of memory. */
EXPORTED struct avro *tg_avro_new(struct program *columns, int32_t framed)
{
    struct avro *a = calloc(1, sizeof *a);
    if (a) {
        a->columns = columns;
        a->framed = framed;
    }
    return a;
}

static void free_schema(struct schema *schema)
{
    free(schema->steps);
    free(schema->pool);
    free(schema->names);
}

EXPORTED void tg_avro_free(struct avro *a)
{
    if (!a)
        return;
    for (int32_t i = 0; i < a->count; i++)
        free_schema(&a->schemas[i]);
    free(a->schemas);
    free(a);
}

static bool place_is_right(const struct schema *schema, int32_t at)
{
    return at >= 0 && at < schema->count;
}

static bool pool_is_right(const struct schema *schema, const struct step *o, int64_t more)
{
    return o->a >= 0 && more >= 0 && o->a + more <= schema->pool_count;
}

/* Whether a step touches only what is there: columns of the right kinds, places in the program. */
static bool step_is_right(const struct avro *a, const struct schema *schema, const struct step *o, int64_t names)
{
    if (o->column < -1 || o->column >= a->columns->count)
        return false;
    struct taking t = { o->column < 0 ? NULL : &a->columns->nodes[o->column], o->how, o->a, o->b };
    enum kind kind = t.column ? t.column->kind : OBJECT;
    bool wanted = t.column != NULL, text_or_bytes = o->how >= AS_TEXT && o->how < HOWS;
    switch (o->op) {
    case END: case UNSURE: return true;
    case NULL_VALUE: return !wanted || kind != OBJECT;
    case BOOLEAN_VALUE: return !wanted || (o->how == AS_BOOLEAN && tg_wire_fits(&t));
    case INT: case LONG: return !wanted || (o->how <= AS_EVENT && tg_wire_fits(&t));
    case FLOAT_VALUE: case DOUBLE_VALUE: return !wanted || (o->how == AS_REAL && tg_wire_fits(&t));
    case FIXED: case BYTES: return o->size >= 0 && (!wanted || (text_or_bytes && tg_wire_fits(&t)));
    case ENUM:
        if (!wanted)
            return o->size >= 0;
        if (o->how != AS_TEXT || !tg_wire_fits(&t) || o->size < 0 || !pool_is_right(schema, o, (int64_t)o->size + 1))
            return false;
        for (int32_t i = 0; i < o->size; i++)
            if (schema->pool[o->a + i] < 0 || schema->pool[o->a + i] > schema->pool[o->a + i + 1] ||
                schema->pool[o->a + i + 1] > names)
                return false;
        return true;
    case UNION: case EACH:
        if (!pool_is_right(schema, o, o->b))
            return false;
        for (int32_t i = 0; i < o->b; i++)
            if (!place_is_right(schema, schema->pool[o->a + i]))
                return false;
        return true;
    case RECORD: return place_is_right(schema, o->a);
    case STRUCT_VALUE: return kind == STRUCT && place_is_right(schema, o->a);
    case LIST_VALUE: return kind == LIST && place_is_right(schema, o->a);
    case MAP_VALUE: return kind == MAP && t.column->child->kind == STRING && place_is_right(schema, o->a);
    case ITEMS: return !wanted && place_is_right(schema, o->a);
    default: return false;
    }
}

static void *copied(const void *from, size_t size)
{
    void *made = malloc(size + TG_PADDING);
    if (made) {
        if (size)
            memcpy(made, from, size);
        memset((uint8_t *)made + size, 0, TG_PADDING);
    }
    return made;
}

/* What messages of this id are; no step: that they are left to Python. 0; -1: out of memory, -2: it makes no sense. */
EXPORTED int64_t tg_avro_add(struct avro *a, int64_t id, const struct step *steps, int32_t count, const int32_t *pool,
                             int32_t pool_count, text names, int64_t size)
{
    struct schema schema = { id, count, pool_count, NULL, NULL, NULL };
    if (count < 0 || pool_count < 0 || size < 0 || tg_avro_schema(a, id))
        return -2;
    if (count && steps[count - 1].op != END)
        return -2;
    if (a->count == a->room) {
        int32_t room = a->room ? a->room * 2 : 16;
        struct schema *moved = realloc(a->schemas, (size_t)room * sizeof *moved);
        if (!moved)
            return -1;
        a->schemas = moved;
        a->room = room;
    }
    if (count) {
        schema.steps = copied(steps, (size_t)count * sizeof *steps);
        schema.pool = copied(pool, (size_t)pool_count * sizeof *pool);
        schema.names = copied(names, (size_t)size);
        bool right = schema.steps && schema.pool && schema.names;
        for (int32_t i = 0; right && i < count; i++)
            right = step_is_right(a, &schema, &schema.steps[i], size);
        if (!right) {
            bool memory = schema.steps && schema.pool && schema.names;
            free_schema(&schema);
            return memory ? -2 : -1;
        }
    }
    int32_t at = place_of(a, id);
    memmove(a->schemas + at + 1, a->schemas + at, (size_t)(a->count - at) * sizeof *a->schemas);
    a->schemas[at] = schema;
    a->count++;
    return 0;
}
