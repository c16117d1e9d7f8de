/* The ratio in which devices or ranks share each update. */
#include <inttypes.h>
#include <stdlib.h>
#include "train/train.h"

/* Number of replicas: the fleet skips a device that failed to open. */
static int live_replicas(const train_run *r) {
    int left = 0;
    if (r->ranks)
        return r->ranks->world_size;
    for (size_t i = 0; i < tfm_fleet_count(r->fleet); i++)
        left += !tfm_fleet_get_member(r->fleet, i)->dropped;
    return left;
}

/* Parses up to `most` comma-separated numbers; returns their count, 0 for anything else. */
static size_t parse_ratio(double *ratio, size_t most, const char *text) {
    size_t count = 0;
    for (char *end; *text; text = end + (*end == ',' && end[1])) {
        const double share = strtod(text, &end);
        if (end == text || (*end && *end != ',') || (*end && !end[1]) || !(share >= 0 && share < 1e9))
            return 0;
        if (count < most)
            ratio[count] = share;
        count++;
    }
    return count;
}

/* The given ratio, for free(); NULL if there is not one number per replica, or none is above 0. */
static double *ratio_given(const train_run *r) {
    const size_t count = (size_t)train_replicas(r);
    double *ratio = calloc(count, sizeof(*ratio)), sum = 0;
    const bool good = ratio && parse_ratio(ratio, count, r->recipe.balance) == count;
    for (size_t i = 0; good && i < count; i++)
        sum += ratio[i];
    if (good && sum > 0)
        return ratio;
    free(ratio);
    return NULL;
}

int train_balance_check(const train_run *r, const cli_syntax *syntax) {
    if (!r->recipe.balance)
        return CLI_CONTINUE;
    double *ratio = ratio_given(r);
    const bool good = ratio != NULL;
    free(ratio);
    if (!good && train_replicas(r) == 1)
        return cli_usage_error(syntax,
                               "--balance is '%s', and one device computes each update alone: leave it out, or give "
                               "several devices by --device",
                               r->recipe.balance);
    return good ? CLI_CONTINUE
                : cli_usage_error(syntax,
                                  "--balance is '%s', and %d replicas share an update: give as many comma-separated "
                                  "numbers, one of them above 0",
                                  r->recipe.balance, train_replicas(r));
}

static void print_balance(const train_run *r) {
    const double *ratio = tfm_trainer_balance(r->trainer);
    char text[512] = "";
    size_t at = 0;
    double sum = 0;
    for (int i = 0; ratio && i < live_replicas(r); i++)
        sum += ratio[i];
    for (int i = 0; ratio && i < live_replicas(r); i++) {
        const int wrote = snprintf(text + at, sizeof(text) - at, "%s%.0f %%", i ? ", " : "", 100 * ratio[i] / sum);
        at += wrote > 0 && (size_t)wrote < sizeof(text) - at ? (size_t)wrote : 0;
    }
    text[at] = 0;
    if (ratio)
        train_print("from update %" PRId64 " on the %ss have %s of the tokens", tfm_trainer_updates(r->trainer) + 1,
                    train_replica_name(r), text);
}

int train_balance_begin(train_run *r) {
    if (live_replicas(r) < 2)
        return CLI_OK;
    double *ratio = r->recipe.balance ? ratio_given(r) : NULL;
    if (r->recipe.balance && !ratio) /* they were checked */
        return cli_fail("out of memory for the shares of %d", train_replicas(r));
    const tfm_status status =
        ratio ? tfm_trainer_set_balance(r->trainer, ratio, (size_t)train_replicas(r)) : TFM_OK; /* the checkpoint's */
    free(ratio);
    if (status != TFM_OK)
        return cli_fail_library();
    if (train_first(r))
        print_balance(r);
    return CLI_OK;
}
