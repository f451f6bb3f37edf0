/* Values of binary messages, checked and put into columns. */
#include "wire.h"

#define FIRST_DAY (-719162) /* 0001-01-01 */
#define LAST_DAY 2932896    /* 9999-12-31 */
#define LONGEST_TIME 64     /* bytes of a date or a time in words */

static bool is_event(enum kind kind)
{
    return kind == EPOCH_MS || kind == ISO_MS || kind == PATTERN_MS;
}

bool tg_wire_fits(const struct taking *t)
{
    enum kind kind = t->column->kind;
    switch (t->how) {
    case AS_NUMBER: return (kind >= INT8 && kind <= DECIMAL) || kind == DATE;
    case AS_INSTANT: return kind == TIMESTAMP && t->a > 0 && t->b > 0;
    case AS_EVENT: return is_event(kind) && t->a > 0 && t->b > 0;
    case AS_REAL: return kind == FLOAT || kind == DOUBLE;
    case AS_BOOLEAN: return kind == BOOLEAN;
    case AS_TEXT: case AS_BYTES: case AS_UUID: return kind == STRING;
    case AS_DATE: return kind == DATE;
    case AS_ISO: return kind == TIMESTAMP;
    case AS_ISO_MS: return is_event(kind);
    case AS_PATTERN_MS: return kind == PATTERN_MS;
    case AS_DECIMAL: return kind == DECIMAL && t->a >= 0;
    default: return false;
    }
}

#define STORE(type, value) ((type *)c->values)[c->length] = (type)(value)

static int128 power_of_ten(int32_t n)
{
    int128 power = 1;
    while (n-- > 0)
        power *= 10;
    return power;
}

/* `value` is the number times 10 to the `scale`; a power of 10 of at most 38 fits into 128 bits. */
static bool decimal(struct column *c, int128 value, int32_t scale)
{
    if (value == 0) {
        ;
    } else if (c->b >= scale) {
        int32_t shift = c->b - scale;
        if (shift >= c->a)
            return false;
        int128 limit = power_of_ten(c->a - shift);
        if (value >= limit || value <= -limit)
            return false;
        value *= power_of_ten(shift);
    } else {
        int32_t shift = scale - c->b;
        if (shift > 38)
            return false;
        int128 by = power_of_ten(shift), limit = power_of_ten(c->a);
        if (value % by)
            return false;
        value /= by;
        if (value >= limit || value <= -limit)
            return false;
    }
    memcpy(c->values + c->length * 16, &value, 16);
    return true;
}

bool tg_wire_decimal(struct column *c, int128 value, int32_t scale)
{
    if (!decimal(c, value, scale))
        return false;
    tg_append_valid(c);
    return true;
}

bool tg_wire_real(struct program *s, const struct taking *t, double value)
{
    struct column *c = t->column;
    (void)s;
    if (c->kind == DOUBLE) {
        if (value - value != 0) /* infinite, or no number */
            return false;
        STORE(double, value);
    } else {
        float nearest = (float)value;
        if (nearest - nearest != 0)
            return false;
        STORE(float, nearest);
    }
    tg_append_valid(c);
    return true;
}

static bool scaled(const struct taking *t, int64_t *value)
{
    if (*value > INT64_MAX / t->a || *value < INT64_MIN / t->a)
        return false;
    *value = tg_floor_divide(*value * t->a, t->b);
    return true;
}

bool tg_wire_whole(struct program *s, const struct taking *t, int64_t value)
{
    struct column *c = t->column;
    if (t->how == AS_INSTANT) {
        if (!scaled(t, &value) || !tg_in_years(tg_floor_divide(value, 1000)))
            return false;
        STORE(int64_t, value);
    } else if (t->how == AS_EVENT) {
        if (!scaled(t, &value) || !tg_in_years(value))
            return false;
        STORE(int64_t, value);
    } else {
        switch (c->kind) {
        case INT8:
            if (value != (int8_t)value)
                return false;
            STORE(int8_t, value);
            break;
        case INT16:
            if (value != (int16_t)value)
                return false;
            STORE(int16_t, value);
            break;
        case INT32:
            if (value != (int32_t)value)
                return false;
            STORE(int32_t, value);
            break;
        case INT64:
            STORE(int64_t, value);
            break;
        case FLOAT: case DOUBLE:
            return tg_wire_real(s, t, (double)value);
        case DECIMAL:
            return tg_wire_decimal(c, value, 0);
        case DATE:
            if (value < FIRST_DAY || value > LAST_DAY)
                return false;
            STORE(int32_t, value);
            break;
        default: return false;
        }
    }
    tg_append_valid(c);
    return true;
}

bool tg_wire_boolean(struct program *s, const struct taking *t, bool value)
{
    (void)s;
    tg_put_bit(t->column->values, t->column->length, value);
    tg_append_valid(t->column);
    return true;
}

bool tg_utf8(text p, int64_t length)
{
    text end = p + length;
    while (p < end) {
        uint64_t block;
        memcpy(&block, p, 8);
        if (LIKELY(!(block & 0x8080808080808080u))) {
            p += 8;
        } else if (*p < 0x80) {
            p++;
        } else {
            int n = tg_sequence(p);
            if (!n || n > end - p)
                return false;
            p += n;
        }
    }
    return true;
}

static bool put(struct program *s, struct column *c, const void *bytes, int64_t length)
{
    if (c->data_length + length >= INT32_MAX) /* offsets have 32 bits */
        return false;
    if ((!c->data || c->data_length + length > c->data_room) && !tg_more_data(s, c, length))
        return false;
    memcpy(c->data + c->data_length, bytes, (size_t)length);
    c->data_length += length;
    ((int32_t *)c->values)[c->length + 1] = (int32_t)c->data_length;
    tg_append_valid(c);
    return true;
}

/* Dates and times in words go to those who read them in JSON: behind a text they see a quote. */
static bool in_words(struct program *s, const struct taking *t, text p, int64_t length)
{
    struct column *c = t->column;
    uint8_t quoted[LONGEST_TIME + TG_PADDING] = {0};
    int64_t value;
    int32_t days;
    text after;
    if (length > LONGEST_TIME || memchr(p, '\\', (size_t)length)) /* JSON's escapes are none here */
        return false;
    memcpy(quoted, p, (size_t)length);
    quoted[length] = '"';
    switch (t->how) {
    case AS_DATE:
        after = tg_date(quoted, &days);
        break;
    case AS_PATTERN_MS:
        after = tg_pattern_ms(quoted, s->names + c->a, s->names + c->a + c->b, &value);
        break;
    default: after = tg_iso_micros(quoted, &value);
    }
    if (after != quoted + length + 1) {
        s->why = TIME;
        return false;
    }
    if (t->how == AS_DATE)
        STORE(int32_t, days);
    else
        STORE(int64_t, t->how == AS_ISO_MS ? tg_floor_divide(value, 1000) : value);
    tg_append_valid(c);
    return true;
}

static bool decimal_of_bytes(const struct taking *t, text p, int64_t length)
{
    if (length < 1 || length > 16)
        return false;
    uint128 bits = p[0] & 0x80 ? ~(uint128)0 : 0;
    for (int64_t i = 0; i < length; i++)
        bits = bits << 8 | p[i];
    int128 value;
    memcpy(&value, &bits, sizeof value);
    return tg_wire_decimal(t->column, value, t->a);
}

static bool uuid(struct program *s, struct column *c, text p, int64_t length)
{
    static const char digits[] = "0123456789abcdef";
    char words[36], *out = words;
    if (length != 16)
        return false;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = digits[p[i] >> 4];
        *out++ = digits[p[i] & 15];
    }
    return put(s, c, words, sizeof words);
}

bool tg_wire_bytes(struct program *s, const struct taking *t, text p, int64_t length)
{
    switch (t->how) {
    case AS_TEXT: return tg_utf8(p, length) && put(s, t->column, p, length);
    case AS_BYTES: return put(s, t->column, p, length);
    case AS_DECIMAL: return decimal_of_bytes(t, p, length);
    case AS_UUID: return uuid(s, t->column, p, length);
    default: return in_words(s, t, p, length);
    }
}

bool tg_wire_list_end(struct column *c, int64_t items)
{
    if (items > INT32_MAX)
        return false;
    ((int32_t *)c->values)[c->length + 1] = (int32_t)items;
    tg_append_valid(c);
    return true;
}

bool tg_wire_struct_end(struct program *s, struct column *c)
{
    for (struct column *child = c->child; child; child = child->sibling)
        if (child->length == c->length && !tg_append_null(s, child))
            return false;
    tg_append_valid(c);
    return true;
}
