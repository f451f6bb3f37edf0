/* CSV messages, one record each: fields by their positions into columns. csv_decoder.py has the grammar's definition.
 *
 * Marks are single bytes of ASCII, so that none is inside a character; what a field may be is left to the readers of
 * JSON's numbers and times. */
#include "wire.h"

#include <stdlib.h>

#if defined(__SSE2__) && !defined(TG_PORTABLE)
#include <emmintrin.h>
#define BLOCK 16
#else
#define BLOCK 1
#endif

#define STOPS 5
#define LONGEST_NAME 20 /* of a field beyond the last name: # and its position */

/* Python has the same: csv_program.py. */
struct settings {
    int32_t delimiter, quote, escape; /* -1: none */
    int32_t null_length;              /* the first bytes of `names`: what says null */
    int32_t watched;                  /* fields that no column takes: they go into EXTRA, or are not sure without one */
};

struct position {
    int32_t first, count;  /* of `takers`: who wants the field */
    int32_t name, length;  /* in `names`; a length of -1: nobody has to be told of it */
};

struct csv {
    struct program *columns;
    struct settings settings;
    struct position *positions;
    struct column **takers;
    uint8_t *names;
    int32_t count;
    uint8_t bare[STOPS][BLOCK], quoted[STOPS][BLOCK]; /* bytes where an unquoted or a quoted field may end */
    uint8_t *resolved; /* a field without its escapes */
    int64_t room;
};

struct cell {
    text from;
    int64_t length;
    bool null;
};

EXPORTED void tg_csv_free(struct csv *v)
{
    if (!v)
        return;
    free(v->positions);
    free(v->takers);
    free(v->names);
    free(v->resolved);
    free(v);
}

static bool unsure(struct program *s, enum why why)
{
    s->why = why;
    return false;
}

static void *copied(const void *from, size_t size)
{
    void *made = malloc(size + 1);
    if (made && size)
        memcpy(made, from, size);
    return made;
}

static bool is_mark(int32_t mark, bool needed)
{
    return mark > 0 ? mark < 0x80 && mark != '\r' && mark != '\n' : !needed && mark == -1;
}

/* A column of the table with a single value, for which nobody has asked yet. */
static bool is_taker(const struct csv *v, int32_t taken, int32_t node)
{
    if (node < 1 || node >= v->columns->count)
        return false;
    struct column *c = &v->columns->nodes[node];
    bool single = (c->kind >= BOOLEAN && c->kind <= TIMESTAMP && !(c->kind == STRING && c->a)) ||
                  (c->kind >= EPOCH_MS && c->kind <= PATTERN_MS);
    for (int32_t i = 0; i < taken; i++)
        single = single && v->takers[i] != c;
    return single && !c->parent;
}

static void stop_at(uint8_t stops[STOPS][BLOCK], const int32_t *marks)
{
    for (int i = 0; i < STOPS; i++)
        memset(stops[i], marks[i] < 0 ? marks[0] : marks[i], BLOCK);
}

/* `takers`: nodes of `columns`, in the order of the positions that they want. NULL: out of memory, or it makes no
 * sense. */
EXPORTED struct csv *tg_csv_new(struct program *columns, const struct settings *settings,
                                const struct position *positions, int32_t count, const int32_t *takers,
                                int32_t taker_count, text names, int64_t size)
{
    const struct settings *is = settings;
    struct csv *v = calloc(1, sizeof *v);
    if (!v || count < 0 || taker_count < 0 || size < 0 || is->null_length < 0 || is->null_length > size)
        goto wrong;
    if (!is_mark(is->delimiter, true) || !is_mark(is->quote, false) || !is_mark(is->escape, false) ||
        is->delimiter == is->quote || is->delimiter == is->escape || (is->quote == is->escape && is->quote != -1))
        goto wrong;
    v->columns = columns;
    v->settings = *is;
    v->count = count;
    v->positions = copied(positions, (size_t)count * sizeof *positions);
    v->takers = malloc(((size_t)taker_count + 1) * sizeof *v->takers);
    v->names = copied(names, (size_t)size);
    if (!v->positions || !v->takers || !v->names)
        goto wrong;
    for (int32_t i = 0; i < taker_count; i++) {
        if (!is_taker(v, i, takers[i]))
            goto wrong;
        v->takers[i] = &columns->nodes[takers[i]];
    }
    for (int32_t i = 0, taken = 0; i < count; i++) {
        const struct position *at = &v->positions[i];
        if (at->first != taken || at->count < 0 || (taken += at->count) > taker_count || at->length < -1 ||
            (at->length >= 0 && (at->name < 0 || (int64_t)at->name + at->length > size)))
            goto wrong;
    }
    stop_at(v->bare, (int32_t[STOPS]){ is->delimiter, is->quote, is->escape, '\r', '\n' });
    stop_at(v->quoted, (int32_t[STOPS]){ is->quote, is->escape, -1, -1, -1 });
    return v;
wrong:
    tg_csv_free(v);
    return NULL;
}

/* The first byte that is one of the `count` stops, or the end. */
static inline text until(text p, text end, uint8_t stops[STOPS][BLOCK], int count)
{
    for (; p < end; p += BLOCK) {
#if BLOCK == 16
        __m128i block = _mm_loadu_si128((const __m128i *)p), found = _mm_setzero_si128();
        for (int i = 0; i < count; i++)
            found = _mm_or_si128(found, _mm_cmpeq_epi8(block, _mm_loadu_si128((const __m128i *)stops[i])));
        unsigned at = (unsigned)_mm_movemask_epi8(found);
        if (at) {
            p += __builtin_ctz(at);
            return p < end ? p : end;
        }
#else
        for (int i = 0; i < count; i++)
            if (*p == stops[i][0])
                return p;
#endif
    }
    return end;
}

/* Nothing is left but perhaps a line break. */
static inline bool is_over(text p, text end)
{
    return p == end || (*p == '\n' && p + 1 == end) || (*p == '\r' && p[1] == '\n' && p + 2 == end);
}

/* Without escapes, and with one quote for two: from left to right, since an escaped quote may stand before two. */
static bool resolve(struct csv *v, struct cell *cell, bool quoted)
{
    int32_t quote = quoted ? v->settings.quote : -1, escape = v->settings.escape;
    if (cell->length + TG_PADDING > v->room) {
        uint8_t *moved = realloc(v->resolved, (size_t)cell->length * 2 + TG_PADDING);
        if (!moved) {
            v->columns->out_of_memory = true;
            return false;
        }
        v->resolved = moved;
        v->room = cell->length * 2 + TG_PADDING;
    }
    uint8_t *out = v->resolved;
    for (text p = cell->from, end = p + cell->length; p < end; p++) {
        if (*p == escape || *p == quote)
            p++;
        *out++ = *p;
    }
    *out = 0;
    cell->from = v->resolved;
    cell->length = out - v->resolved;
    return true;
}

/* `p` is behind the quote that opens the field; the result is behind the one that closes it. */
static text quoted_field(struct csv *v, text p, text end, struct cell *cell)
{
    bool plain = true;
    cell->from = p;
    cell->null = false;
    for (;;) {
        p = until(p, end, v->quoted, 2);
        if (p == end)
            return NULL;
        bool closes = *p == v->settings.quote && !(p + 1 < end && p[1] == *p);
        if (closes)
            break;
        if (p + 1 == end)
            return NULL;
        p += 2;
        plain = false;
    }
    cell->length = p - cell->from;
    return plain || resolve(v, cell, true) ? p + 1 : NULL;
}

/* The result may be at what ends no field, such as a quote: `message` looks. */
static text bare_field(struct csv *v, text p, text end, struct cell *cell)
{
    bool plain = true;
    cell->from = p;
    for (;;) {
        p = until(p, end, v->bare, STOPS);
        if (p == end || *p != v->settings.escape)
            break;
        if (p + 1 == end)
            return NULL;
        p += 2;
        plain = false;
    }
    cell->length = p - cell->from;
    cell->null = cell->length == v->settings.null_length && !memcmp(cell->from, v->names, (size_t)cell->length);
    return cell->null || plain || resolve(v, cell, false) ? p : NULL;
}

/* The field as a whole, into a column that has room for a row. A number may seem to go on behind the field, where the
 * delimiter is part of one: then it does not end where the field does. */
static bool value(struct program *s, struct column *c, const struct cell *cell)
{
    text p = cell->from, end = p + cell->length;
    struct taking t = { c, AS_NUMBER, 0, 0 };
    int64_t whole;
    switch (c->kind) {
    case BOOLEAN: {
        bool yes = cell->length == 4 && !memcmp(p, "true", 4);
        return (yes || (cell->length == 5 && !memcmp(p, "false", 5))) && tg_wire_boolean(s, &t, yes);
    }
    case INT8: case INT16: case INT32: case INT64:
        return (tg_integer(p, &whole) == end && tg_wire_whole(s, &t, whole)) || unsure(s, NUMBER);
    case FLOAT: case DOUBLE: {
        double real;
        return (tg_double(p, &real) == end && tg_wire_real(s, &t, real)) || unsure(s, NUMBER);
    }
    case DECIMAL: {
        int128 found;
        return (tg_decimal(p, c->a, c->b, &found) == end && tg_wire_decimal(c, found, c->b)) || unsure(s, NUMBER);
    }
    case STRING:
        t.how = AS_BYTES; /* the message as a whole is UTF-8 */
        break;
    case DATE:
        t.how = AS_DATE;
        break;
    case TIMESTAMP:
        if (tg_integer(p, &whole) == end) {
            t = (struct taking){ c, AS_INSTANT, 1000, 1 };
            return tg_wire_whole(s, &t, whole);
        }
        t.how = AS_ISO;
        break;
    case EPOCH_MS:
        t = (struct taking){ c, AS_EVENT, c->a, c->b };
        return tg_integer(p, &whole) == end && tg_wire_whole(s, &t, whole);
    case ISO_MS:
        t.how = AS_ISO_MS;
        break;
    default: t.how = AS_PATTERN_MS;
    }
    return tg_wire_bytes(s, &t, p, cell->length);
}

/* A field that no column takes, under its name or by its position from 1. */
static bool unknown(struct csv *v, int32_t number, const struct cell *cell)
{
    struct program *s = v->columns;
    char made[LONGEST_NAME], *from = made + sizeof made;
    text name;
    int64_t length;
    if (!v->settings.watched)
        return true;
    if (!s->extra)
        return unsure(s, UNKNOWN);
    if (number < v->count) {
        name = v->names + v->positions[number].name;
        length = v->positions[number].length;
    } else {
        int64_t left = (int64_t)number + 1;
        do
            *--from = (char)('0' + left % 10);
        while (left /= 10);
        *--from = '#';
        name = (text)from;
        length = made + sizeof made - from;
    }
    struct column *key = s->extra->child, *held = key->sibling;
    struct taking of_key = { key, AS_BYTES, 0, 0 }, of_value = { held, AS_BYTES, 0, 0 };
    if (!tg_reserve(s, key) || !tg_wire_bytes(s, &of_key, name, length))
        return false;
    if (cell->null)
        return tg_append_null(s, held);
    return tg_reserve(s, held) && tg_wire_bytes(s, &of_value, cell->from, cell->length);
}

static bool take(struct csv *v, int32_t number, const struct cell *cell)
{
    if (number >= v->count)
        return unknown(v, number, cell);
    const struct position *at = &v->positions[number];
    for (int32_t i = at->first; i < at->first + at->count; i++) {
        struct column *c = v->takers[i];
        if (cell->null) {
            if (c->required || !tg_append_null(v->columns, c))
                return false;
        } else if (!tg_reserve(v->columns, c) || !value(v->columns, c, cell)) {
            return false;
        }
    }
    return at->length < 0 || unknown(v, number, cell);
}

static bool message(struct program *s, void *context, text p, text end)
{
    struct csv *v = context;
    (void)s;
    if (is_over(p, end) || !memcmp(p, "\xEF\xBB\xBF", 3) || !tg_utf8(p, end - p))
        return false;
    for (int32_t number = 0;; number++, p++) {
        struct cell cell;
        p = p < end && *p == v->settings.quote ? quoted_field(v, p + 1, end, &cell) : bare_field(v, p, end, &cell);
        if (!p || !take(v, number, &cell))
            return false;
        if (is_over(p, end))
            return number + 1 >= v->count;
        if (*p != v->settings.delimiter)
            return false;
    }
}

/* Rows for `count` more messages; see tg_read_by. */
EXPORTED int64_t tg_csv_read(struct csv *v, text data, int64_t size, const int32_t *lengths, int64_t count,
                             int64_t expected, uint8_t *look)
{
    return tg_read_by(v->columns, message, v, data, size, lengths, count, expected, look);
}
