#include "vault/marks_memory.h"

#include <stdlib.h>

#include "base/secret.h"

void marks_free(struct marks *marks) {
    if (!marks)
        return;
    secret_wipe(&marks->key, sizeof marks->key);
    free(marks->list);
    free(marks);
}
