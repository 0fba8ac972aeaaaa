/* What the programs have of their own in a build with AddressSanitizer: each is linked with it, none calls it. */
#ifdef __SANITIZE_ADDRESS__
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* Looking for leaks takes longer at every end than most tests do; the soak asks for it, by ASAN_OPTIONS. And the limit for core
 * dumps is the command's as it is the user's: the sanitizer would set it to nothing. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "detect_leaks=0:disable_coredump=0";
}

size_t __sanitizer_get_current_allocated_bytes(void); /* not in gcc's headers */

/* What is allocated, told to standard error on SIGURG: the soak looks for growth by it. What the process takes
 * of the system is no measure in such a build: freed memory and where each piece was allocated are kept as
 * well. (The supervisor's own handler comes in this one's place.) */
static void on_ask_held(int sig) {
    char text[96];
    struct timespec now = {0};
    int saved = errno;
    (void)sig;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int n =
        snprintf(text, sizeof text, "exeat: process %d holds %zu bytes at %.3f\n", (int)getpid(),
                 __sanitizer_get_current_allocated_bytes(), (double)now.tv_sec + (double)now.tv_nsec / 1e9);
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0)
        text[0] = '\0'; /* nobody reads it: nothing to be done */
    errno = saved;
}

__attribute__((constructor)) static void tell_held(void) {
    struct sigaction on_ask = {.sa_handler = on_ask_held, .sa_flags = SA_RESTART};
    sigaction(SIGURG, &on_ask, NULL);
}
#endif
