#include "proxy/codec/git_ancestry.h"

#include <stdlib.h>

/*
 * Theory of operation. All that the updates reach becomes a graph of small numbers, sorted so that each commit stands before
 * its parents. A pass over it gives every commit's parents the colours that it has; each update has a colour of its own, one
 * bit of 64, which begins at its new id. It is a fast-forward if that comes to its old id.
 */
#define COLOURS 64

struct node {
    uint32_t first; /* of its parents among the edges; they end where the next one's begin */
    uint32_t waits; /* children that are still to be sorted */
    bool open;      /* not in the store: nothing below can be said not to be there */
};

struct graph {
    const struct git_objects *o, *beyond;
    struct git_ids ids; /* a node's number is that of its id */
    struct node *nodes;
    uint32_t *edges;
    size_t nodes_room, nedges, edges_room;
    uint32_t *order;
    uint64_t *colours; /* of each node */
    size_t sorted;     /* how many stand in `order` */
    size_t taken;      /* bytes for both */
};

/* The parents of a node become edges. */
static int graph_parents(struct graph *g, struct node *node, const struct git_object *object) {
    struct slice data = slice_make(object->data, object->size);
    uint8_t id[GIT_ID_MAX];
    size_t at = 0;
    int r = git_commit_next(data, g->o->id_size, &at, id);
    while (r == 0 && (r = git_commit_next(data, g->o->id_size, &at, id)) == 0) {
        size_t parent = git_ids_add(&g->ids, id);
        void *edges = git_memory_list(g->o->memory, g->edges, sizeof *g->edges, g->nedges, &g->edges_room);
        if (edges)
            g->edges = edges;
        if (!edges || parent == GIT_IDS_NONE)
            return ERR_NOMEM;
        g->edges[g->nedges++] = (uint32_t)parent;
    }
    node->open |= r != ERR_EOF;
    return 0;
}

static int graph_node(struct graph *g, size_t i) {
    struct node *nodes = git_memory_list(g->o->memory, g->nodes, sizeof *g->nodes, i, &g->nodes_room);
    if (!nodes || g->nedges > UINT32_MAX)
        return ERR_NOMEM;
    g->nodes = nodes;
    nodes[i] = (struct node){.first = (uint32_t)g->nedges};
    const struct git_object *object = git_objects_find(g->o, git_ids_at(&g->ids, i));
    nodes[i].open = !object || object->bad || object->type != GIT_TYPE_COMMIT;
    if (!object && g->beyond)
        object = git_objects_find(g->beyond, git_ids_at(&g->ids, i));
    if (!object || object->bad || object->type != GIT_TYPE_COMMIT)
        return 0;
    return graph_parents(g, &nodes[i], object);
}

static int graph_build(struct graph *g, const struct git_update *updates, size_t n) {
    int r = 0;
    for (size_t i = 0; i < n; i++)
        if (git_ids_add(&g->ids, updates[i].young) == GIT_IDS_NONE)
            return ERR_NOMEM;
    for (size_t i = 0; r == 0 && i < g->ids.n; i++)
        r = graph_node(g, i);
    return r;
}

static uint32_t graph_end(const struct graph *g, size_t i) {
    return i + 1 < g->ids.n ? g->nodes[i + 1].first : (uint32_t)g->nedges;
}

static int graph_sort(struct graph *g) {
    size_t n = g->ids.n;
    size_t bytes = n * (sizeof *g->order + sizeof *g->colours);
    if (!git_memory_take(g->o->memory, bytes))
        return ERR_NOMEM;
    g->taken = bytes;
    g->order = calloc(n, sizeof *g->order);
    g->colours = calloc(n, sizeof *g->colours);
    if (!g->order || !g->colours)
        return ERR_NOMEM;
    for (size_t i = 0; i < g->nedges; i++)
        g->nodes[g->edges[i]].waits++;
    for (size_t i = 0; i < n; i++)
        if (g->nodes[i].waits == 0)
            g->order[g->sorted++] = (uint32_t)i;
    for (size_t head = 0; head < g->sorted; head++) {
        uint32_t i = g->order[head];
        for (uint32_t k = g->nodes[i].first; k < graph_end(g, i); k++)
            if (--g->nodes[g->edges[k]].waits == 0)
                g->order[g->sorted++] = g->edges[k];
    }
    return 0;
}

/* Follows up to COLOURS updates. */
static void graph_follow(struct graph *g, struct git_update *updates, size_t n) {
    uint64_t open = 0;
    memset(g->colours, 0, g->ids.n * sizeof *g->colours);
    for (size_t k = 0; k < n; k++)
        g->colours[git_ids_find(&g->ids, updates[k].young)] |= UINT64_C(1) << k;
    for (size_t head = 0; head < g->sorted; head++) {
        uint32_t i = g->order[head];
        uint64_t colours = g->colours[i];
        if (colours && g->nodes[i].open)
            open |= colours;
        for (uint32_t k = g->nodes[i].first; colours && k < graph_end(g, i); k++)
            g->colours[g->edges[k]] |= colours;
    }
    for (size_t k = 0; k < n; k++) {
        size_t old = git_ids_find(&g->ids, updates[k].old);
        bool reached = old != GIT_IDS_NONE && (g->colours[old] >> k & 1);
        updates[k].answer = reached ? GIT_YES : open >> k & 1 ? GIT_UNKNOWN : GIT_NO;
    }
}

static void graph_release(struct graph *g) {
    git_memory_give(g->o->memory,
                    g->nodes_room * sizeof *g->nodes + g->edges_room * sizeof *g->edges + g->taken);
    git_ids_release(&g->ids);
    free(g->nodes);
    free(g->edges);
    free(g->order);
    free(g->colours);
}

int git_ancestry(const struct git_objects *o, const struct git_objects *beyond, struct git_update *updates,
                 size_t n) {
    struct graph g = {.o = o, .beyond = beyond};
    for (size_t i = 0; i < n; i++)
        updates[i].answer = GIT_UNKNOWN;
    git_ids_init_in(&g.ids, o->id_size, o->memory);
    int r = graph_build(&g, updates, n);
    if (r == 0)
        r = graph_sort(&g);
    for (size_t i = 0; r == 0 && i < n; i += COLOURS)
        graph_follow(&g, updates + i, n - i < COLOURS ? n - i : COLOURS);
    graph_release(&g);
    return r;
}

int git_objects_is_ancestor(const struct git_objects *o, const uint8_t *old, const uint8_t *young,
                            enum git_answer *answer) {
    struct git_update one;
    memcpy(one.old, old, o->id_size);
    memcpy(one.young, young, o->id_size);
    int r = git_ancestry(o, NULL, &one, 1);
    *answer = one.answer;
    return r;
}
