/* JSON messages into Arrow columns: what the files of this folder share.
 *
 * The library takes only what it is sure of. A message that it is not sure of, for whatever reason, becomes a row of
 * nulls and is reported, and the row rules in Python decide about it; so nothing in here has to explain a refusal.
 *
 * Safety rests on two agreements, which `tg_read` checks:
 *   - every message is followed by a NUL, which is valid nowhere in JSON: whatever reads byte by byte stops there;
 *   - behind the last message there are TG_PADDING bytes: whatever reads up to that many at once stays inside.
 */
#ifndef TIDEGATE_JSON_NATIVE_H
#define TIDEGATE_JSON_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TG_VERSION 6     /* what Python and this library have agreed on; see __init__.py */
#define TG_PADDING 64    /* bytes that may be read behind any byte of a message */
#define TG_MAX_DEPTH 500 /* arrays and objects inside each other; core/batch/states.py */
#define TG_LEARNED 1024  /* keys remembered of an object besides those that are looked for */
#define TG_LONG_KEY 256  /* longer keys are not remembered, and not decoded if they have escapes */
#define TG_MAX_HASHES 1024 /* keys of all open objects that are not remembered */

#if defined(_WIN32)
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

typedef const uint8_t *text; /* NULL as a result: not sure */
typedef __int128 int128;
typedef unsigned __int128 uint128;

/* Python has the same numbers: json_program.py. */
enum kind {
    OBJECT = 0, /* on the path to a column, no column itself; a, b: see watched */
    BOOLEAN = 1,
    INT8 = 2,
    INT16 = 3,
    INT32 = 4,
    INT64 = 5,
    FLOAT = 6,
    DOUBLE = 7,
    DECIMAL = 8, /* a: precision, b: scale */
    STRING = 9,  /* binary too; a: not the string, but the value's JSON text */
    DATE = 10,
    TIMESTAMP = 11,
    LIST = 12,
    MAP = 13,
    STRUCT = 14,   /* a, b: see watched */
    EXTRA = 15,    /* map<string,string> of the unknown keys */
    EPOCH_MS = 16, /* event time from a number: a: multiply, b: divide */
    ISO_MS = 17,   /* event time from ISO 8601 */
    PATTERN_MS = 18, /* event time by a pattern of strptime's: a, b: where it is in `names`, its length */
    KNOWN = 19,    /* no column: a key of an OBJECT or a STRUCT that is not unknown */
    KINDS = 20
};

/* Why a message is not sure, as far as this library knows; Python has the same numbers: json_program.py. Whether it is a
 * row is for the row rules to say. */
enum why {
    OTHER = 1, /* none of the others */
    NUMBER = 2,
    TIME = 3,
    KEY = 4,
    UNKNOWN = 5, /* a field that no column takes */
    SCHEMA = 6,  /* nothing is known of messages of this kind */
};

/* Unknown keys of an OBJECT or a STRUCT. `b` is 0: nobody asks for them; NOT_SURE: the message is not sure; else they
 * go into EXTRA, behind the `b` bytes at `a` of `names`: their path. Those of the top go there as they are, but for one
 * that could be taken for a path; with AS_THEY_ARE any of them. */
enum watched { NOT_SURE = -1, AS_THEY_ARE = 1 };

struct column;

struct slot { /* a key that is looked for, or was seen before; decoded, followed by its closing quote */
    uint8_t *key;
    uint32_t length;
    bool plain; /* may be compared with a message's bytes: needs no escape */
    uint64_t hash;
    uint64_t stamp;       /* the last object that had it */
    struct column *child; /* NULL: nobody wants the value */
    bool known;           /* though nobody wants it */
    struct slot *next;    /* the key that came after this one last time */
};

/* A short key with its closing quote, zeros behind it: sixteen bytes tell it from any other. */
struct short_key {
    uint64_t words[2];
    struct slot *slot;
};

struct keys {
    struct slot *slots;
    struct short_key *recent; /* TG_RECENT of those seen lately */
    int count, room;
    int32_t *table; /* hash -> index + 1 */
    uint32_t mask;
    struct slot *first;
};

/* A node of the program and, unless it is an OBJECT, the Arrow column that it fills. */
struct column {
    enum kind kind;
    bool required; /* null is not sure */
    bool spelled;  /* may be the text of its type; a STRING: may be a number or a boolean, of which it takes the text */
    int32_t a, b;
    int64_t length, room;      /* rows that are there, rows that there is room for */
    uint8_t *valid;            /* a bit a row */
    uint8_t *values;           /* by kind; for STRING, LIST and MAP offsets, one more than rows */
    uint8_t *data;             /* STRING: bytes */
    int64_t data_length, data_room;
    int64_t rows_before, data_before; /* what the last chunk took: room for the next */
    struct column *parent, *child, *sibling; /* sibling: the parent's next child */
    struct column *twin;       /* wants the same value of the message */
    bool many;                 /* inside an array or a map */
    struct keys keys;          /* OBJECT, STRUCT */
};

struct found { /* an unknown key inside an array or a map, until the message's end */
    struct column *object;
    text key;
    uint32_t length;
    bool done;
    text from, to;
};

struct program {
    struct column *nodes; /* nodes[0] is the top of the message */
    int count;
    struct column **columns; /* in the order of the table */
    int column_count;
    struct column *extra; /* where unknown keys go; NULL: nowhere */
    struct found *found;
    int found_count, found_room;
    uint8_t *names;
    int64_t rows, bytes; /* read since the last tg_take */
    uint64_t serial;     /* counts objects */
    uint64_t hashes[TG_MAX_HASHES];
    int hash_count;
    uint8_t scratch[TG_LONG_KEY + TG_PADDING];
    bool out_of_memory;
    uint8_t why; /* of the message that is being read: enum why */
};

/* ------------------------------------------------------------------------------------------------ text.c */

/* `p` is behind the opening quote; the result is behind the closing one. */
text tg_skip_string(text p);
/* Appends the decoded string to the column's data. */
text tg_take_string(struct program *s, struct column *c, text p);
/* Appends [from, to) to the column's data as it is. */
bool tg_take_bytes(struct program *s, struct column *c, text from, text to);
/* A key: `*key` and `*length` are what it decodes to, in the message or in the scratch. */
text tg_take_key(struct program *s, text p, text *key, uint32_t *length);
/* Appends the JSON value in [from, to), which is valid, as compact text. */
bool tg_dump(struct program *s, struct column *c, text from, text to);

static inline text tg_space(text p)
{
    if (LIKELY(*p > ' '))
        return p;
    while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')
        p++;
    return p;
}

/* The length of the UTF-8 sequence at `p`, whose first byte is 0x80 or more; 0 if it is none. */
static inline int tg_sequence(text p)
{
    uint8_t a = p[0], b, c;
    if (a < 0xC2)
        return 0;
    b = p[1];
    if (a < 0xE0)
        return (b & 0xC0) == 0x80 ? 2 : 0;
    if ((b & 0xC0) != 0x80)
        return 0;
    c = p[2];
    if ((c & 0xC0) != 0x80)
        return 0;
    if (a < 0xF0) {
        if ((a == 0xE0 && b < 0xA0) || (a == 0xED && b >= 0xA0)) /* too long; half of a surrogate pair */
            return 0;
        return 3;
    }
    if (a > 0xF4 || (a == 0xF0 && b < 0x90) || (a == 0xF4 && b >= 0x90) || (p[3] & 0xC0) != 0x80)
        return 0;
    return 4;
}

/* ------------------------------------------------------------------------------------------------ numbers.c */

/* Each returns what follows the number, or NULL. */
text tg_skip_number(text p);
text tg_integer(text p, int64_t *value);
text tg_double(text p, double *value);
text tg_decimal(text p, int precision, int scale, int128 *value);

/* ------------------------------------------------------------------------------------------------ skip.c, parse.c */

/* Any value, only checked. `depth`: how many arrays and objects are open. */
text tg_skip_value(text p, int depth);
/* The rest of an object whose keys matter, and its values into their columns. `p` is behind the brace; `depth` counts
 * the object itself. */
text tg_members(struct program *s, struct column *o, text p, int depth);
/* A key that an object must not have had yet; `since`: where its hashes begin. Equal hashes are not sure. */
bool tg_first_time(struct program *s, int since, uint64_t hash);

/* ------------------------------------------------------------------------------------------------ unknown.c */

/* A key that no column takes, with its value in [from, to). False: not sure. */
bool tg_unknown(struct program *s, struct column *o, text key, uint32_t length, text from, text to);
/* At the end of a message: what arrays and maps had. */
bool tg_unknown_of_many(struct program *s);

/* ------------------------------------------------------------------------------------------------ times.c */

/* `p` is behind the opening quote; the result is behind the closing one. */
text tg_date(text p, int32_t *days);
text tg_iso_micros(text p, int64_t *micros);
/* Only patterns of %Y %m %b %B %d %a %A %H %M %S %f %z and what stands between them; see json_program.py. */
text tg_pattern_ms(text p, text pattern, text pattern_end, int64_t *ms);
bool tg_in_years(int64_t ms); /* 1 to 9999 */
static inline int64_t tg_floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* ------------------------------------------------------------------------------------------------ columns.c */

bool tg_more_rows(struct program *s, struct column *c, int64_t room);
bool tg_more_data(struct program *s, struct column *c, int64_t more);
bool tg_append_null(struct program *s, struct column *c);
void tg_truncate(struct column *c, int64_t length);
void tg_free_column(struct column *c);

static inline bool tg_reserve(struct program *s, struct column *c)
{
    return LIKELY(c->length < c->room) || tg_more_rows(s, c, c->room * 2);
}

/* `row` is the last one: the bits behind it become 0. */
static inline void tg_put_bit(uint8_t *bits, int64_t row, bool bit)
{
    unsigned at = row & 7, before = at ? bits[row >> 3] & ((1u << at) - 1) : 0;
    bits[row >> 3] = (uint8_t)(before | (unsigned)bit << at);
}

/* The row whose values are in place becomes one of the column. */
static inline void tg_append_valid(struct column *c)
{
    tg_put_bit(c->valid, c->length, true);
    c->length++;
}

/* ------------------------------------------------------------------------------------------------ decode.c */

/* Puts what the message in [p, end) holds into the columns, at most once each. False: not sure. */
typedef bool tg_reads(struct program *s, void *context, text p, text end);

/* Rows for `count` more messages; `expected`: how many there will be in all. `data`: the messages, each followed by a
 * NUL, and TG_PADDING bytes behind the last; a length of -1: there is no message (only the NUL), which is not sure.
 * `look[i]` becomes why (enum why) where message i is not sure; its row is null. Returns how many those are; -1: out of
 * memory, -2: `data` is not as agreed, or too much. Then all rows are gone. */
int64_t tg_read_by(struct program *s, tg_reads *reads, void *context, text data, int64_t size, const int32_t *lengths,
                   int64_t count, int64_t expected, uint8_t *look);

/* ------------------------------------------------------------------------------------------------ keys.c */

bool tg_keys_new(struct keys *k, int wanted);
void tg_keys_free(struct keys *k);
uint64_t tg_hash(text key, uint32_t length);
/* The slot of a key, made if there is room; NULL if there is none. */
struct slot *tg_slot(struct keys *k, text key, uint32_t length, uint64_t hash);

#endif
