/* Where programs of this host look for roots. */
#include "ca/bundle.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE 4096

/* A directory with more entries than this is none of JVMs. */
#define ENTRIES_MAX 4096

void ca_paths_release(struct ca_paths *paths) {
    for (size_t i = 0; i < paths->n; i++)
        free(paths->list[i]);
    *paths = (struct ca_paths){0};
}

/* Adds the real path of a regular file, once; nothing if there is none, or no room. */
static void paths_add(struct ca_paths *paths, const char *path) {
    struct stat st;
    char *real = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? realpath(path, NULL) : NULL;
    bool known = paths->n == CA_PATHS_MAX; /* those that matter most come first */
    for (size_t i = 0; real && i < paths->n; i++)
        known = known || strcmp(paths->list[i], real) == 0;
    if (real && !known)
        paths->list[paths->n++] = real;
    else
        free(real);
}

int ca_bundle_paths(struct ca_paths *paths) {
    static const char *const known[] = {
        "/etc/ssl/certs/ca-certificates.crt",                /* Debian, Alpine, Arch */
        "/etc/pki/tls/certs/ca-bundle.crt",                  /* Fedora */
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* Fedora */
        "/etc/ca-certificates/extracted/tls-ca-bundle.pem",  /* Arch */
        "/etc/ssl/ca-bundle.pem",                            /* SUSE */
        "/var/lib/ca-certificates/ca-bundle.pem",            /* SUSE */
        "/etc/ssl/certs/ca-bundle.crt",                      /* NixOS */
        "/etc/ssl/cert.pem",                                 /* Alpine */
    };
    paths_add(paths, OPENSSL_DIR "/cert.pem");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        paths_add(paths, known[i]);
    return 0;
}

/* The key stores of one JVM, in the places of Java 8 (with and without its JRE) and of later ones. */
static void add_jvm(struct ca_paths *paths, const char *dir) {
    static const char *const places[] = {"lib/security/cacerts", "jre/lib/security/cacerts",
                                         "lib/security/jssecacerts", "jre/lib/security/jssecacerts"};
    char path[PATH_SIZE];
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (snprintf(path, sizeof path, "%s/%s", dir, places[i]) < (int)sizeof path)
            paths_add(paths, path);
}

/* Each entry of a directory as a JVM. */
static void add_jvms(struct ca_paths *paths, const char *base, const char *rest) {
    char path[PATH_SIZE];
    DIR *dir = snprintf(path, sizeof path, "%s%s", base, rest) < (int)sizeof path ? opendir(path) : NULL;
    if (!dir)
        return;
    struct dirent *e;
    for (int i = 0; i < ENTRIES_MAX && (e = readdir(dir)); i++)
        if (e->d_name[0] != '.' &&
            snprintf(path, sizeof path, "%s%s/%s", base, rest, e->d_name) < (int)sizeof path)
            add_jvm(paths, path);
    closedir(dir);
}

/* The JVM that `java` in a search path belongs to. */
static void add_from_path(struct ca_paths *paths, const char *search) {
    struct slice rest = slice_str(search), dir;
    char path[PATH_SIZE];
    bool more;
    do {
        more = slice_cut(rest, ':', &dir, &rest);
        if (dir.n == 0 || snprintf(path, sizeof path, "%.*s/java", SLICE_ARG(dir)) >= (int)sizeof path ||
            access(path, X_OK) < 0)
            continue;
        char *real = realpath(path, NULL);
        if (!real)
            continue;
        for (int up = 0; up < 2; up++) { /* bin/java */
            char *slash = strrchr(real, '/');
            if (slash)
                *slash = '\0';
        }
        if (real[0])
            add_jvm(paths, real);
        free(real);
    } while (more);
}

int ca_java_paths(const char *java_home, const char *path, const char *home, struct ca_paths *paths) {
    static const char *const system[] = {"/usr/lib/jvm", "/usr/lib64/jvm", "/usr/java", "/opt", "/opt/java"};
    static const char *const own[] = {"/.sdkman/candidates/java", "/.jdks", "/.asdf/installs/java",
                                      "/.local/share/mise/installs/java"};
    paths_add(paths, "/etc/ssl/certs/java/cacerts");
    paths_add(paths, "/etc/pki/ca-trust/extracted/java/cacerts");
    if (java_home && *java_home)
        add_jvm(paths, java_home);
    if (path)
        add_from_path(paths, path);
    for (size_t i = 0; i < sizeof system / sizeof *system; i++)
        add_jvms(paths, system[i], "");
    for (size_t i = 0; home && *home && i < sizeof own / sizeof *own; i++)
        add_jvms(paths, home, own[i]);
    return 0;
}
