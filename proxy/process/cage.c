#include "proxy/process/cage.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "ca/bundle.h"
#include "netns/environ.h"
#include "netns/names.h"
#include "proxy/process/spawn.h"

/* All that sandbox_start borrows. */
struct cage {
    const struct prepared *p;
    char **env;
    const char **drop;
    char **cover;
    size_t ncover;
};

/* All that sandbox_trust borrows. */
struct cage_trust {
    struct buf bundle, store;
    struct ca_jks jks; /* into `store` */
    struct ca_paths bundles, javas;
    const char *bundle_paths[CA_PATHS_MAX + 1];
    struct sandbox_overlay overlays[CA_PATHS_MAX];
};

/* Covers a path if there is a regular file; a log may as well be a terminal or /dev/null. */
static int cover_file(struct cage *c, const char *path) {
    struct stat st;
    if (!path || stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    c->cover[c->ncover] = realpath(path, NULL);
    if (!c->cover[c->ncover])
        return ERR_IO;
    c->ncover++;
    return 0;
}

/* What is laid over a file hides one name of it. Another one (a hard link) can be anywhere, and would be read inside. */
static int cover_secret(struct cage *c, const char *path, struct errmsg *msg) {
    struct stat st;
    if (path && stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 1)
        return errmsg_set(
            msg, ERR_USAGE,
            "%s has %ju names (hard links), of which only this one would be covered inside: put a copy in "
            "its place",
            path, (uintmax_t)st.st_nlink);
    int r = cover_file(c, path);
    return r < 0 ? errmsg_errno(msg, r, "%s, which is to be covered in the sandbox", path) : 0;
}

static int cage_cover(struct cage *c, struct errmsg *msg) {
    const struct prepared *p = c->p;
    size_t n = p->vault ? vault_count(p->vault) : 0;
    c->cover = calloc(n + 4, sizeof *c->cover);
    c->drop = calloc(n + 1, sizeof *c->drop);
    if (!c->cover || !c->drop)
        return errmsg_set(msg, ERR_NOMEM, "out of memory");
    int r = cover_secret(c, p->config->vault, msg);
    size_t ndrop = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        struct vault_source source = vault_source(p->vault, i);
        if (source.kind == VAULT_FROM_FILE)
            r = cover_secret(c, source.name, msg);
        if (source.kind == VAULT_FROM_ENV)
            c->drop[ndrop++] = source.name;
    }
    if (r < 0)
        return r;
    r = cover_file(c, p->config->log);
    return r < 0 ? errmsg_errno(msg, r, "%s, which is to be covered in the sandbox", p->config->log) : 0;
}

static int cage_environment(struct cage *c, char *const *env, struct errmsg *msg) {
    struct environ_spec spec = {
        .from = env,
        .name = c->p->sandbox.config->name,
        .state_dir = c->p->state_dir,
        .drop = c->drop,
    };
    int r = environ_build(&spec, &c->env);
    return r < 0 ? errmsg_set(msg, r, "environment: %s", err_text(r)) : 0;
}

int cage_start(const struct prepared *p, char *const *env, const struct sandbox_inherit *inherit,
               struct sandbox *sb, struct errmsg *msg) {
    struct cage c = {.p = p};
    const char *sockets[] = {p->redis_path[0] ? p->redis_path : NULL, NULL};
    char path[PATH_MAX];
    int program = spawn_open("init", path, msg);
    int r = program < 0 ? ERR_IO : 0;
    if (r == 0 && faccessat(program, "", X_OK, AT_EMPTY_PATH | AT_EACCESS) < 0)
        r = errmsg_errno(msg, ERR_IO, "the sandbox's first process can't be started: %s", path);
    if (r == 0)
        r = cage_cover(&c, msg);
    if (r == 0)
        r = cage_environment(&c, env, msg);
    if (r == 0) {
        struct sandbox_spec spec = {
            .argv = p->sandbox.config->argv,
            .envp = c.env,
            .inherit = *inherit,
            .program = program,
            .state_dir = p->state_dir,
            .cover = (const char *const *)c.cover,
            .cover_sockets = sockets,
        };
        memcpy(spec.prefix6, names_prefix(p->sandbox.names), sizeof spec.prefix6);
        r = sandbox_start(&spec, sb, msg);
    }
    if (program >= 0)
        close(program);
    for (size_t i = 0; i < c.ncover; i++)
        free(c.cover[i]);
    free(c.cover);
    free(c.drop);
    environ_free(c.env);
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
