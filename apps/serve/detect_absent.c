/* In the place of detect_cld2.cc where tfm is built without libcld2. */
#include "serve.h"

bool serve_detect_there(void) {
    return false;
}

int serve_detect_text(serve_guess out[SERVE_GUESSES], const char *text, size_t bytes) {
    (void)out, (void)text, (void)bytes;
    return 0;
}
