/* netns/environ: what the command's environment has, and what it has no longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "netns/environ.h"

static char **build(const char *const *from, const char *const *drop) {
    char **env = NULL;
    const struct environ_spec spec = {
        .from = (char *const *)from, .name = "box", .state_dir = "/state", .drop = drop};
    assert_int_equal(environ_build(&spec, &env), 0);
    return env;
}

static size_t count(char **env, const char *name) {
    size_t n = 0, len = strlen(name);
    for (; *env; env++)
        n += strncmp(*env, name, len) == 0 && (*env)[len] == '=';
    return n;
}

static void test_trust(void **state) {
    static const char *const from[] = {"PATH=/bin",
                                       "SSL_CERT_FILE=/corp.pem",
                                       "NODE_EXTRA_CA_CERTS=/corp.pem",
                                       "https_ca_file=/corp.pem",
                                       "YARN_CAFILE=",
                                       NULL};
    static const char *const bundle[] = {"SSL_CERT_FILE",        "CURL_CA_BUNDLE",    "GIT_SSL_CAINFO",
                                         "REQUESTS_CA_BUNDLE",   "PIP_CERT",          "AWS_CA_BUNDLE",
                                         "CARGO_HTTP_CAINFO",    "NIX_SSL_CERT_FILE", "npm_config_cafile",
                                         "PERL_LWP_SSL_CA_FILE", "HTTPS_CA_FILE"};
    (void)state;
    char **env = build(from, NULL);
    for (size_t i = 0; i < sizeof bundle / sizeof *bundle; i++) {
        assert_int_equal(count(env, bundle[i]), 1);
        assert_string_equal(environ_get(env, bundle[i]), "/state/bundle.pem");
    }
    assert_string_equal(environ_get(env, "DENO_CERT"), "/state/ca.pem");
    /* the user had roots of its own in it, which are in the bundle */
    assert_string_equal(environ_get(env, "NODE_EXTRA_CA_CERTS"), "/state/bundle.pem");
    assert_string_equal(environ_get(env, "PATH"), "/bin");
    assert_string_equal(environ_get(env, "EXEAT"), "box");
    assert_null(environ_get(env, "JAVA_TOOL_OPTIONS"));
    /* what only some releases know is set for who has set it */
    assert_null(environ_get(env, "https_ca_file"));
    assert_null(environ_get(env, "YARN_CAFILE"));
    assert_null(environ_get(env, "YARN_HTTPS_CA_FILE_PATH"));
    environ_free(env);
    static const char *const none[] = {NULL};
    env = build(none, NULL);
    assert_string_equal(environ_get(env, "NODE_EXTRA_CA_CERTS"), "/state/ca.pem");
    environ_free(env);
}

static void test_gone(void **state) {
    static const char *const from[] = {"SSH_AUTH_SOCK=/x",
                                       "DBUS_SESSION_BUS_ADDRESS=x",
                                       "DOCKER_HOST=x",
                                       "https_proxy=x",
                                       "HTTPS_PROXY=x",
                                       "No_Proxy=x",
                                       "NPM_CONFIG_CAFILE=x",
                                       "npm_config_proxy=x",
                                       "RES_OPTIONS=ndots:9",
                                       "DISPLAY=:0",
                                       "GITHUB_TOKEN=SECRET-a",
                                       "GITHUB_TOKEN_2=b",
                                       "EXEAT=outer",
                                       "HOME=/h",
                                       "XDG_RUNTIME_DIR=/run/user/1",
                                       "no_equals_sign",
                                       "NVIM=x",
                                       "NVIMX=y",
                                       NULL};
    static const char *const drop[] = {"GITHUB_TOKEN", NULL};
    static const char *const gone[] = {"SSH_AUTH_SOCK",
                                       "DBUS_SESSION_BUS_ADDRESS",
                                       "DOCKER_HOST",
                                       "https_proxy",
                                       "HTTPS_PROXY",
                                       "No_Proxy",
                                       "NPM_CONFIG_CAFILE",
                                       "npm_config_proxy",
                                       "DISPLAY",
                                       "GITHUB_TOKEN",
                                       "NVIM",
                                       "RES_OPTIONS"};
    static const char *const kept[] = {"GITHUB_TOKEN_2", "HOME", "XDG_RUNTIME_DIR", "NVIMX"};
    (void)state;
    char **env = build(from, drop);
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        assert_null(environ_get(env, gone[i]));
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        assert_non_null(environ_get(env, kept[i]));
    assert_int_equal(count(env, "EXEAT"), 1);
    for (char **e = env; *e; e++)
        assert_null(strstr(*e, "SECRET-"));
    environ_free(env);
    environ_free(NULL);
}

static void test_roots(void **state) {
    static const char *const from[] = {"SSL_CERT_FILE=/a.pem", "GIT_SSL_CAINFO=/b.pem",    "PIP_CERT=/a.pem",
                                       "NODE_EXTRA_CA_CERTS=", "DENO_TLS_CA_STORE=system", NULL};
    const char *paths[8];
    (void)state;
    assert_int_equal(environ_roots((char *const *)from, paths, 8), 2);
    assert_string_equal(paths[0], "/a.pem");
    assert_string_equal(paths[1], "/b.pem");
    assert_int_equal(environ_roots((char *const *)from, paths, 1), 1);
    /* npm takes its own in either case */
    static const char *const capitals[] = {"npm_config_cafil=/x.pem", "NPM_CONFIG_CAFILE=/c.pem", NULL};
    assert_int_equal(environ_roots((char *const *)capitals, paths, 8), 1);
    assert_string_equal(paths[0], "/c.pem");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trust),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_roots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
