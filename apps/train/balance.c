/* The ratio in which devices or ranks share each update. */
#include <inttypes.h>
#include <stdlib.h>
#include "train/train.h"

/* How many have shares: a device that failed as it was opened is left out of the fleet. */
static int sharers(const train_run *r) {
    int left = 0;
    if (r->ranks)
        return r->ranks->world;
    for (size_t i = 0; i < tfm_fleet_count(r->fleet); i++)
        left += !tfm_fleet_get_member(r->fleet, i)->dropped;
    return left;
}

/* Reads numbers with commas between, up to `most` of them; returns how many there are, 0 if it is something else. */
static size_t read_shares(double *shares, size_t most, const char *text) {
    size_t count = 0;
    for (char *end; *text; text = end + (*end == ',' && end[1])) {
        const double share = strtod(text, &end);
        if (end == text || (*end && *end != ',') || (*end && !end[1]) || !(share >= 0 && share < 1e9))
            return 0;
        if (count < most)
            shares[count] = share;
        count++;
    }
    return count;
}

/* The shares that are given, for free(); NULL if they are not one for each, or none is above 0. */
static double *given_shares(const train_run *r) {
    const size_t count = (size_t)train_sharers(r);
    double *shares = calloc(count, sizeof(*shares)), sum = 0;
    const bool good = shares && read_shares(shares, count, r->recipe.deal) == count;
    for (size_t i = 0; good && i < count; i++)
        sum += shares[i];
    if (good && sum > 0)
        return shares;
    free(shares);
    return NULL;
}

int train_deal_check(const train_run *r, const cli_syntax *syntax) {
    if (!r->recipe.deal)
        return CLI_GO;
    double *shares = given_shares(r);
    const bool good = shares != NULL;
    free(shares);
    return good ? CLI_GO
                : cli_misuse(syntax,
                             "--deal is '%s', and an update is shared by %d: give as many numbers with commas "
                             "between, one of them above 0",
                             r->recipe.deal, train_sharers(r));
}

static void say_shares(const train_run *r) {
    const double *shares = tfm_trainer_shares(r->trainer);
    char text[512] = "";
    size_t at = 0;
    double sum = 0;
    for (int i = 0; shares && i < sharers(r); i++)
        sum += shares[i];
    for (int i = 0; shares && i < sharers(r); i++) {
        const int wrote = snprintf(text + at, sizeof(text) - at, "%s%.0f %%", i ? ", " : "", 100 * shares[i] / sum);
        at += wrote > 0 && (size_t)wrote < sizeof(text) - at ? (size_t)wrote : 0;
    }
    text[at] = 0;
    if (shares)
        train_say("from update %" PRId64 " on the %s have %s of the tokens", tfm_trainer_updates(r->trainer) + 1,
                  r->ranks ? "ranks" : "devices", text);
}

int train_deal_begin(train_run *r) {
    if (sharers(r) < 2)
        return CLI_OK;
    double *shares = r->recipe.deal ? given_shares(r) : NULL;
    if (r->recipe.deal && !shares) /* they were checked */
        return cli_fail("out of memory for the shares of %d", train_sharers(r));
    const tfm_status status =
        shares ? tfm_trainer_set_shares(r->trainer, shares, (size_t)train_sharers(r)) : TFM_OK; /* the checkpoint's */
    free(shares);
    if (status != TFM_OK)
        return cli_fail_library();
    if (train_first(r))
        say_shares(r);
    return CLI_OK;
}
