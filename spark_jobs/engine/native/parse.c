/* One pass over a message: checked as a whole, and what columns want put into them. */
#include "keys.h"

static text value_of(struct program *s, struct column *c, text p, int depth);

static text unsure(struct program *s, enum why why)
{
    s->why = why;
    return NULL;
}

bool tg_first_time(struct program *s, int since, uint64_t hash)
{
    for (int i = since; i < s->hash_count; i++)
        if (s->hashes[i] == hash)
            return false;
    if (s->hash_count == TG_MAX_HASHES)
        return false;
    s->hashes[s->hash_count++] = hash;
    return true;
}

/* An object whose keys matter: no key twice. `p` is behind the brace, `depth` counts it. */
text tg_members(struct program *s, struct column *o, text p, int depth)
{
    struct slot *guess = o->keys.first, **learn = &o->keys.first;
    uint64_t serial = ++s->serial;
    int since = s->hash_count;
    p = tg_space(p);
    if (*p == '}')
        return p + 1;
    for (;;) {
        struct slot *slot = guess;
        text key;
        uint32_t length;
        uint64_t words[2];
        bool is_short;
        if (*p++ != '"')
            return NULL;
        if (LIKELY(guess && guessed(guess, p))) {
            key = guess->key;
            length = guess->length;
            p += length + 1;
        } else if (is_short = short_key(p, words), is_short && (slot = recalled(&o->keys, words))) {
            *learn = slot;
            key = slot->key;
            length = slot->length;
            p += length + 1;
        } else {
            text written = p;
            if (!(p = tg_take_key(s, p, &key, &length)))
                return unsure(s, KEY);
            uint64_t hash = tg_hash(key, length);
            slot = length <= TG_LONG_KEY ? tg_slot(&o->keys, key, length, hash) : NULL;
            if (slot) {
                *learn = slot;
                key = slot->key; /* the scratch may be needed again before the value's end */
                if (is_short && slot->plain && p - written == length + 1) /* without an escape */
                    remember(&o->keys, words, slot);
            } else if (!tg_first_time(s, since, hash)) {
                return unsure(s, KEY);
            }
        }
        if (slot) {
            if (slot->stamp == serial)
                return NULL;
            slot->stamp = serial;
            learn = &slot->next;
            guess = slot->next;
        } else {
            guess = NULL;
        }
        p = tg_space(p);
        if (*p != ':')
            return NULL;
        p = tg_space(p + 1);
        text from = p;
        if (slot && slot->child) {
            for (struct column *c = slot->child; c; c = c->twin)
                if (!(p = value_of(s, c, from, depth)))
                    return NULL;
        } else {
            if (!(p = tg_skip_value(p, depth)))
                return NULL;
            if (o->b && !(slot && slot->known) && !tg_unknown(s, o, key, length, from, p))
                return NULL;
        }
        p = tg_space(p);
        if (*p == ',') {
            p = tg_space(p + 1);
            continue;
        }
        s->hash_count = since;
        return *p == '}' ? p + 1 : NULL;
    }
}

static text list_of(struct program *s, struct column *c, text p, int depth)
{
    struct column *item = c->child;
    p = tg_space(p);
    if (*p == ']') {
        p++;
    } else {
        for (;;) {
            if (!(p = value_of(s, item, p, depth)))
                return NULL;
            p = tg_space(p);
            if (*p != ',')
                break;
            p = tg_space(p + 1);
        }
        if (*p++ != ']')
            return NULL;
    }
    ((int32_t *)c->values)[c->length + 1] = (int32_t)item->length;
    tg_append_valid(c);
    return p;
}

static text string_of(struct program *s, struct column *c, text p)
{
    if (!(p = tg_take_string(s, c, p)))
        return NULL;
    ((int32_t *)c->values)[c->length + 1] = (int32_t)c->data_length;
    tg_append_valid(c);
    return p;
}

/* The value itself, for Python to read. */
static text json_text_of(struct program *s, struct column *c, text from, int depth)
{
    text p = tg_skip_value(from, depth);
    if (!p || !tg_dump(s, c, from, p))
        return NULL;
    ((int32_t *)c->values)[c->length + 1] = (int32_t)c->data_length;
    tg_append_valid(c);
    return p;
}

/* A number or a boolean as it is written, for a string that may be spelled so. */
static text scalar_text_of(struct program *s, struct column *c, text from)
{
    text p = from;
    if (!memcmp(p, "true", 4))
        p += 4;
    else if (!memcmp(p, "false", 5))
        p += 5;
    else
        p = tg_skip_number(p);
    if (!p || !tg_take_bytes(s, c, from, p))
        return NULL;
    ((int32_t *)c->values)[c->length + 1] = (int32_t)c->data_length;
    tg_append_valid(c);
    return p;
}

#define STORE(type, value) ((type *)c->values)[c->length] = (type)(value)

static inline text integer_of(struct column *c, text p)
{
    int64_t value;
    if (!(p = tg_integer(p, &value)))
        return NULL;
    switch (c->kind) {
    case INT8:
        if (value != (int8_t)value)
            return NULL;
        STORE(int8_t, value);
        break;
    case INT16:
        if (value != (int16_t)value)
            return NULL;
        STORE(int16_t, value);
        break;
    case INT32:
        if (value != (int32_t)value)
            return NULL;
        STORE(int32_t, value);
        break;
    case EPOCH_MS:
        if (value > INT64_MAX / c->a || value < INT64_MIN / c->a)
            return NULL;
        value = tg_floor_divide(value * c->a, c->b);
        if (!tg_in_years(value))
            return NULL;
        STORE(int64_t, value);
        break;
    default:
        STORE(int64_t, value);
    }
    tg_append_valid(c);
    return p;
}

/* A map's key: its string, read as the key's type. */
static text map_key(struct program *s, struct column *c, text p, uint64_t *hash)
{
    if (!tg_reserve(s, c))
        return NULL;
    if (c->kind == STRING && !c->a) {
        int64_t before = c->data_length;
        if (!(p = string_of(s, c, p)) || c->data_length - before > UINT32_MAX)
            return NULL;
        *hash = tg_hash(c->data + before, (uint32_t)(c->data_length - before));
        return p;
    }
    text key, end;
    uint32_t length;
    if (!(end = tg_take_key(s, p, &key, &length)) || key != p) /* none of these needs an escape */
        return NULL;
    *hash = tg_hash(key, length);
    if (c->kind == DATE) {
        int32_t days;
        if (tg_date(p, &days) != end)
            return NULL;
        ((int32_t *)c->values)[c->length] = days;
    } else if (c->kind == BOOLEAN) {
        bool yes = length == 4 && !memcmp(key, "true", 4);
        if (!yes && (length != 5 || memcmp(key, "false", 5)))
            return NULL;
        tg_put_bit(c->values, c->length, yes);
    } else { /* an integer, and nothing behind it; -0 is no key */
        bool minus_zero = length == 2 && key[0] == '-' && key[1] == '0';
        return !minus_zero && integer_of(c, p) == end - 1 ? end : NULL;
    }
    tg_append_valid(c);
    return end;
}

static text map_of(struct program *s, struct column *c, text p, int depth)
{
    struct column *key = c->child, *value = key->sibling;
    int since = s->hash_count;
    p = tg_space(p);
    if (*p == '}') {
        p++;
    } else {
        for (;;) {
            uint64_t hash;
            if (*p != '"' || !(p = map_key(s, key, p + 1, &hash)) || !tg_first_time(s, since, hash))
                return NULL;
            p = tg_space(p);
            if (*p != ':' || !(p = value_of(s, value, tg_space(p + 1), depth)))
                return NULL;
            p = tg_space(p);
            if (*p != ',')
                break;
            p = tg_space(p + 1);
        }
        if (*p++ != '}')
            return NULL;
        s->hash_count = since;
    }
    ((int32_t *)c->values)[c->length + 1] = (int32_t)key->length;
    tg_append_valid(c);
    return p;
}

static text struct_of(struct program *s, struct column *c, text p, int depth)
{
    if (!(p = tg_members(s, c, p, depth)))
        return NULL;
    for (struct column *child = c->child; child; child = child->sibling)
        if (child->length == c->length && !tg_append_null(s, child))
            return NULL;
    tg_append_valid(c);
    return p;
}

/* `p` at the value's first byte; on success the column has one row more. `depth`: arrays and objects that are open. */
static text value_of(struct program *s, struct column *c, text p, int depth)
{
    if (*p == 'n') {
        if (c->required || memcmp(p, "null", 4) || (c->kind != OBJECT && !tg_append_null(s, c)))
            return NULL;
        return p + 4;
    }
    if (c->kind != OBJECT && UNLIKELY(!tg_reserve(s, c)))
        return NULL;
    bool quoted = c->spelled && *p == '"'; /* its text, without an escape */
    switch (c->kind) {
    case STRING:
        if (UNLIKELY(c->a))
            return json_text_of(s, c, p, depth);
        if (UNLIKELY(c->spelled && *p != '"'))
            return scalar_text_of(s, c, p);
        return *p == '"' ? string_of(s, c, p + 1) : NULL;
    case INT8: case INT16: case INT32: case INT64: case EPOCH_MS:
        if (!(p = integer_of(c, p + quoted)))
            return unsure(s, NUMBER);
        return !quoted ? p : *p == '"' ? p + 1 : NULL;
    case FLOAT: case DOUBLE: {
        double value;
        if (!(p = tg_double(p + quoted, &value)))
            return unsure(s, NUMBER);
        if (c->kind == DOUBLE) {
            STORE(double, value);
        } else {
            float nearest = (float)value;
            if (nearest - nearest != 0) /* infinite */
                return NULL;
            STORE(float, nearest);
        }
        break;
    }
    case DECIMAL: {
        int128 value;
        if (!(p = tg_decimal(p + quoted, c->a, c->b, &value)))
            return unsure(s, NUMBER);
        memcpy(c->values + c->length * 16, &value, 16);
        break;
    }
    case BOOLEAN:
        p += quoted;
        if (!memcmp(p, "true", 4)) {
            tg_put_bit(c->values, c->length, true);
            p += 4;
        } else if (!memcmp(p, "false", 5)) {
            tg_put_bit(c->values, c->length, false);
            p += 5;
        } else {
            return NULL;
        }
        break;
    case DATE: {
        int32_t days;
        if (*p != '"' || !(p = tg_date(p + 1, &days)))
            return unsure(s, TIME);
        STORE(int32_t, days);
        break;
    }
    case PATTERN_MS: {
        int64_t ms;
        text pattern = s->names + c->a;
        if (*p != '"' || !(p = tg_pattern_ms(p + 1, pattern, pattern + c->b, &ms)))
            return unsure(s, TIME);
        STORE(int64_t, ms);
        break;
    }
    case TIMESTAMP: case ISO_MS: {
        int64_t micros;
        text after = c->kind == ISO_MS || (*p == '"' && !quoted) ? NULL : tg_integer(p + quoted, &micros);
        if (after && (!quoted || *after == '"')) {
            if (!tg_in_years(micros))
                return NULL;
            micros *= 1000;
            p = after;
        } else {
            if (*p != '"' || !(p = tg_iso_micros(p + 1, &micros)))
                return unsure(s, TIME);
            quoted = false; /* its end has been read */
        }
        STORE(int64_t, c->kind == ISO_MS ? tg_floor_divide(micros, 1000) : micros);
        break;
    }
    default: /* arrays and objects */
        if (++depth > TG_MAX_DEPTH || *p != (c->kind == LIST ? '[' : '{'))
            return NULL;
        switch (c->kind) {
        case LIST: return list_of(s, c, p + 1, depth);
        case MAP: return map_of(s, c, p + 1, depth);
        case STRUCT: return struct_of(s, c, p + 1, depth);
        case OBJECT: return tg_members(s, c, p + 1, depth);
        default: return NULL;
        }
    }
    if (UNLIKELY(quoted && *p++ != '"'))
        return NULL;
    tg_append_valid(c);
    return p;
}
