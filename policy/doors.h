/*
 * The other doors to a ref. Internal to policy/.
 *
 * What an HTTP rule permits is read as a request to a forge's API (forge.h). What that writes is judged by the push rules as
 * a push of it would be, and both have to permit it. What can't be read for certain is denied, unless push rules permit
 * whatever may be done to any repository. What is in no table is denied on a repository that push rules speak of, unless a
 * rule names it exactly: method and path without a wildcard, and for a mutation of GraphQL the field.
 *
 * Which hosts are forges: github.com, gitlab.com and codeberg.org; and each host that a fetch or push rule is about.
 */
#ifndef POLICY_DOORS_H
#define POLICY_DOORS_H

#include "policy/condition.h"
#include "policy/forge.h"
#include "policy/rule.h"

/* A host that serves a forge's API. */
struct door_host {
    struct slice git; /* where repositories are pushed to */
    bool root;        /* the API's own host */
    unsigned forges;
};

/* Which forge the host of a request is of. False: none. */
bool doors_place(const struct policy *p, const struct facts *f, struct door_host *out);

/* The hosts that are a forge's in every policy; NULL behind the last. */
const char *doors_known(size_t i);

/* Could the request be one that this is about? Told by its method and path alone: most are not. */
bool doors_concern(const struct facts *f);

/* `v` is the verdict by HTTP's rules, and permits. Makes it the verdict by both. */
void doors_judge(const struct policy *p, const struct facts *f, const bool *reach, struct body_view *view,
                 struct verdict *v);

/* A push rule against a ref, or a repository, that is not known: a deny may be about it, an allow has to be about every
 * one. */
bool doors_unknown_ref(const struct rule *r, bool loose);
bool doors_unknown_repository(const struct rule *r, bool loose);

/* v->door: the reason, and the push that it is about. */
void doors_explain(const struct policy *p, const struct facts *f, const struct verdict *v, struct buf *out);
void doors_as_push(const struct policy *p, const struct facts *f, const struct verdict *v,
                   void (*each)(void *arg, const struct facts *push), void *arg);

/* Whether a push rule is about the forge whose API, or whose repositories, this host serves. */
bool doors_has_push_rules(const struct policy *p, struct slice host, bool is_address);

/* Reads the request as doors_judge does; released by the caller. *host: the forge's, for git. False: none of a
 * forge's. */
bool doors_read(const struct policy *p, const struct facts *f, struct body_view *view, struct forge *out,
                struct slice *host);

#endif
