#include "netns/environ.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * Which variable is read by whom:
 *
 *   SSL_CERT_FILE          OpenSSL and all on top of it (python ssl, ruby, perl, wget2), Go, rustls-native-certs (uv, deno)
 *   CURL_CA_BUNDLE         curl, and python requests when REQUESTS_CA_BUNDLE is not set
 *   GIT_SSL_CAINFO         git, whatever http.sslCAInfo in its configuration says
 *   REQUESTS_CA_BUNDLE     python requests (certifi otherwise)
 *   PIP_CERT               pip, which does not read REQUESTS_CA_BUNDLE under truststore
 *   AWS_CA_BUNDLE          aws, boto3
 *   CARGO_HTTP_CAINFO      cargo
 *   NIX_SSL_CERT_FILE      nix
 *   GRPC_DEFAULT_SSL_…     gRPC's C core (python, ruby, C++)
 *   CLOUDSDK_CORE_CUSTOM…  gcloud
 *   HTTPLIB2_CA_CERTS      httplib2 (older Google clients)
 *   BUNDLE_SSL_CA_CERT     ruby's bundler
 *   HEX_CACERTS_PATH       Elixir's hex
 *   DENO_CERT              deno: one more file of roots beside its own
 *   DENO_TLS_CA_STORE      … which come from the system too
 *   NODE_EXTRA_CA_CERTS    node, yarn, bun: beside their own roots
 *   npm_config_cafile      npm, node-gyp, yarn 1: in the place of node's roots and of what NODE_EXTRA_CA_CERTS adds. A line of
 *                          the user's .npmrc (cafile=…) does the same, and only this variable goes before it
 *   PERL_LWP_SSL_CA_FILE   perl's LWP, before HTTPS_CA_FILE and Mozilla::CA
 *   UV_SYSTEM_CERTS, UV_NATIVE_TLS   uv (new and old name): the system's roots, which SSL_CERT_FILE names
 *
 * XDG_RUNTIME_DIR stays: the directory is an empty one of the sandbox's own.
 *
 * Not set: SSL_CERT_DIR (our root is in the system's directory, by hash), JAVA_TOOL_OPTIONS (prints a line
 * at every start; the key stores are laid over instead).
 *
 * Those of kind NAMED are set only where the caller has set them: their clients find the bundle by another way, unless such a
 * variable leads them from it (and not every release of yarn suffers one that it does not know).
 */
enum kind { BUNDLE, ADDITIVE, SETTING, NAMED };
static const struct {
    const char *name;
    enum kind kind;
    const char *value;
} trust[] = {
    {"SSL_CERT_FILE", BUNDLE, NULL},
    {"CURL_CA_BUNDLE", BUNDLE, NULL},
    {"GIT_SSL_CAINFO", BUNDLE, NULL},
    {"REQUESTS_CA_BUNDLE", BUNDLE, NULL},
    {"PIP_CERT", BUNDLE, NULL},
    {"AWS_CA_BUNDLE", BUNDLE, NULL},
    {"CARGO_HTTP_CAINFO", BUNDLE, NULL},
    {"NIX_SSL_CERT_FILE", BUNDLE, NULL},
    {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", BUNDLE, NULL},
    {"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", BUNDLE, NULL},
    {"HTTPLIB2_CA_CERTS", BUNDLE, NULL},
    {"BUNDLE_SSL_CA_CERT", BUNDLE, NULL},
    {"HEX_CACERTS_PATH", BUNDLE, NULL},
    {"npm_config_cafile", BUNDLE, NULL},
    {"PERL_LWP_SSL_CA_FILE", BUNDLE, NULL},
    {"HTTPS_CA_FILE", NAMED, NULL},
    {"PNPM_CONFIG_CAFILE", NAMED, NULL},
    {"YARN_CAFILE", NAMED, NULL},
    {"YARN_HTTPS_CA_FILE_PATH", NAMED, NULL},
    {"COMPOSER_CAFILE", NAMED, NULL},
    {"DENO_CERT", ADDITIVE, NULL},
    {"NODE_EXTRA_CA_CERTS", ADDITIVE, NULL},
    {"DENO_TLS_CA_STORE", SETTING, "system,mozilla"},
    {"UV_SYSTEM_CERTS", SETTING, "1"},
    {"UV_NATIVE_TLS", SETTING, "1"},
};
#define TRUST_N (sizeof trust / sizeof trust[0])

/* What leads to something that is kept away; a final '*' is any rest. The sandbox would only hang or fail on them. */
static const char *const gone[] = {
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "SSH_AGENT_LAUNCHER",
    "GPG_AGENT_INFO",
    "DBUS_*",
    "GNOME_KEYRING_*",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "CONTAINER_HOST",
    "CONTAINERD_ADDRESS",
    "BUILDKIT_HOST",
    "PODMAN_HOST",
    "LIBVIRT_DEFAULT_URI",
    "LXD_DIR",
    "LXD_SOCKET",
    "INCUS_SOCKET",
    "DISPLAY",
    "WAYLAND_*",
    "XAUTHORITY",
    "PULSE_SERVER",
    "PIPEWIRE_*",
    "NOTIFY_SOCKET",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "MAINPID",
    "JOURNAL_STREAM",
    "WATCHDOG_*",
    "SYSTEMD_*",
    "VSCODE_IPC_*",
    "VSCODE_GIT_*",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "REMOTE_CONTAINERS_*",
    "KITTY_LISTEN_ON",
    "NVIM",
    "NVIM_LISTEN_ADDRESS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "RSYNC_PROXY",
    "GIT_PROXY_COMMAND",
    "npm_config_proxy",
    "npm_config_https_proxy",
    "npm_config_http_proxy",
    "npm_config_noproxy",
    "npm_config_ca",
    "PIP_PROXY",
    "CARGO_HTTP_PROXY",
    "GIT_SSL_CAPATH",
    "RES_OPTIONS",
    "EXEAT",
};

static struct slice variable_name(const char *entry) {
    struct slice name, value;
    slice_cut(slice_str(entry), '=', &name, &value);
    return name;
}

/* In any case: proxies are named in both, and npm takes its own in either. */
static bool matches(struct slice name, const char *pattern) {
    struct slice p = slice_str(pattern);
    if (p.n && p.p[p.n - 1] == '*')
        return slice_caseeq(slice_sub(name, 0, p.n - 1), slice_sub(p, 0, p.n - 1));
    return slice_caseeq(name, p);
}

static bool is_dropped(const struct environ_spec *spec, struct slice name) {
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
        if (matches(name, gone[i]))
            return true;
    for (size_t i = 0; i < TRUST_N; i++)
        if (matches(name, trust[i].name))
            return true;
    for (const char *const *d = spec->drop; d && *d; d++)
        if (slice_eq(name, slice_str(*d)))
            return true;
    return false;
}

void environ_free(char **env) {
    for (char **e = env; e && *e; e++)
        free(*e);
    free(env);
}

/* The file that the caller named in a variable of ours, as matches() reads names; NULL if none is named. */
static const char *named(char *const *from, size_t i) {
    for (; *from; from++) {
        struct slice name, value;
        slice_cut(slice_str(*from), '=', &name, &value);
        if (value.n && matches(name, trust[i].name))
            return (const char *)value.p;
    }
    return NULL;
}

/* *out is NULL where the variable is not to be set. */
static int trust_value(const struct environ_spec *spec, size_t i, char **out) {
    /* what the user's own file added is in the bundle */
    const char *of_user = named(spec->from, i);
    int r = 0;
    *out = NULL;
    if (trust[i].kind == SETTING)
        r = asprintf(out, "%s=%s", trust[i].name, trust[i].value);
    else if (trust[i].kind != NAMED || of_user)
        r = asprintf(out, "%s=%s/%s", trust[i].name, spec->state_dir,
                     trust[i].kind != ADDITIVE || of_user ? "bundle.pem" : "ca.pem");
    if (r < 0)
        *out = NULL;
    return r < 0 ? ERR_NOMEM : 0;
}

int environ_build(const struct environ_spec *spec, char ***out) {
    size_t have = 0, n = 0;
    for (char *const *e = spec->from; *e; e++)
        have++;
    char **env = calloc(have + TRUST_N + 2, sizeof *env);
    if (!env)
        return ERR_NOMEM;
    for (char *const *e = spec->from; *e; e++) {
        if (is_dropped(spec, variable_name(*e)))
            continue;
        env[n] = strdup(*e);
        if (!env[n])
            goto short_of_memory;
        n++;
    }
    for (size_t i = 0; i < TRUST_N; i++) {
        if (trust_value(spec, i, &env[n]))
            goto short_of_memory;
        n += env[n] != NULL;
    }
    if (asprintf(&env[n], "EXEAT=%s", spec->name) < 0) {
        env[n] = NULL;
        goto short_of_memory;
    }
    *out = env;
    return 0;

short_of_memory:
    environ_free(env);
    return ERR_NOMEM;
}

const char *environ_get(char *const *env, const char *name) {
    struct slice want = slice_str(name);
    for (; *env; env++)
        if (strncmp(*env, name, want.n) == 0 && (*env)[want.n] == '=')
            return *env + want.n + 1;
    return NULL;
}

size_t environ_roots(char *const *from, const char **paths, size_t max) {
    size_t n = 0;
    for (size_t i = 0; i < TRUST_N && n < max; i++) {
        const char *path = trust[i].kind == SETTING ? NULL : named(from, i);
        if (!path)
            continue;
        bool known = false;
        for (size_t k = 0; k < n; k++)
            known = known || strcmp(paths[k], path) == 0;
        if (!known)
            paths[n++] = path;
    }
    return n;
}
