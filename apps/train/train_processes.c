/* A run of several ranks. Rank 0 owns the directory, the log, validation and all decisions; the others do their share
 * of each update. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "train/mpi_env.h"
#include "train/train.h"

/* The state that ranks exchange between updates. */
typedef struct rank_state {
    int code;       /* return code so far */
    int stop, over; /* a stop signal was received; no update follows */
    int told;       /* it has an error message */
    int save;       /* rank 0: all must save, and exchange this state again */
    uint64_t text;  /* a hash of its training text */
} rank_state;

/* All-gather of `bytes` bytes of each rank, in rank order, in memory for free(). A collective call. */
static void *gather_bytes(const train_run *r, const void *own, size_t bytes) {
    void *all = calloc((size_t)r->ranks->world_size, bytes);
    if (!all || !r->ranks->all_gather(r->ranks->user, all, own, bytes)) {
        fputs("tfm: communication between ranks failed\n", stderr);
        abort(); /* the launcher ends the other, waiting ranks */
    }
    return all;
}

/* The state of each rank, in memory for free(). */
static rank_state *gather_states(const train_run *r, rank_state own) {
    return gather_bytes(r, &own, sizeof(own));
}

int train_save_failed(const train_run *r) {
    if (r->saved < 0)
        return cli_fail_library();
    return cli_fail("%s; the checkpoint of update %" PRId64 " is complete", tfm_error_message(), r->saved);
}

/* Writes this rank's shard when rank 0 saves. */
static int save_part(train_run *r) {
    const tfm_status status = tfm_trainer_save(r->trainer, NULL, r->checkpoint);
    if (status == TFM_ERROR_CANCELLED)
        return CLI_FAILED;
    if (status != TFM_OK)
        return train_save_failed(r);
    r->saved = tfm_trainer_updates(r->trainer);
    return CLI_OK;
}

/* The same, after all requests of rank 0 to save. */
static rank_state *gather_states_saving(train_run *r, rank_state own) {
    for (;;) {
        rank_state *states = gather_states(r, own);
        if (!states[0].save)
            return states;
        free(states);
        const int code = save_part(r);
        own.code = own.code == CLI_OK ? code : own.code;
        own.told = cli_deferred_error()[0] != 0;
    }
}

bool train_first(const train_run *r) {
    return !r->ranks || r->ranks->rank == 0;
}

int train_world(const train_run *r) {
    return r->ranks ? r->ranks->world_size : 1;
}

int train_replicas(const train_run *r) {
    return r->ranks ? r->ranks->world_size : r->devices;
}

const char *train_replica_name(const train_run *r) {
    return r->ranks ? "rank" : r->recipe.workers > 1 ? "replica" : "device";
}

/* A trace file per rank: x.json, x-rank1.json, x-rank2.json. */
static void name_trace(int rank) {
    const char *const path = getenv("TFM_PROFILE");
    if (rank == 0 || !path || !path[0] || strcmp(path, "0") == 0 || strcmp(path, "1") == 0)
        return;
    const char *const slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    if (!dot || (slash && dot < slash))
        dot = path + strlen(path);
    const size_t room = strlen(path) + 32;
    char *const own = malloc(room);
    if (!own)
        return;
    snprintf(own, room, "%.*s-rank%d%s", (int)(dot - path), path, rank, dot);
    setenv("TFM_PROFILE", own, 1);
    free(own);
}

int train_ranks_open(train_run *r) {
    const int code = mpi_ranks_open(&r->ranks, &r->local);
    if (code != CLI_OK || !r->ranks)
        return code;
    cli_defer_errors(!train_first(r));
    name_trace(r->ranks->rank);
    const int nowhere = train_first(r) ? -1 : open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0) /* rank 0 prints everything */
        close(nowhere);
    return CLI_OK;
}

bool train_sharded(const train_run *r) {
    return r->ranks && r->recipe.shard_optimizer;
}

void train_ranks_request_save(const train_run *r) {
    free(gather_states(r, (rank_state){.save = 1}));
}

int train_ranks_close(train_run *r, int code) {
    if (!r->ranks) { /* a launcher may have started a single rank */
        mpi_ranks_close();
        return code;
    }
    const char *const sentence = cli_deferred_error();
    rank_state *states = gather_states_saving(r, (rank_state){.code = code, .told = sentence[0] != 0});
    int first = 0;
    while (first < r->ranks->world_size && !states[first].told)
        first++;
    const bool failed = first < r->ranks->world_size;
    const int end = states[failed ? first : 0].code;
    char whose[32] = "";
    free(states);
    if (first > 0)
        snprintf(whose, sizeof(whose), "rank %d: ", first);
    if (failed && first == r->ranks->rank)
        cli_print_deferred_error(whose);
    mpi_ranks_close();
    return failed && end == CLI_OK ? CLI_FAILED : end;
}

/* The options of a rank. */
typedef struct rank_options {
    int code; /* return code of parsing */
    uint64_t options[TRAIN_OPTIONS];
} rank_options;

/* Whether all is ready for the first update: then the recipe has the final options. */
static bool is_ready(const train_run *r) {
    return r->trainer != NULL;
}

static bool same(const rank_options *a, const rank_options *b) {
    return a->code == b->code && memcmp(a->options, b->options, sizeof(a->options)) == 0;
}

/* The differing options, comma-separated; for a rank that only printed --help, just that. */
static void list_options(char *text, size_t size, const rank_options *a, const rank_options *b) {
    size_t used = 0;
    snprintf(text, size, "%s", a->code == b->code ? "" : "--help");
    for (size_t i = 0; a->code == b->code && i < TRAIN_OPTIONS && used < size; i++)
        if (a->options[i] != b->options[i])
            used += (size_t)snprintf(text + used, size - used, "%s--%s", used ? ", " : "", train_recipe_name(i));
}

/* Names the first rank with other options than rank 0. */
static int check_same_options(const train_run *r, const rank_options *all) {
    char options[2048], more[64] = "";
    int first = 0, others = 0;
    for (int i = r->ranks->world_size - 1; i > 0; i--)
        if (!same(&all[0], &all[i])) {
            first = i;
            others++;
        }
    if (others == 0)
        return CLI_OK;
    if (!train_first(r))
        return CLI_FAILED;
    list_options(options, sizeof(options), &all[0], &all[first]);
    if (others == 2)
        snprintf(more, sizeof(more), ", and so has another");
    else if (others > 2)
        snprintf(more, sizeof(more), ", and so have %d more", others - 1);
    if (is_ready(r))
        return cli_fail("rank %d has another recipe in %s than rank 0 (%s)%s: all must see the same directory", first,
                        r->dir, options, more);
    return cli_fail(
        "rank %d has other options than rank 0 (%s)%s: give the same to all; only --device, --gradient-checkpointing "
        "and the names of text files may differ",
        first, options, more);
}

int train_ranks_compare(const train_run *r, int code) {
    if (!r->ranks)
        return code;
    rank_options own = {.code = code};
    train_recipe_hash(&r->recipe, own.options);
    if (is_ready(r)) /* the directory was compared before */
        memset(own.options, 0, TRAIN_UNSAVED * sizeof(*own.options));
    rank_options *all = gather_bytes(r, &own, sizeof(own));
    for (int i = 0; i < r->ranks->world_size && (code == CLI_CONTINUE || code == CLI_OK); i++)
        if (all[i].code != CLI_CONTINUE && all[i].code != CLI_OK)
            code = all[i].code;
    if (code == CLI_CONTINUE || code == CLI_OK)
        code = check_same_options(r, all) == CLI_OK ? code : CLI_FAILED;
    free(all);
    return code;
}

int train_ranks_check(const train_run *r, const cli_syntax *syntax) {
    if (r->recipe.gradient_accumulation_steps >= train_replicas(r))
        return CLI_CONTINUE;
    return cli_usage_error(
        syntax, "--gradient-accumulation-steps is %d, and %d %ss share each update: give at least %d",
        r->recipe.gradient_accumulation_steps, train_replicas(r), train_replica_name(r), train_replicas(r));
}

int train_ranks_agree(const train_run *r, int code) {
    if (!r->ranks)
        return code;
    char *text = r->corpus ? json_dumps(r->corpus, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    rank_state *states =
        gather_states(r, (rank_state){.code = code, .text = text ? train_hash(TRAIN_HASH, text, strlen(text)) : 0});
    free(text);
    for (int i = 0; i < r->ranks->world_size && code == CLI_OK; i++) {
        if (states[i].code != CLI_OK)
            code = states[i].code;
        else if (states[i].text && states[0].text && states[i].text != states[0].text)
            code = train_first(r) ? cli_fail("rank %d has other training files than rank 0: all must have the same", i)
                                  : CLI_FAILED;
    }
    free(states);
    return code;
}

bool train_ranks_continue(train_run *r, int *code, bool over) {
    const bool stop = train_stop_requested();
    if (!r->ranks)
        return *code == CLI_OK && !stop && !over;
    rank_state *states = gather_states_saving(r, (rank_state){.code = *code, .stop = stop, .over = over});
    bool on = !states[0].over;
    for (int i = 0; i < r->ranks->world_size; i++) {
        on = on && !states[i].stop && states[i].code == CLI_OK;
        if (states[i].code != CLI_OK && *code == CLI_OK)
            *code = CLI_FAILED;
    }
    free(states);
    return on;
}

/* All devices, and the number of given ones. */
static int list_devices(const train_run *r, tfm_device_info **devices, size_t *count, size_t *named) {
    *named = 0;
    if (r->recipe.device && *r->recipe.device)
        setenv("TFM_DEVICE", r->recipe.device, true);
    if (tfm_devices_list(devices, count) != TFM_OK)
        return cli_fail_library();
    for (size_t i = 0; i < *count; i++)
        *named += (*devices)[i].chosen;
    return CLI_OK;
}

/* Reports why the device selectors select none: opening them fails. */
static int fail_selection(const train_run *r) {
    tfm_fleet *fleet = NULL;
    const tfm_status status = cli_open_fleet(&fleet, r->recipe.device, 1);
    tfm_fleet_free(&fleet);
    return status == TFM_OK ? cli_fail("the devices changed while they were listed: try again") : cli_fail_library();
}

int train_devices_count(train_run *r, const cli_syntax *syntax) {
    tfm_device_info *devices;
    size_t count, named = 1;
    r->devices = 1;
    if (r->ranks)
        return r->recipe.workers == 1
                   ? CLI_CONTINUE
                   : cli_usage_error(syntax, "--workers is for one process: start more ranks instead");
    const int code = cli_check_workers(syntax, r->recipe.workers);
    if (code != CLI_CONTINUE)
        return code;
    if (r->recipe.device || getenv("TFM_DEVICE")) {
        if (list_devices(r, &devices, &count, &named) != CLI_OK)
            return CLI_FAILED;
        tfm_devices_free(&devices);
    }
    if (named == 0)
        return fail_selection(r);
    r->devices = (int)named * r->recipe.workers;
    return CLI_CONTINUE;
}

/* Assigns one of the given devices to each rank of a machine. A list such as "all" may have one device, and still is
 * not its name. */
int train_ranks_device(train_run *r) {
    tfm_device_info *devices;
    size_t count, named;
    if (!r->ranks)
        return CLI_OK;
    if (list_devices(r, &devices, &count, &named) != CLI_OK)
        return CLI_FAILED;
    const bool listed = named > 1 || (named == 1 && getenv("TFM_DEVICE"));
    for (size_t i = 0, seen = 0; listed && i < count; i++)
        if (devices[i].chosen && seen++ == (size_t)r->local % named)
            snprintf(r->device, sizeof(r->device), "%d", devices[i].index);
    tfm_devices_free(&devices);
    return CLI_OK;
}
