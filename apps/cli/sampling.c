/* Options of sampling, shared by the commands that generate text. */
#include "cli/cli.h"

bool cli_samples(const cli_sampling *s) {
    return s->sample || s->temperature > 0 || s->top_k > 0 || s->top_p > 0 || s->min_p > 0;
}

int cli_check_sampling(const cli_syntax *syntax, const cli_sampling *s) {
    if (s->temperature < 0)
        return cli_usage_error(syntax, "--temperature is %g: give at least 0", s->temperature);
    if (s->top_p < 0 || s->top_p > 1)
        return cli_usage_error(syntax, "--top-p is %g: give more than 0, at most 1", s->top_p);
    if (s->min_p < 0 || s->min_p > 1)
        return cli_usage_error(syntax, "--min-p is %g: give 0 to 1", s->min_p);
    if (s->has_top_p && s->top_p == 0) /* the library reads 0 as the model's default */
        return cli_usage_error(syntax, "--top-p is 0: give more, or -t 0 for greedy decoding");
    if (s->has_penalty && s->repetition_penalty <= 0)
        return cli_usage_error(syntax, "--repetition-penalty is %g: give more than 0 (1 has no effect)",
                               s->repetition_penalty);
    return CLI_CONTINUE;
}

void cli_set_sampling(tfm_generate_options *options, const cli_sampling *s) {
    const bool greedy = s->has_temperature && s->temperature == 0;
    options->sample = cli_samples(s) && !greedy;
    options->temperature = (float)s->temperature;
    options->top_k = greedy ? 0 : s->top_k;
    options->top_p = greedy ? 0 : (float)s->top_p;
    options->min_p = greedy ? 0 : (float)s->min_p;
    options->repetition_penalty = (float)s->repetition_penalty;
    options->seed = (uint64_t)s->seed;
}
