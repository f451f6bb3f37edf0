/* Keys that no column takes: into the map of the row, under their paths. */
#include "json_native.h"

#include <stdlib.h>

static bool room_for(struct program *s, struct column *c, int64_t more)
{
    if (c->data_length + more > INT32_MAX) /* offsets have 32 bits, and a path may be longer than its message */
        return false;
    return (c->data && c->data_length + more <= c->data_room) || tg_more_data(s, c, more);
}

static bool is_word(text key, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++) {
        uint8_t c = key[i], letter = c | 32;
        if (!((letter >= 'a' && letter <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-'))
            return false;
    }
    return length > 0;
}

/* A key's name in the map; formats/known.py has the same rule. */
static bool name_of(struct program *s, struct column *o, text key, uint32_t length)
{
    struct column *c = s->extra->child;
    bool as_it_is = o == s->nodes && (o->b == AS_THEY_ARE || length < 2 || key[0] != '$' || key[1] != '.');
    if (!tg_reserve(s, c) || !room_for(s, c, o->b + 2 * (int64_t)length + 2))
        return false;
    uint8_t *out = c->data + c->data_length;
    if (!as_it_is) {
        memcpy(out, s->names + o->a, (size_t)o->b);
        out += o->b;
    }
    if (as_it_is || is_word(key, length)) {
        memcpy(out, key, length);
        out += length;
    } else {
        *out++ = '"';
        for (uint32_t i = 0; i < length; i++) {
            if (key[i] == '"' || key[i] == '\\')
                *out++ = '\\';
            *out++ = key[i];
        }
        *out++ = '"';
    }
    c->data_length = out - c->data;
    ((int32_t *)c->values)[c->length + 1] = (int32_t)c->data_length;
    tg_append_valid(c);
    return true;
}

static void end_value(struct column *c)
{
    ((int32_t *)c->values)[c->length + 1] = (int32_t)c->data_length;
    tg_append_valid(c);
}

static bool keep(struct program *s, struct found found)
{
    if (s->found_count == s->found_room) {
        int room = s->found_room ? 2 * s->found_room : 64;
        struct found *moved = realloc(s->found, (size_t)room * sizeof *moved);
        if (!moved) {
            s->out_of_memory = true;
            return false;
        }
        s->found = moved;
        s->found_room = room;
    }
    s->found[s->found_count++] = found;
    return true;
}

bool tg_unknown(struct program *s, struct column *o, text key, uint32_t length, text from, text to)
{
    if (o->b == NOT_SURE || !s->extra) {
        s->why = UNKNOWN;
        return false;
    }
    if (o->many) /* the scratch will be needed again before the message's end */
        return key != s->scratch && keep(s, (struct found){o, key, length, false, from, to});
    struct column *value = s->extra->child->sibling;
    if (!name_of(s, o, key, length) || !tg_reserve(s, value) || !tg_dump(s, value, from, to))
        return false;
    end_value(value);
    return true;
}

static bool append(struct program *s, struct column *c, uint8_t byte)
{
    if (!room_for(s, c, 1))
        return false;
    c->data[c->data_length++] = byte;
    return true;
}

/* The values of one key in their order, as one array. */
bool tg_unknown_of_many(struct program *s)
{
    for (int i = 0; i < s->found_count; i++) {
        struct found *first = &s->found[i];
        if (first->done)
            continue;
        struct column *value = s->extra->child->sibling;
        if (!name_of(s, first->object, first->key, first->length) || !tg_reserve(s, value) || !append(s, value, '['))
            return false;
        for (int j = i; j < s->found_count; j++) {
            struct found *each = &s->found[j];
            if (each->object != first->object || each->length != first->length ||
                memcmp(each->key, first->key, first->length))
                continue;
            each->done = true;
            if ((j > i && !append(s, value, ',')) || !tg_dump(s, value, each->from, each->to))
                return false;
        }
        if (!append(s, value, ']'))
            return false;
        end_value(value);
    }
    return true;
}
