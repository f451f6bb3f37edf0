/* Plans for protobuf messages: which fields there are and what becomes of them. protobuf_program.py makes them. */
#ifndef TIDEGATE_PROTOBUF_H
#define TIDEGATE_PROTOBUF_H

#include "wire.h"

/* Python has the same numbers: protobuf_program.py. */
enum type {
    T_INT32 = 0, T_INT64, T_UINT32, T_UINT64, T_SINT32, T_SINT64, T_BOOL, T_ENUM, /* variable length */
    T_FIXED32 = 8, T_SFIXED32, T_FLOAT,    /* four bytes */
    T_FIXED64 = 11, T_SFIXED64, T_DOUBLE,  /* eight bytes */
    T_STRING = 14, T_BYTES, T_MESSAGE,     /* a length before them */
    TYPES = 17
};

enum purpose {
    VALUE = 0,   /* a scalar, by `how` */
    NAME = 1,    /* an enum's name */
    PATH = 2,    /* the message's own fields, by `plan` */
    INTO_STRUCT = 3,
    STAMP = 4,   /* seconds and nanoseconds: slots 0 and 1 of `plan`; `how`: AS_INSTANT, AS_EVENT, AS_DECIMAL (duration) */
    INTO_MAP = 5, /* an entry; several are not sure */
    PURPOSES = 6
};

struct taker {
    int32_t purpose, column, how, a, b, plan;
    int32_t list; /* the column that the elements of a repeated field belong to, MAP included; -1: not repeated */
};

struct field {
    int32_t number, type, repeated, presence;
    int32_t slot;  /* where its value waits for the message's end; -1: nobody wants it */
    int32_t oneof; /* the slot of its oneof; -1: none that matters */
    int32_t takers, taker_count;
    int32_t plan;                  /* MESSAGE: how one that nobody wants is checked */
    int32_t names, name_count, closed; /* ENUM: where in the pool its numbers and names are; see protobuf.c */
    int32_t known;                 /* without a taker here, and no unknown field all the same */
};

struct plan {
    int32_t fields, field_count, slots, all_known; /* all_known: unknown fields are not sure */
};

struct protobuf {
    struct program *columns;
    struct plan *plans;
    struct field *fields;
    struct taker *takers;
    int32_t *pool;
    uint8_t *names;
    int32_t plan_count, field_count, taker_count, pool_count;
    int64_t name_bytes;
    uint8_t headers[2][128]; /* what may follow the schema's id */
    int32_t header_lengths[2];
    bool framed;
    struct waiting *waiting; /* slots of all open messages */
    int64_t room;
};

struct waiting {
    uint64_t bits;
    text bytes;
    int64_t length;
    int32_t seen; /* how often; of a oneof: the last field's number */
};

#endif
