/* Keys that need no hash table: the one that came next last time, and short ones that were seen lately. */
#ifndef TIDEGATE_KEYS_H
#define TIDEGATE_KEYS_H

#include "json_native.h"

#define TG_RECENT 256 /* a power of two */

/* Where a short key is looked for first: there, or beside it. */
static inline struct short_key *tg_recent(const struct keys *k, const uint64_t words[2])
{
    uint64_t hash = (words[0] ^ words[1] * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    return &k->recent[hash >> 32 & (TG_RECENT - 1)];
}

static inline struct short_key *tg_beside(const struct keys *k, struct short_key *found)
{
    return &k->recent[(found - k->recent) ^ 1];
}

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
/* The key at `p` and its closing quote, if both are within sixteen bytes. Escapes need no thought: no slot that is found
 * by its bytes has any. */
static inline bool short_key(text p, uint64_t words[2])
{
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u, all = ~(uint64_t)0;
    memcpy(words, p, 16);
    for (int i = 0; i < 2; i++) {
        uint64_t quote = words[i] ^ ones * '"';
        quote = (quote - ones) & ~quote & tops; /* the lowest mark is right */
        if (quote) {
            words[i] &= all >> __builtin_clzll(quote & -quote);
            words[1] = i ? words[1] : 0;
            return true;
        }
    }
    return false;
}

static inline struct slot *recalled(const struct keys *k, const uint64_t words[2])
{
    const struct short_key *found = tg_recent(k, words);
    if (UNLIKELY(found->words[0] != words[0] || found->words[1] != words[1])) {
        found = tg_beside(k, (struct short_key *)found);
        if (found->words[0] != words[0] || found->words[1] != words[1])
            return NULL;
    }
    return found->slot;
}

static inline void remember(struct keys *k, const uint64_t words[2], struct slot *slot)
{
    struct short_key *place = tg_recent(k, words);
    if (place->slot && !tg_beside(k, place)->slot)
        place = tg_beside(k, place);
    *place = (struct short_key){{words[0], words[1]}, slot};
}
#else
static inline bool short_key(text p, uint64_t words[2]) { return (void)p, (void)words, false; }
static inline struct slot *recalled(const struct keys *k, const uint64_t words[2]) { return (void)k, (void)words, NULL; }
static inline void remember(struct keys *k, const uint64_t words[2], struct slot *slot)
{
    (void)k, (void)words, (void)slot;
}
#endif

/* Sixteen bytes at once: keys are padded, and so is the message. */
static inline bool guessed(const struct slot *guess, text p)
{
    if (!guess->plain)
        return false;
    if (guess->length < 16) {
        uint64_t a[2], b[2], mask[2];
        static const uint64_t all = ~(uint64_t)0;
        unsigned n = guess->length + 1;
        memcpy(a, p, 16);
        memcpy(b, guess->key, 16);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        mask[0] = n >= 8 ? all : all >> (64 - 8 * n);
        mask[1] = n <= 8 ? 0 : all >> (128 - 8 * n);
        return !(((a[0] ^ b[0]) & mask[0]) | ((a[1] ^ b[1]) & mask[1]));
#else
        (void)mask;
        return !memcmp(p, guess->key, n);
#endif
    }
    return !strncmp((const char *)p, (const char *)guess->key, (size_t)guess->length + 1);
}

#endif
