/* Ctrl-C, SIGTERM and a closed terminal: stopping a run, and the command that resumes it. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "train/train.h"

static volatile sig_atomic_t asked_to_stop;

static void on_signal(int number) {
    asked_to_stop = number;
}

/* Before the first update there is nothing to save: prints the prepared message. */
static char goodbye[4096];

static void on_early_signal(int number) {
    if (write(STDERR_FILENO, goodbye, strlen(goodbye)) < 0)
        goodbye[0] = 0;
    raise(number); /* ends the program after this handler */
}

/* Ignored signals stay ignored, such as Ctrl-C for background jobs of a script. A closing terminal sends SIGHUP twice,
 * from the shell and the terminal: the second one does not end the program. */
static void catch_signals(void (*handler)(int)) {
    const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < CLI_COUNT(signals); i++) {
        const bool once = signals[i] != SIGHUP || handler == on_early_signal;
        struct sigaction now;
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaction(
                signals[i],
                &(struct sigaction){.sa_handler = handler, .sa_flags = (once ? (int)SA_RESETHAND : 0) | SA_RESTART},
                NULL);
    }
}

bool train_stop_requested(void) {
    return asked_to_stop;
}

void train_catch_signals(bool ranks) {
    catch_signals(on_signal);
    if (ranks)
        sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal, .sa_flags = SA_RESTART}, NULL);
}

/* Appends `from` to the text, truncated to its size. */
static void append(char *text, size_t size, const char *from) {
    const size_t length = strlen(text);
    snprintf(text + length, size - length, "%s", from);
}

/* Appends a word, quoted for the shell if needed. */
static void append_word(char *text, size_t size, const char *word) {
    const char *const quotes = word[strcspn(word, " \t\n\"\\$`&|;<>()*?[]#~!{}'")] ? "'" : "";
    append(text, size, quotes);
    for (const char *at = word; *at; at++)
        append(text, size, *at == '\'' ? "'\\''" : (const char[]){*at, 0});
    append(text, size, quotes);
}

const char *train_resume_command(char *text, size_t size, const train_run *r) {
    *text = 0;
    if (r->ranks)
        snprintf(text, size, "mpirun -n %d ", r->ranks->world_size);
    append(text, size, "tfm train --resume ");
    append_word(text, size, r->dir);
    if (r->recipe.device && *r->recipe.device) {
        append(text, size, " --device ");
        append_word(text, size, r->recipe.device);
    }
    if (r->recipe.workers > 1)
        snprintf(text + strlen(text), size - strlen(text), " --workers %d", r->recipe.workers);
    if (r->recipe.shard_optimizer)
        append(text, size, " --shard-optimizer");
    if (r->recipe.gradient_checkpointing)
        append(text, size, " --gradient-checkpointing");
    return text;
}

void train_catch_signals_early(const train_run *r) {
    char command[sizeof(goodbye) - 100];
    snprintf(goodbye, sizeof(goodbye), "%sstopped before an update; resume with: %s\n",
             isatty(STDERR_FILENO) ? "\r\033[K" : "", train_resume_command(command, sizeof(command), r));
    catch_signals(on_early_signal);
}
