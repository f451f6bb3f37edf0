/* Binary messages into Arrow columns: what the wire formats share.
 *
 * As with JSON, only what is sure is taken. A message's bytes are in [p, end), a NUL follows, and TG_PADDING bytes may be
 * read behind it; so a number needs no check before it is read, but its end has to be checked afterwards. */
#ifndef TIDEGATE_WIRE_H
#define TIDEGATE_WIRE_H

#include "json_native.h"

/* What a value becomes; Python has the same numbers: wire_program.py. */
enum how {
    AS_NUMBER = 0,  /* a whole number, by the column's kind: integers, FLOAT, DOUBLE, DECIMAL, DATE (days) */
    AS_INSTANT = 1, /* a whole number times a divided by b: microseconds of a TIMESTAMP */
    AS_EVENT = 2,   /* a whole number times a divided by b: milliseconds of the event time */
    AS_REAL = 3,
    AS_BOOLEAN = 4,
    AS_TEXT = 5, /* UTF-8 */
    AS_BYTES = 6,
    AS_DATE = 7, /* text, and so are the next three */
    AS_ISO = 8,
    AS_ISO_MS = 9,
    AS_PATTERN_MS = 10,
    AS_DECIMAL = 11, /* two's complement, big-endian, times 10 to the a */
    AS_UUID = 12,    /* 16 bytes */
    HOWS = 13
};

struct taking {
    struct column *column;
    int32_t how, a, b;
};

/* Whether the column can hold what comes of it. */
bool tg_wire_fits(const struct taking *t);

/* Each appends a row to the column, for which there is room; false: not sure. */
bool tg_wire_whole(struct program *s, const struct taking *t, int64_t value);
bool tg_wire_real(struct program *s, const struct taking *t, double value);
bool tg_wire_boolean(struct program *s, const struct taking *t, bool value);
bool tg_wire_bytes(struct program *s, const struct taking *t, text p, int64_t length);
/* `value` is the number times 10 to the `scale`. */
bool tg_wire_decimal(struct column *c, int128 value, int32_t scale);
bool tg_wire_list_end(struct column *c, int64_t items);
/* Fields of the struct's next row that have no value are null; then it is a row. */
bool tg_wire_struct_end(struct program *s, struct column *c);

/* Whether [p, p + length) is UTF-8. What is read behind it belongs to the message's padding. */
bool tg_utf8(text p, int64_t length);

/* At most 10 bytes and 64 bits. */
static inline text tg_varint(text p, uint64_t *value)
{
    uint64_t found = *p++;
    if (LIKELY(found < 0x80)) {
        *value = found;
        return p;
    }
    found &= 0x7F;
    for (int shift = 7; shift <= 63; shift += 7) {
        uint64_t byte = *p++;
        if (shift == 63 && byte > 1)
            return NULL;
        found |= (byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = found;
            return p;
        }
    }
    return NULL;
}

static inline int64_t tg_zigzag(uint64_t value)
{
    return (int64_t)(value >> 1 ^ (~(value & 1) + 1));
}

static inline double tg_real64(text p)
{
    uint64_t bits = 0;
    double value;
    for (int i = 7; i >= 0; i--)
        bits = bits << 8 | p[i];
    memcpy(&value, &bits, 8);
    return value;
}

static inline double tg_real32(text p)
{
    uint32_t bits = (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

#endif
