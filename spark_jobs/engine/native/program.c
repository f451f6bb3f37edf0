/* What to look for: a tree of paths and types, made once for a pipeline. */
#include "json_native.h"

#include <stdlib.h>

/* A node as Python describes it (json_program.py). Parents come before children, a map's key before its value. */
struct description {
    int32_t kind, parent;   /* parent: an index; -1 for the first node, the top of the message */
    int32_t key, length;    /* below an OBJECT or a STRUCT: the key's bytes in `names` */
    int32_t a, b, flags;    /* see struct column; flags: 1 required, 2 spelled */
    int32_t column;         /* of the table; -1: a part of one, an OBJECT, or KNOWN */
};

EXPORTED int32_t tg_version(void)
{
    return TG_VERSION;
}

EXPORTED void tg_free(struct program *s)
{
    if (!s)
        return;
    for (int i = 0; s->nodes && i < s->count; i++) {
        tg_free_column(&s->nodes[i]);
        tg_keys_free(&s->nodes[i].keys);
    }
    free(s->nodes);
    free(s->columns);
    free(s->found);
    free(s->names);
    free(s);
}

static bool has_keys(enum kind kind)
{
    return kind == OBJECT || kind == STRUCT;
}

/* Behind the last child: the order of children is that of the fields. */
static void adopt(struct column *parent, struct column *child)
{
    struct column **end = &parent->child;
    while (*end)
        end = &(*end)->sibling;
    *end = child;
    child->parent = parent;
}

static bool look_for(struct column *parent, struct column *child, text key, uint32_t length)
{
    struct slot *slot = tg_slot(&parent->keys, key, length, tg_hash(key, length));
    if (!slot)
        return false;
    if (child->kind == KNOWN) {
        slot->known = true;
        return true;
    }
    child->twin = slot->child;
    slot->child = child;
    return true;
}

/* NULL: out of memory, or a description that makes no sense. */
EXPORTED struct program *tg_new(const struct description *nodes, int32_t count, text names, int64_t size)
{
    struct program *s = calloc(1, sizeof *s);
    if (!s || count < 1 || size < 0 || nodes[0].kind != OBJECT)
        goto wrong;
    s->count = count;
    s->nodes = calloc((size_t)count, sizeof *s->nodes);
    s->columns = calloc((size_t)count, sizeof *s->columns);
    s->names = malloc((size_t)size + 1);
    if (!s->nodes || !s->columns || !s->names)
        goto wrong;
    memcpy(s->names, names, (size_t)size);
    for (int i = 0; i < count; i++) {
        const struct description *d = &nodes[i];
        struct column *c = &s->nodes[i];
        if (d->kind < 0 || d->kind >= KINDS || (i ? d->parent < 0 || d->parent >= i : d->parent != -1))
            goto wrong;
        c->kind = (enum kind)d->kind;
        c->a = d->a;
        c->b = d->b;
        c->required = d->flags & 1;
        c->spelled = (d->flags & 2) && c->kind != DATE; /* a date is text anyway */
        if ((c->kind == EPOCH_MS && (c->a < 1 || c->b < 1)) ||
            (c->kind == PATTERN_MS && (c->a < 0 || c->b < 0 || (int64_t)c->a + c->b > size)) ||
            (has_keys(c->kind) && (c->b < NOT_SURE || c->a < 0 || (int64_t)c->a + c->b > size)) ||
            (c->kind == DECIMAL && (c->a < 1 || c->a > 38 || c->b < 0 || c->b > c->a)))
            goto wrong;
        if (has_keys(c->kind)) {
            int wanted = 0;
            for (int j = i + 1; j < count; j++)
                wanted += nodes[j].parent == i;
            if (!tg_keys_new(&c->keys, wanted))
                goto wrong;
        }
        if (d->column >= 0) {
            if (c->kind == OBJECT || c->kind == KNOWN || d->column >= count || s->columns[d->column])
                goto wrong;
            s->columns[d->column] = c;
            s->column_count++;
        }
        if (c->kind == EXTRA)
            s->extra = c;
        if (!i)
            continue;
        struct column *parent = &s->nodes[d->parent];
        /* columns are below objects, their parts below columns */
        if (c->kind == KNOWN ? !has_keys(parent->kind)
            : parent->kind != OBJECT ? d->column >= 0 || c->kind == OBJECT : (d->column < 0) != (c->kind == OBJECT))
            goto wrong;
        c->many = parent->many || parent->kind == LIST || parent->kind == MAP;
        if (parent->kind != OBJECT && c->kind != KNOWN)
            adopt(parent, c);
        if (has_keys(parent->kind) && c->kind != EXTRA) {
            if (d->key < 0 || d->length < 0 || (int64_t)d->key + d->length > size)
                goto wrong;
            if (!look_for(parent, c, names + d->key, (uint32_t)d->length))
                goto wrong;
        }
    }
    for (int i = 0; i < s->column_count; i++)
        if (!s->columns[i])
            goto wrong;
    for (int i = 0; i < count; i++) { /* as many children as each kind has, so that nothing has to look later */
        struct column *c = &s->nodes[i];
        int children = 0;
        for (struct column *child = c->child; child; child = child->sibling)
            children++;
        bool map = c->kind == MAP || c->kind == EXTRA;
        if (children != (map ? 2 : c->kind == LIST ? 1 : c->kind == STRUCT ? children : 0))
            goto wrong;
        if (map && c->child->kind > INT64 && c->child->kind != STRING && c->child->kind != DATE)
            goto wrong;
    }
    return s;
wrong:
    tg_free(s);
    return NULL;
}
