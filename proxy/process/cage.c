#include "proxy/process/cage.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "ca/bundle.h"
#include "netns/environ.h"
#include "netns/names.h"

/* All that sandbox_start borrows. */
struct cage {
    const struct prepared *p;
    struct slice ca_pem;
    char **env;
    const char **drop;
    char **cover;
    size_t ncover;
    struct buf bundle, jks;
    struct ca_paths bundles, javas;
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

/* The host's roots, those that the user's variables name, and ours; for Java the same in its own form. */
static int cage_trust(struct cage *c, char *const *env, struct errmsg *msg) {
    const char *files[32];
    size_t n = environ_roots(env, files, sizeof files / sizeof files[0]);
    int r = buf_put(&c->bundle, buf_slice(&c->p->roots));
    for (size_t i = 0; r == 0 && i < n; i++) {
        /* a variable that names nothing readable was of no use before either */
        struct errmsg ignored;
        (void)ca_file_roots(files[i], &c->bundle, &ignored);
    }
    if (r == 0)
        r = buf_put(&c->bundle, c->ca_pem);
    if (r == 0)
        r = ca_bundle_paths(&c->bundles);
    if (r == 0)
        r = ca_java_paths(environ_get(env, "JAVA_HOME"), environ_get(env, "PATH"), environ_get(env, "HOME"),
                          &c->javas);
    if (r < 0)
        return errmsg_set(msg, r, "trusted roots: %s", err_text(r));
    if (c->javas.n == 0)
        return 0;
    r = ca_bundle_jks(buf_slice(&c->bundle), clock_wall_ms(), &c->jks, msg);
    for (size_t i = 0; r == 0 && i < c->javas.n; i++)
        c->overlays[i] = (struct sandbox_overlay){c->javas.list[i], buf_slice(&c->jks)};
    return r;
}

static int cage_run(struct cage *c, const struct sandbox_inherit *inherit, struct sandbox *sb,
                    struct errmsg *msg) {
    const char *bundle_paths[CA_PATHS_MAX + 1] = {NULL};
    for (size_t i = 0; i < c->bundles.n; i++)
        bundle_paths[i] = c->bundles.list[i];
    const char *sockets[] = {c->p->redis_path[0] ? c->p->redis_path : NULL, NULL};
    struct sandbox_spec spec = {
        .argv = c->p->sandbox.config->argv,
        .envp = c->env,
        .inherit = *inherit,
        .state_dir = c->p->state_dir,
        .ca_pem = c->ca_pem,
        .bundle_pem = buf_slice(&c->bundle),
        .bundle_paths = bundle_paths,
        .overlays = c->overlays,
        .noverlays = c->javas.n,
        .cover = (const char *const *)c->cover,
        .cover_sockets = sockets,
    };
    memcpy(spec.prefix6, names_prefix(c->p->sandbox.names), sizeof spec.prefix6);
    return sandbox_start(&spec, sb, msg);
}

int cage_start(const struct prepared *p, struct slice ca_pem, char *const *env,
               const struct sandbox_inherit *inherit, struct sandbox *sb, struct errmsg *msg) {
    struct cage *c = calloc(1, sizeof *c);
    if (!c)
        return errmsg_set(msg, ERR_NOMEM, "out of memory");
    c->p = p;
    c->ca_pem = ca_pem;
    buf_init(&c->bundle, CA_BUNDLE_MAX);
    buf_init(&c->jks, 2 * CA_BUNDLE_MAX);
    int r = cage_cover(c, msg);
    if (r == 0)
        r = cage_environment(c, env, msg);
    if (r == 0)
        r = cage_trust(c, env, msg);
    if (r == 0)
        r = cage_run(c, inherit, sb, msg);
    for (size_t i = 0; i < c->ncover; i++)
        free(c->cover[i]);
    free(c->cover);
    free(c->drop);
    environ_free(c->env);
    ca_paths_release(&c->bundles);
    ca_paths_release(&c->javas);
    buf_release(&c->bundle);
    buf_release(&c->jks);
    free(c);
    return r;
}
