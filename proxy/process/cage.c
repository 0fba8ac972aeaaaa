#include "proxy/process/cage.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "ca/bundle.h"
#include "netns/environ.h"
#include "netns/names.h"
#include "proxy/process/spawn.h"

/* All that sandbox_trust borrows. */
struct cage_trust {
    struct buf bundle, store;
    struct ca_jks jks; /* into `store` */
    struct ca_paths bundles, javas;
    const char *bundle_paths[CA_PATHS_MAX + 1];
    struct sandbox_overlay overlays[CA_PATHS_MAX];
};

static int cage_environment(const struct prepared *p, char *const *env, char ***out, struct errmsg *msg) {
    struct environ_spec spec = {
        .from = env,
        .name = p->sandbox.config->name,
        .state_dir = p->state_dir,
        .drop = (const char *const *)p->hidden.variables,
    };
    int r = environ_build(&spec, out);
    return r < 0 ? errmsg_set(msg, r, "environment: %s", err_text(r)) : 0;
}

int cage_start(const struct prepared *p, char *const *env, const struct sandbox_inherit *inherit,
               struct sandbox *sb, struct errmsg *msg) {
    char **inside = NULL;
    const char *redis = p->hidden.redis_path;
    const char *sockets[] = {redis[0] ? redis : NULL, NULL};
    char path[PATH_MAX];
    int program = spawn_open("init", path, msg);
    int r = program < 0 ? ERR_IO : 0;
    if (r == 0 && faccessat(program, "", X_OK, AT_EMPTY_PATH | AT_EACCESS) < 0)
        r = errmsg_errno(msg, ERR_IO, "the sandbox's first process can't be started: %s", path);
    if (r == 0)
        r = cage_environment(p, env, &inside, msg);
    if (r == 0) {
        struct sandbox_spec spec = {
            .argv = p->sandbox.config->argv,
            .envp = inside,
            .inherit = *inherit,
            .program = program,
            .state_dir = p->state_dir,
            .cover = (const char *const *)p->hidden.files,
            .cover_sockets = sockets,
        };
        memcpy(spec.prefix6, names_prefix(p->sandbox.names), sizeof spec.prefix6);
        r = sandbox_start(&spec, sb, msg);
    }
    if (program >= 0)
        close(program);
    environ_free(inside);
    return r;
}

static int collect_roots(struct cage_trust *t, struct ca_read *read, char *const *env) {
    const char *files[32];
    size_t n = environ_roots(env, files, sizeof files / sizeof files[0]);
    for (size_t i = 0; i < n; i++) {
        /* a variable that names nothing readable was of no use before either */
        struct errmsg ignored;
        (void)ca_file_roots(files[i], &t->bundle, read, &ignored);
    }
    int r = ca_bundle_paths(&t->bundles);
    for (size_t i = 0; i < t->bundles.n; i++)
        t->bundle_paths[i] = t->bundles.list[i];
    return r;
}

static int collect_javas(struct cage_trust *t, char *const *env) {
    int r = ca_java_paths(environ_get(env, "JAVA_HOME"), environ_get(env, "PATH"), environ_get(env, "HOME"),
                          &t->javas);
    if (r == 0 && t->javas.n)
        r = ca_jks_begin(&t->jks, &t->store, buf_len(&t->bundle), clock_wall_ms());
    if (r == 0 && t->javas.n)
        r = ca_jks_add(&t->jks, buf_slice(&t->bundle));
    return r;
}

int cage_gather(struct prepared *p, char *const *env, struct cage_trust **out, struct errmsg *msg) {
    struct cage_trust *t = calloc(1, sizeof *t);
    if (!t)
        return errmsg_set(msg, ERR_NOMEM, "out of memory");
    t->bundle = p->roots;
    buf_init(&p->roots, CA_BUNDLE_MAX);
    buf_init(&t->store, 2 * CA_BUNDLE_MAX);
    int r = collect_roots(t, &p->read, env);
    if (r == 0)
        r = collect_javas(t, env);
    *out = t;
    return r < 0 ? errmsg_set(msg, r, "trusted roots: %s", err_text(r)) : 0;
}

int cage_trust(struct cage_trust *t, struct slice ca_pem, uint32_t ca_hash, struct sandbox *sb,
               struct errmsg *msg) {
    int r = buf_put(&t->bundle, ca_pem);
    if (r == 0 && t->javas.n)
        r = ca_jks_add(&t->jks, ca_pem);
    if (r == 0 && t->javas.n)
        r = ca_jks_end(&t->jks);
    if (r < 0)
        return errmsg_set(msg, r, "trusted roots: %s", err_text(r));
    for (size_t i = 0; i < t->javas.n; i++)
        t->overlays[i] = (struct sandbox_overlay){t->javas.list[i], buf_slice(&t->store)};
    struct sandbox_trust trust = {ca_pem,          ca_hash,     buf_slice(&t->bundle),
                                  t->bundle_paths, t->overlays, t->javas.n};
    return sandbox_trust(sb, &trust, msg);
}

void cage_trust_free(struct cage_trust *t) {
    if (!t)
        return;
    ca_paths_release(&t->bundles);
    ca_paths_release(&t->javas);
    buf_release(&t->bundle);
    buf_release(&t->store);
    free(t);
}
