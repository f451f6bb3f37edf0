/* The keys of an object: found by guessing that they come in the order of the last one, else among the short ones that
 * were seen lately, else by a hash table. */
#include "keys.h"

#include <stdlib.h>

uint64_t tg_hash(text key, uint32_t length)
{
    const uint64_t odd = 0x9e3779b97f4a7c15u;
    uint64_t hash = length * odd, word;
    for (; length >= 8; length -= 8, key += 8) {
        memcpy(&word, key, 8);
        hash = (hash ^ word) * odd;
        hash ^= hash >> 29;
    }
    word = 0;
    memcpy(&word, key, length);
    hash = (hash ^ word) * odd;
    return hash ^ hash >> 32;
}

bool tg_keys_new(struct keys *k, int wanted)
{
    uint32_t size = 16;
    memset(k, 0, sizeof *k);
    k->room = wanted + TG_LEARNED;
    while (size < 2 * (uint32_t)k->room)
        size *= 2;
    k->mask = size - 1;
    k->slots = calloc((size_t)k->room, sizeof *k->slots);
    k->table = calloc(size, sizeof *k->table);
    k->recent = calloc(TG_RECENT, sizeof *k->recent);
    return k->slots && k->table && k->recent;
}

void tg_keys_free(struct keys *k)
{
    for (int i = 0; i < k->count; i++)
        free(k->slots[i].key);
    free(k->slots);
    free(k->table);
    free(k->recent);
}

struct slot *tg_slot(struct keys *k, text key, uint32_t length, uint64_t hash)
{
    uint32_t at = (uint32_t)hash & k->mask;
    for (; k->table[at]; at = (at + 1) & k->mask) {
        struct slot *found = &k->slots[k->table[at] - 1];
        if (found->hash == hash && found->length == length && !memcmp(found->key, key, length))
            return found;
    }
    if (k->count == k->room)
        return NULL;
    /* padded, so that a guess may compare sixteen bytes at once */
    uint8_t *copy = calloc(1, (size_t)length + 1 + TG_PADDING);
    if (!copy)
        return NULL;
    memcpy(copy, key, length);
    copy[length] = '"';
    struct slot *made = &k->slots[k->count++];
    *made = (struct slot){.key = copy, .length = length, .hash = hash, .plain = true};
    for (uint32_t i = 0; i < length; i++)
        if (copy[i] < ' ' || copy[i] == '"' || copy[i] == '\\')
            made->plain = false;
    k->table[at] = k->count;
    return made;
}
