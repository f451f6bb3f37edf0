/* Strings: found, checked (control characters, escapes, UTF-8) and copied in one pass. */
#include "json_native.h"

#if defined(__SSE2__) && !defined(TG_PORTABLE)
#include <emmintrin.h>
#define BLOCK 16
#elif defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define BLOCK 8
#else
#define BLOCK 1
#endif

/* How many of the next BLOCK bytes are plain: no quote, no backslash, no control character, ASCII. Copies them to `out`
 * (and whatever follows in the block) unless that is NULL. */
static inline int plain(text p, uint8_t *out)
{
#if BLOCK == 16
    __m128i block = _mm_loadu_si128((const __m128i *)p);
    if (out)
        _mm_storeu_si128((__m128i *)out, block);
    __m128i quote = _mm_cmpeq_epi8(block, _mm_set1_epi8('"'));
    __m128i backslash = _mm_cmpeq_epi8(block, _mm_set1_epi8('\\'));
    __m128i odd = _mm_cmplt_epi8(block, _mm_set1_epi8(' ')); /* signed: bytes from 0x80 on are below too */
    unsigned found = (unsigned)_mm_movemask_epi8(_mm_or_si128(odd, _mm_or_si128(quote, backslash)));
    return found ? __builtin_ctz(found) : BLOCK;
#elif BLOCK == 8
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    uint64_t block;
    memcpy(&block, p, 8);
    if (out)
        memcpy(out, &block, 8);
    uint64_t quote = block ^ ones * '"', backslash = block ^ ones * '\\';
    /* a borrow can mark bytes above a true one, never below: the lowest mark is right */
    uint64_t found = ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) | (block - ones * ' ') | block;
    found &= tops;
    return found ? __builtin_ctzll(found) >> 3 : BLOCK;
#else
    if (out)
        *out = *p;
    return *p >= ' ' && *p < 0x80 && *p != '"' && *p != '\\';
#endif
}

static int hex4(text p)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c = p[i], letter = c | 0x20;
        if (c >= '0' && c <= '9')
            value = value << 4 | (c - '0');
        else if (letter >= 'a' && letter <= 'f')
            value = value << 4 | (letter - 'a' + 10);
        else
            return -1;
    }
    return value;
}

/* `p` is at the backslash; up to four bytes go to `*out`, which moves on. */
static text unescape(text p, uint8_t **out)
{
    uint8_t *o = *out;
    switch (p[1]) {
    case '"': case '\\': case '/': *o = p[1]; break;
    case 'b': *o = '\b'; break;
    case 'f': *o = '\f'; break;
    case 'n': *o = '\n'; break;
    case 'r': *o = '\r'; break;
    case 't': *o = '\t'; break;
    case 'u': {
        int code = hex4(p + 2);
        if (code < 0 || (code >= 0xDC00 && code < 0xE000))
            return NULL;
        p += 6;
        if (code >= 0xD800 && code < 0xDC00) {
            int low = p[0] == '\\' && p[1] == 'u' ? hex4(p + 2) : -1;
            if (low < 0xDC00 || low >= 0xE000)
                return NULL;
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            p += 6;
        }
        if (code < 0x80) {
            *o++ = (uint8_t)code;
        } else if (code < 0x800) {
            *o++ = (uint8_t)(0xC0 | code >> 6);
            *o++ = (uint8_t)(0x80 | (code & 0x3F));
        } else if (code < 0x10000) {
            *o++ = (uint8_t)(0xE0 | code >> 12);
            *o++ = (uint8_t)(0x80 | (code >> 6 & 0x3F));
            *o++ = (uint8_t)(0x80 | (code & 0x3F));
        } else {
            *o++ = (uint8_t)(0xF0 | code >> 18);
            *o++ = (uint8_t)(0x80 | (code >> 12 & 0x3F));
            *o++ = (uint8_t)(0x80 | (code >> 6 & 0x3F));
            *o++ = (uint8_t)(0x80 | (code & 0x3F));
        }
        *out = o;
        return p;
    }
    default: return NULL;
    }
    *out = o + 1;
    return p + 2;
}

text tg_skip_string(text p)
{
    uint8_t ignored[4], *out;
    for (;;) {
        int n = plain(p, NULL);
        p += n;
        if (n == BLOCK)
            continue;
        if (*p == '"')
            return p + 1;
        if (*p == '\\') {
            out = ignored;
            if (!(p = unescape(p, &out)))
                return NULL;
        } else if (*p >= 0x80) {
            do {
                if (!(n = tg_sequence(p)))
                    return NULL;
                p += n;
            } while (*p >= 0x80);
        } else {
            return NULL;
        }
    }
}

text tg_take_string(struct program *s, struct column *c, text p)
{
    uint8_t *out = c->data + c->data_length;
    for (;;) {
        c->data_length = out - c->data;
        if (UNLIKELY(c->data_length + BLOCK > c->data_room)) {
            if (!tg_more_data(s, c, BLOCK))
                return NULL;
            out = c->data + c->data_length;
        }
        int n = plain(p, out);
        p += n;
        out += n;
        if (n == BLOCK)
            continue;
        if (*p == '"') {
            c->data_length = out - c->data;
            return p + 1;
        }
        /* what is written from here on is inside the block's room or the slack behind it */
        if (*p == '\\') {
            if (!(p = unescape(p, &out)))
                return NULL;
        } else if (*p >= 0x80) {
            for (int k = 0; k < 4 && *p >= 0x80; k++) {
                if (!(n = tg_sequence(p)))
                    return NULL;
                memcpy(out, p, 4);
                p += n;
                out += n;
            }
        } else {
            return NULL;
        }
    }
}

bool tg_take_bytes(struct program *s, struct column *c, text from, text to)
{
    if (c->data_length + (to - from) > c->data_room && !tg_more_data(s, c, to - from))
        return false;
    memcpy(c->data + c->data_length, from, (size_t)(to - from));
    c->data_length += to - from;
    return true;
}

text tg_take_key(struct program *s, text p, text *key, uint32_t *length)
{
    text from = p;
    int n;
    do
        p += n = plain(p, NULL);
    while (n == BLOCK);
    if (LIKELY(*p == '"')) {
        if (p - from > UINT32_MAX)
            return NULL;
        *key = from;
        *length = (uint32_t)(p - from);
        return p + 1;
    }
    if (p - from > TG_LONG_KEY)
        return NULL;
    uint8_t *out = s->scratch, *limit = out + TG_LONG_KEY;
    memcpy(out, from, (size_t)(p - from));
    out += p - from;
    while (*p != '"') {
        if (out > limit)
            return NULL;
        if (*p == '\\') {
            if (!(p = unescape(p, &out)))
                return NULL;
        } else if (*p >= 0x80) {
            if (!(n = tg_sequence(p)))
                return NULL;
            memcpy(out, p, 4);
            p += n;
            out += n;
        } else if (*p < ' ') {
            return NULL;
        } else {
            *out++ = *p++;
        }
    }
    *key = s->scratch;
    *length = (uint32_t)(out - s->scratch);
    return p + 1;
}

/* As Python's json.dumps(..., ensure_ascii=False) spells a character that needs an escape; 0: it needs none. */
static int escaped(uint8_t c, uint8_t *out)
{
    static const char digits[] = "0123456789abcdef", letters[] = "btn?fr";
    if (c >= ' ' && c != '"' && c != '\\')
        return 0;
    *out++ = '\\';
    if (c >= ' ') {
        *out = c;
        return 2;
    }
    if (c >= '\b' && c <= '\r' && c != '\v') {
        *out = (uint8_t)letters[c - '\b'];
        return 2;
    }
    memcpy(out, "u00", 3);
    out[3] = (uint8_t)digits[c >> 4];
    out[4] = (uint8_t)digits[c & 15];
    return 6;
}

bool tg_dump(struct program *s, struct column *c, text from, text to)
{
    /* no escape that comes out is longer than the one that went in */
    if (c->data_length + (to - from) + 8 > c->data_room && !tg_more_data(s, c, to - from + 8))
        return false;
    uint8_t *out = c->data + c->data_length;
    bool inside = false;
    for (text p = from; p < to;) {
        if (inside && *p == '\\') {
            uint8_t character[4], *end = character;
            p = unescape(p, &end);
            int n = end - character == 1 ? escaped(character[0], out) : 0;
            if (!n) {
                memcpy(out, character, 4);
                n = (int)(end - character);
            }
            out += n;
            continue;
        }
        if (*p == '"')
            inside = !inside;
        if (inside || *p > ' ')
            *out++ = *p;
        p++;
    }
    c->data_length = out - c->data;
    return true;
}
