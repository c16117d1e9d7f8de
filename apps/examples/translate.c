/* Translates its arguments.
 *
 *     cc translate.c $(pkg-config --cflags --libs tfm) -o translate
 *     ./translate apps/demo "Guten Morgen." "Danke." */
#include <stdio.h>
#include <tfm/tfm.h>

static bool print(void *user, size_t line, int best, const char *text, double score) {
    (void)user, (void)line, (void)best, (void)score;
    return puts(text) >= 0;
}

int main(int argc, char **argv) {
    tfm_context *ctx = NULL;
    tfm_model *model = NULL;
    const char *dir = argc > 1 ? argv[1] : "apps/demo";
    bool done = tfm_context_open(&ctx, NULL) == TFM_OK && tfm_model_open(&model, ctx, dir, NULL) == TFM_OK &&
                tfm_translate(model, (const char *const *)argv + 2, argc > 2 ? (size_t)argc - 2 : 0, NULL, print,
                              NULL) == TFM_OK;
    if (!done)
        fprintf(stderr, "%s\n", tfm_error_message());
    tfm_model_free(&model);
    tfm_context_free(&ctx);
    return done ? 0 : 1;
}
