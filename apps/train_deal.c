/* Who has how much of an update: as is asked for, or by speed where devices or ranks are not of one kind. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "train.h"

/* What a device is, for ranks that tell each other. */
typedef struct kind {
    char text[512];
} kind;

static kind kind_of(const tfm_context *ctx) {
    const tfm_device_info *device = tfm_context_device(ctx);
    kind k;
    memset(&k, 0, sizeof(k));
    snprintf(k.text, sizeof(k.text), "%s, %s, %s", device->platform, device->name, device->driver);
    return k;
}

/* Whether all ranks have devices of one kind. */
static void compare_ranks(const train_run *r, bool *alike) {
    const kind own = kind_of(r->ctx);
    kind *kinds = train_ranks_hear(r, &own, sizeof(own));
    for (int i = 1; i < r->ranks->world; i++)
        *alike = *alike && memcmp(&kinds[i], &kinds[0], sizeof(kind)) == 0;
    free(kinds);
}

static void compare_members(const train_run *r, bool *alike) {
    kind first = {0};
    for (size_t i = 0; i < tfm_fleet_count(r->fleet); i++) {
        const tfm_fleet_member *m = tfm_fleet_get_member(r->fleet, i);
        if (m->dropped || !m->context)
            continue;
        const kind k = kind_of(m->context);
        *alike = *alike && (!first.text[0] || memcmp(&k, &first, sizeof(k)) == 0);
        first = k;
    }
}

/* How many have shares: a device that failed as it was opened is left out of the fleet. */
static int sharers(const train_run *r) {
    int left = 0;
    if (r->ranks)
        return r->ranks->world;
    for (size_t i = 0; i < tfm_fleet_count(r->fleet); i++)
        left += !tfm_fleet_get_member(r->fleet, i)->dropped;
    return left;
}

/* Whether batches are dealt in this way, of those that have a word. */
static bool is(const train_recipe *o, const char *word) {
    return strcmp(o->deal ? o->deal : "auto", word) == 0;
}

static bool has_word(const train_recipe *o) {
    return is(o, "auto") || is(o, "in-turn") || is(o, "by-speed");
}

tfm_dealing train_dealing(const train_recipe *o) {
    return is(o, "auto") || is(o, "by-speed") ? TFM_DEAL_BY_SPEED : TFM_DEAL_IN_TURN;
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
    if (has_word(&r->recipe))
        return CLI_GO;
    double *shares = given_shares(r);
    const bool good = shares != NULL;
    free(shares);
    return good ? CLI_GO
                : cli_misuse(syntax,
                             "--deal is '%s', and an update is shared by %d: give auto, in-turn, by-speed, or "
                             "as many numbers with commas between, one of them above 0",
                             r->recipe.deal, train_sharers(r));
}

int train_deal_begin(train_run *r) {
    bool alike = true;
    if (sharers(r) < 2)
        return CLI_OK;
    double *shares = has_word(&r->recipe) ? NULL : given_shares(r);
    if (!has_word(&r->recipe) && !shares) /* they were checked */
        return cli_fail("out of memory for the shares of %d", train_sharers(r));
    if (is(&r->recipe, "auto") && r->ranks)
        compare_ranks(r, &alike);
    else if (is(&r->recipe, "auto"))
        compare_members(r, &alike);
    else
        alike = !is(&r->recipe, "by-speed");
    /* What a checkpoint has was measured for devices that these may not be. */
    const tfm_status status =
        alike ? tfm_trainer_set_shares(r->trainer, shares, shares ? (size_t)train_sharers(r) : 0) : TFM_OK;
    free(shares);
    if (status != TFM_OK)
        return cli_fail_library();
    return train_first(r) ? train_deal_say(r) : CLI_OK;
}

int train_deal_say(train_run *r) {
    const double *shares = tfm_trainer_shares(r->trainer);
    if (!shares || r->dealt)
        return CLI_OK;
    char text[512] = "";
    size_t at = 0;
    double sum = 0;
    const int64_t next = tfm_trainer_updates(r->trainer) + 1;
    json_t *list = json_array();
    for (int i = 0; i < sharers(r); i++)
        sum += shares[i];
    for (int i = 0; i < sharers(r); i++) {
        const int wrote = snprintf(text + at, sizeof(text) - at, "%s%.0f %%", i ? ", " : "", 100 * shares[i] / sum);
        at += wrote > 0 && (size_t)wrote < sizeof(text) - at ? (size_t)wrote : 0;
        json_array_append_new(list, json_real(shares[i] / sum));
    }
    text[at] = 0;
    train_say("from update %" PRId64 " on the %s have %s of the tokens", next, r->ranks ? "ranks" : "devices", text);
    r->dealt = true;
    return train_log_put(&r->log,
                         json_pack("{s:s, s:I, s:o}", "type", "deal", "update", (json_int_t)next, "shares", list));
}
