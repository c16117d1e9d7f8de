/* Runs ONNX node tests through the public API.
 *     conformance [--tap] [--unsupported N] FOLDER...
 * A folder is one case (model.onnx and test_data_set_<n>) or contains cases. Prints one line per case and the totals;
 * exits with 1 if a case fails, none is found, or more than N are unsupported. --tap is for Meson: without a FOLDER it
 * uses golden/onnx of the shared folder, and skips if that is absent. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runner.h"

enum { PATH_SIZE = 4096 };

typedef struct tally {
    tfm_context *ctx;
    bool tap;
    int counts[3], cases; /* by verdict */
} tally;

static void show(tally *t, const char *name, const case_result *r) {
    static const char *const words[] = {"pass", "fail", "unsupported"};
    t->counts[r->verdict]++;
    t->cases++;
    if (t->tap)
        printf("%s %d - %s", r->verdict == VERDICT_FAIL ? "not ok" : "ok", t->cases, name);
    else
        printf("%-11s %s", words[r->verdict], name);
    if (r->verdict == VERDICT_PASS)
        printf(t->tap ? " (error %.1e of %.0e)\n" : ": error %.1e of %.0e\n", r->error, r->allowed);
    else
        printf("%s%s\n", t->tap && r->verdict == VERDICT_UNSUPPORTED ? " # SKIP unsupported: " : ": ", r->sentence);
    fflush(stdout);
}

static bool is_case(const char *folder) {
    char path[PATH_SIZE];
    return snprintf(path, sizeof(path), "%s/model.onnx", folder) < PATH_SIZE && access(path, F_OK) == 0;
}

static void run_case(tally *t, const char *folder, const char *name) {
    const case_result result = case_run(t->ctx, folder);
    show(t, name, &result);
}

static void run_folder(tally *t, const char *folder) {
    struct dirent **entries = NULL;
    char path[PATH_SIZE];
    if (is_case(folder)) {
        const char *slash = strrchr(folder, '/');
        run_case(t, folder, slash && slash[1] ? slash + 1 : folder);
        return;
    }
    const int count = scandir(folder, &entries, NULL, alphasort);
    if (count < 0)
        fprintf(stderr, "%s cannot be read\n", folder);
    for (int i = 0; i < count; i++) {
        if (snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name) < PATH_SIZE && is_case(path))
            run_case(t, path, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
}

static int usage(void) {
    fprintf(stderr, "usage: conformance [--tap] [--unsupported N] FOLDER...\n");
    return 2;
}

int main(int argc, char **argv) {
    tally t = {0};
    long most = -1;
    int first = 1;
    char shared[PATH_SIZE];
    for (; first < argc && strncmp(argv[first], "--", 2) == 0; first++) {
        if (strcmp(argv[first], "--tap") == 0)
            t.tap = true;
        else if (strcmp(argv[first], "--unsupported") == 0 && first + 1 < argc)
            most = strtol(argv[++first], NULL, 10);
        else
            return usage();
    }
    if (first == argc && !t.tap)
        return usage();
    const char *directory = getenv("TFM_SHARED");
    snprintf(shared, sizeof(shared), "%s/golden/onnx", directory ? directory : TFM_ROOT "/../shared");
    if (first == argc && access(shared, R_OK) != 0) {
        printf("1..0 # SKIP %s is not here\n", shared);
        return 0;
    }
    if (tfm_context_open(&t.ctx, NULL) != TFM_OK) {
        printf("%s%s\n", t.tap ? "Bail out! " : "", tfm_error_message());
        return 1;
    }
    if (first == argc)
        run_folder(&t, shared);
    for (int i = first; i < argc; i++)
        run_folder(&t, argv[i]);
    tfm_context_free(&t.ctx);
    if (t.tap)
        printf("1..%d\n", t.cases);
    printf("%s%d passed, %d failed, %d unsupported\n", t.tap ? "# " : "", t.counts[VERDICT_PASS],
           t.counts[VERDICT_FAIL], t.counts[VERDICT_UNSUPPORTED]);
    if (most >= 0 && t.counts[VERDICT_UNSUPPORTED] > most)
        fprintf(stderr, "%d are unsupported, more than %ld\n", t.counts[VERDICT_UNSUPPORTED], most);
    return t.counts[VERDICT_FAIL] > 0 || t.cases == 0 || (most >= 0 && t.counts[VERDICT_UNSUPPORTED] > most);
}
