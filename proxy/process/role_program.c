#include <openssl/crypto.h>
#include <stdio.h>

#include "proxy/process/role.h"

int role_program(int argc, char **argv, const char *name, int (*run)(void)) {
#ifndef __SANITIZE_ADDRESS__ /* a search for leaks would find what OpenSSL keeps */
    /* a role frees what is secret by itself; the rest of OpenSSL goes with the process */
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
#endif
    int status = role_main(argc, argv, name, run);
    if (status >= 0)
        return status;
    fprintf(stderr, "exeat-%s: a part of exeat(1), which starts it\n", name);
    return 2;
}
