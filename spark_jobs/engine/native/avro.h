/* Programs for Avro messages, one for each writer's schema: avro_program.py makes them, avro_schemas.c keeps them. */
#ifndef TIDEGATE_AVRO_H
#define TIDEGATE_AVRO_H

#include "wire.h"

/* Python has the same numbers: avro_program.py. */
enum op {
    END = 0,
    NULL_VALUE = 1,
    BOOLEAN_VALUE = 2,
    INT = 3,
    LONG = 4,
    FLOAT_VALUE = 5,
    DOUBLE_VALUE = 6,
    BYTES = 7, /* string too */
    FIXED = 8, /* size: bytes */
    ENUM = 9,  /* size: symbols; a: where in the pool their ends in `names` are, the first one's beginning before them */
    UNION = 10, /* a: where in the pool the places of the branches are, b: how many */
    EACH = 11,  /* the same value by several parts of the program: as UNION */
    RECORD = 12, /* a: the place of its fields */
    STRUCT_VALUE = 13,
    LIST_VALUE = 14, /* a: the place of the item; b: the least bytes of one */
    MAP_VALUE = 15,
    ITEMS = 16, /* of an array, or with size 1 of a map, that nobody wants: as LIST_VALUE */
    UNSURE = 17,
    OPS = 18
};

/* As Python describes it. */
struct step {
    int32_t op, column, how, a, b, size; /* column: an index of nodes; -1: nobody wants the value */
};

struct schema {
    int64_t id;
    int32_t count, pool_count;
    struct step *steps; /* none: every message is left to Python */
    int32_t *pool;
    uint8_t *names;
};

struct avro {
    struct program *columns;
    struct schema *schemas; /* in the order of their ids */
    int32_t count, room, last;
    bool framed;
};

/* The schema of this id; NULL: it has not been added. */
const struct schema *tg_avro_schema(struct avro *a, int64_t id);

#endif
