/* JSON numbers: integers and decimals exactly as written, doubles rounded correctly. */
#include "json_native.h"

#include <stdlib.h>

#define MAX_DIGITS 19     /* any so many decimal digits fit in 64 bits */
#define MAX_POWER 27      /* 5^27 fits in 63 bits */
#define MAX_TEXT 800      /* digits that the slow way takes; more are not sure */
#define MAX_DECIMAL 400   /* longer texts, or larger exponents, of decimals are not sure */
#define MAX_EXPONENT 99999 /* beyond it all are alike: zero, or too large */

struct number { /* value: (-1)^negative * digits * 10^exponent, if not `many` */
    bool negative, many;
    uint64_t digits; /* the first MAX_DIGITS significant ones */
    int64_t exponent;
    text from, to; /* digits and the point, without sign and exponent */
    int64_t written; /* the exponent as written */
};

static inline bool is_digit(uint8_t c) { return (uint8_t)(c - '0') < 10; }

static text scan(text p, struct number *n)
{
    int count = 0;
    int64_t behind = 0;
    uint64_t digits = 0;
    text point = NULL;
    n->many = false;
    n->negative = *p == '-';
    p += n->negative;
    n->from = p;
    if (!is_digit(*p) || (*p == '0' && is_digit(p[1])))
        return NULL;
    for (;; p++) {
        if (is_digit(*p)) {
            if (count < MAX_DIGITS) {
                digits = digits * 10 + (uint8_t)(*p - '0');
                count += digits != 0;
            } else {
                n->many = true;
            }
        } else if (*p == '.' && !point && is_digit(p[1])) {
            point = p;
        } else {
            break;
        }
    }
    n->to = p;
    if (point)
        behind = p - point - 1;
    n->written = 0;
    if ((*p | 0x20) == 'e') {
        p++;
        bool down = *p == '-';
        p += down || *p == '+';
        if (!is_digit(*p))
            return NULL;
        for (; is_digit(*p); p++)
            if (n->written <= MAX_EXPONENT)
                n->written = n->written * 10 + (*p - '0');
        if (down)
            n->written = -n->written;
    }
    n->digits = digits;
    n->exponent = n->written - behind;
    return p;
}

text tg_skip_number(text p)
{
    p += *p == '-';
    if (*p == '0')
        p++;
    else if (is_digit(*p))
        while (is_digit(*++p)) {
        }
    else
        return NULL;
    if (*p == '.') {
        if (!is_digit(*++p))
            return NULL;
        while (is_digit(*++p)) {
        }
    }
    if ((*p | 0x20) == 'e') {
        p++;
        p += *p == '-' || *p == '+';
        if (!is_digit(*p))
            return NULL;
        while (is_digit(*++p)) {
        }
    }
    return p;
}

text tg_integer(text p, int64_t *value)
{
    bool negative = *p == '-';
    uint64_t digits = 0;
    p += negative;
    text from = p;
    for (; is_digit(*p); p++) {
        if (p - from == MAX_DIGITS)
            return NULL;
        digits = digits * 10 + (uint8_t)(*p - '0');
    }
    if (p == from || (*from == '0' && p - from > 1) || *p == '.' || (*p | 0x20) == 'e')
        return NULL;
    if (digits > (uint64_t)INT64_MAX + negative)
        return NULL;
    *value = (int64_t)(negative ? 0 - digits : digits);
    return p;
}

static const uint64_t fives[MAX_POWER + 1] = {
    1u,
    5u,
    25u,
    125u,
    625u,
    3125u,
    15625u,
    78125u,
    390625u,
    1953125u,
    9765625u,
    48828125u,
    244140625u,
    1220703125u,
    6103515625u,
    30517578125u,
    152587890625u,
    762939453125u,
    3814697265625u,
    19073486328125u,
    95367431640625u,
    476837158203125u,
    2384185791015625u,
    11920928955078125u,
    59604644775390625u,
    298023223876953125u,
    1490116119384765625u,
    7450580596923828125u,
};

/* digits * 2^power, to the nearest, ties to even; `rest`: there is a little more. Only for values far from both ends,
 * and with more than 53 bits if there is a rest. */
static double rounded(uint128 digits, bool rest, int power)
{
    uint64_t high = (uint64_t)(digits >> 64);
    int bits = high ? 128 - __builtin_clzll(high) : 64 - __builtin_clzll((uint64_t)digits);
    int drop = bits - 53;
    if (drop > 0) {
        uint128 half = (uint128)1 << (drop - 1), cut = digits & ((half << 1) - 1);
        digits >>= drop;
        if (cut > half || (cut == half && (rest || (digits & 1))))
            digits++; /* 2^53 at most, which is exact */
        power += drop;
    }
    uint64_t bits_of_power = (uint64_t)(1023 + power) << 52;
    double two_to_the;
    memcpy(&two_to_the, &bits_of_power, 8);
    return (double)(uint64_t)digits * two_to_the;
}

/* The C library's own, on text without a point: so the process's locale does not matter. */
static bool by_library(const struct number *n, double *value)
{
    char buffer[MAX_TEXT + 32], *out = buffer, *end;
    int64_t behind = 0;
    bool seen = false;
    if (n->to - n->from > MAX_TEXT)
        return false;
    for (text p = n->from; p < n->to; p++) {
        if (*p == '.') {
            seen = true;
            continue;
        }
        *out++ = (char)*p;
        behind += seen;
    }
    int64_t exponent = n->written - behind;
    *out++ = 'e';
    if (exponent < 0) {
        *out++ = '-';
        exponent = -exponent;
    }
    char digits[24];
    int count = 0;
    do
        digits[count++] = (char)('0' + exponent % 10);
    while (exponent /= 10);
    while (count)
        *out++ = digits[--count];
    *out = 0;
    *value = strtod(buffer, &end);
    return end == out;
}

text tg_double(text p, double *value)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    struct number n;
    double found;
    if (!(p = scan(p, &n)))
        return NULL;
    int64_t e = n.exponent;
    if (n.many) {
        if (!by_library(&n, &found))
            return NULL;
    } else if (!n.digits) {
        found = 0;
    } else if (n.digits <= (uint64_t)1 << 53 && e >= -22 && e <= 22) { /* both exact: one rounding */
        found = e < 0 ? (double)n.digits / tens[-e] : (double)n.digits * tens[e];
    } else if (e >= 0 && e <= MAX_POWER) {
        found = rounded((uint128)n.digits * fives[e], false, (int)e);
    } else if (e < 0 && e >= -MAX_POWER) {
        int shift = __builtin_clzll(n.digits);
        uint128 divided = (uint128)(n.digits << shift) << 64;
        uint64_t by = fives[-e];
        found = rounded(divided / by, divided % by != 0, (int)e - shift - 64);
    } else if (!by_library(&n, &found)) {
        return NULL;
    }
    if (found - found != 0) /* infinite */
        return NULL;
    *value = n.negative ? -found : found;
    return p;
}

static uint128 power_of_ten(int64_t power)
{
    uint128 found = 1;
    while (power--)
        found *= 10;
    return found;
}

text tg_decimal(text p, int precision, int scale, int128 *value)
{
    struct number n;
    text from = p;
    if (!(p = scan(p, &n)) || p - from > MAX_DECIMAL || n.written > MAX_DECIMAL || n.written < -MAX_DECIMAL)
        return NULL;
    uint128 digits = n.digits;
    if (n.many) { /* again, with 38 digits; those are all that a decimal has */
        int count = 0;
        digits = 0;
        for (text at = n.from; at < n.to; at++) {
            if (*at == '.')
                continue;
            if (count == 38)
                return NULL;
            digits = digits * 10 + (uint8_t)(*at - '0');
            count += digits != 0;
        }
    }
    int64_t shift = n.exponent + scale;
    if (!digits) {
        *value = 0;
        return p;
    }
    if (shift < -38 || shift > 38)
        return NULL;
    if (shift < 0) {
        uint128 by = power_of_ten(-shift);
        if (digits % by)
            return NULL;
        digits /= by;
    } else {
        if (shift > precision || digits >= power_of_ten(precision - shift))
            return NULL;
        digits *= power_of_ten(shift);
    }
    if (digits >= power_of_ten(precision))
        return NULL;
    *value = n.negative ? -(int128)digits : (int128)digits;
    return p;
}
