/* Values that nobody wants: checked, nothing else. */
#include "json_native.h"

/* NaN and infinite numbers as Python's json writes them: no JSON, but accepted where no column looks. Other spellings of
 * them are not sure. */
static text skip_non_finite(text p)
{
    if (!memcmp(p, "NaN", 3))
        return p + 3;
    p += *p == '-';
    return memcmp(p, "Infinity", 8) ? NULL : p + 8;
}

/* Not recursive, so that no message can exhaust the stack. `depth`: how many are open. */
text tg_skip_value(text p, int depth)
{
    uint64_t objects[TG_MAX_DEPTH / 64 + 1]; /* a bit for each level: an object, not an array */
    int level = 0;
    objects[0] = 0;
value:
    switch (*p) {
    case '"':
        if (!(p = tg_skip_string(p + 1)))
            return NULL;
        break;
    case '{':
    case '[':
        if (depth + ++level > TG_MAX_DEPTH)
            return NULL;
        if (!(level & 63))
            objects[level >> 6] = 0;
        if (*p == '{') {
            objects[level >> 6] |= (uint64_t)1 << (level & 63);
            p = tg_space(p + 1);
            if (*p != '}')
                goto key;
        } else {
            objects[level >> 6] &= ~((uint64_t)1 << (level & 63));
            p = tg_space(p + 1);
            if (*p != ']')
                goto value;
        }
        p++;
        level--;
        break;
    case 't':
        if (memcmp(p, "true", 4))
            return NULL;
        p += 4;
        break;
    case 'f':
        if (memcmp(p, "false", 5))
            return NULL;
        p += 5;
        break;
    case 'n':
        if (memcmp(p, "null", 4))
            return NULL;
        p += 4;
        break;
    case 'N':
    case 'I':
        if (!(p = skip_non_finite(p)))
            return NULL;
        break;
    default:
        if (!(p = *p == '-' && p[1] == 'I' ? skip_non_finite(p) : tg_skip_number(p)))
            return NULL;
    }
after:
    if (!level)
        return p;
    p = tg_space(p);
    bool object = objects[level >> 6] >> (level & 63) & 1;
    if (*p == ',') {
        p = tg_space(p + 1);
        if (!object)
            goto value;
        goto key;
    }
    if (*p != (object ? '}' : ']'))
        return NULL;
    p++;
    level--;
    goto after;
key:
    if (*p != '"' || !(p = tg_skip_string(p + 1)))
        return NULL;
    p = tg_space(p);
    if (*p != ':')
        return NULL;
    p = tg_space(p + 1);
    goto value;
}
