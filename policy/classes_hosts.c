/* Which hosts stand for all that the patterns of hosts tell apart. */
#include "policy/classes_hosts.h"

#include <stdio.h>

#include "policy/doors.h"

bool classes_takes_host(const struct target *t, struct slice host) {
    if (t->host_kind == RULE_HOST_EXACT)
        return slice_eq(t->host, host);
    return t->host_kind == RULE_HOST_ANY ||
           (host.n > t->host.n + 1 && slice_ends(host, t->host) && host.p[host.n - t->host.n - 1] == '.');
}

bool classes_looked_at(const struct classes *c, struct slice host) {
    const struct rule *r = c->about;
    if (!r || classes_takes_host(&r->target, host))
        return true;
    if (r->action != TREE_PUSH && r->action != TREE_FETCH)
        return false;
    for (size_t i = 0; doors_known(i); i++)
        if (slice_eq(host, slice_str(doors_known(i))))
            return true;
    return slice_starts(host, SLICE("api.")) || slice_starts(host, SLICE("uploads.")) ||
           slice_starts(r->target.host, SLICE("gist."));
}

bool classes_seen(const struct classes *c, size_t k, size_t i, bool git) {
    const struct target *t = &c->policies[k]->rules[i].target;
    for (size_t a = 0; a <= k; a++)
        for (size_t b = 0; b < (a == k ? i : c->policies[a]->nrules); b++) {
            const struct rule *r = &c->policies[a]->rules[b];
            const struct target *u = &r->target;
            if (git && r->action != TREE_PUSH && r->action != TREE_FETCH)
                continue;
            if (u->host_kind == t->host_kind && slice_eq(u->host, t->host))
                return true;
        }
    return false;
}

bool classes_fresh_name(const struct classes *c, const struct target *t, char name[URL_HOST_MAX + 1]) {
    static const char *const labels[] = {"any", "other", "some", "else", "xyzzy"};
    static const char *const anywhere[] = {"elsewhere.example", "elsewhere.test", "elsewhere.invalid"};
    bool any = t->host_kind == RULE_HOST_ANY;
    for (size_t i = 0; i < (any ? 3 : sizeof labels / sizeof *labels); i++) {
        bool taken = false;
        int n = any ? snprintf(name, URL_HOST_MAX + 1, "%s", anywhere[i])
                    : snprintf(name, URL_HOST_MAX + 1, "%s.%.*s", labels[i], SLICE_ARG(t->host));
        if (n > URL_HOST_MAX)
            return false;
        for (size_t k = 0; k < c->npolicies; k++)
            for (size_t r = 0; r < c->policies[k]->nrules; r++) {
                const struct target *u = &c->policies[k]->rules[r].target;
                if (u->host_kind != RULE_HOST_ANY && classes_takes_host(u, slice_str(name)))
                    taken |= any || u->host_kind == RULE_HOST_EXACT || u->host.n > t->host.n;
            }
        if (!taken)
            return true;
    }
    return false;
}
