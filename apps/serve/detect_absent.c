/* Replaces detect_cld2.cc in a build without libcld2. */
#include "serve/detect.h"

int serve_cld2_detect(serve_cld2 out[SERVE_DETECTIONS], const char *text, size_t bytes, const char *hint) {
    (void)out, (void)text, (void)bytes, (void)hint;
    return 0;
}
