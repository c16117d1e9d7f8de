/* Ctrl-C and SIGTERM: how a run is stopped, and how it is gone on with. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "train.h"

static volatile sig_atomic_t asked_to_stop;

static void on_signal(int number) {
    asked_to_stop = number;
}

/* Before the first update there is nothing to end: the run is as it was, and its sentence is ready. */
static char goodbye[4096];

static void on_early_signal(int number) {
    if (write(STDERR_FILENO, goodbye, strlen(goodbye)) < 0)
        goodbye[0] = 0;
    raise(number); /* which ends the program when this handler has */
}

/* One that is ignored stays so: Ctrl-C is not meant for what a script has put into the background. */
static void catch_signals(void (*handler)(int)) {
    const int signals[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < CLI_COUNT(signals); i++) {
        struct sigaction now;
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaction(
                signals[i],
                &(struct sigaction){.sa_handler = handler, .sa_flags = (int)SA_RESETHAND | SA_RESTART}, NULL);
    }
}

bool train_asked_to_stop(void) {
    return asked_to_stop;
}

void train_catch(void) {
    catch_signals(on_signal);
}

/* Quotes for a word that a shell would take apart; one that has such quotes in it is not dressed further. */
static const char *quote(const char *word) {
    return strpbrk(word, " \t\n\"\\$`&|;<>()*?[]#~!{}") ? "'" : "";
}

const char *train_go_on(char *text, size_t size, const train_run *r) {
    const char *device = r->recipe.device ? r->recipe.device : "", *q = quote(r->dir), *p = quote(device);
    snprintf(text, size, "tfm train --resume %s%s%s%s%s%s%s", q, r->dir, q, *device ? " --device " : "", p,
             device, p);
    return text;
}

void train_catch_early(const train_run *r) {
    char command[sizeof(goodbye) - 100];
    snprintf(goodbye, sizeof(goodbye), "%sstopped before an update; go on with: %s\n",
             isatty(STDERR_FILENO) ? "\r\033[K" : "", train_go_on(command, sizeof(command), r));
    catch_signals(on_early_signal);
}
