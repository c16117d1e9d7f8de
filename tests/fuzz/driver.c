/* Replacement for libFuzzer: mutates seeds in a few ways, the same ones in every run.
 *
 *     TFM_FUZZ=torch fuzz -max_total_time=20 -artifact_prefix=FOLDER/ SEEDS
 *
 * supports these two of libFuzzer's options. SEEDS is a folder of files; a single file is run once. If a signal or a
 * sanitizer ends the program, the current input is in FOLDER/crash-NAME. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "fuzz.h"

enum { LONGEST = 1 << 16, MOST_SEEDS = 512, SLOW_SECONDS = 30 };

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

typedef struct input {
    uint8_t *data;
    size_t size;
} input;

static input seeds[MOST_SEEDS];
static size_t seed_count;
static uint64_t state = 1;
static uint8_t current[LONGEST];
static size_t current_size;
static char artifact[1024];

/* SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t next(void) {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static size_t below(size_t n) {
    return n ? (size_t)(next() % n) : 0;
}

/* ---- Seeds -------------------------------------------------------------------------------------------- */

static bool read_seed(const char *path) {
    FILE *file = fopen(path, "rb");
    input *s = &seeds[seed_count];
    if (!file || seed_count == MOST_SEEDS || !(s->data = malloc(LONGEST)))
        return false;
    s->size = fread(s->data, 1, LONGEST, file);
    fclose(file);
    seed_count++;
    return true;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorted by name, so that runs are reproducible. */
static bool read_seeds(const char *path) {
    struct stat info;
    static char *names[MOST_SEEDS];
    size_t count = 0;
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode))
        return read_seed(path);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir)) && count < MOST_SEEDS;)
        if (e->d_name[0] != '.')
            names[count++] = strdup(e->d_name);
    if (dir)
        closedir(dir);
    qsort(names, count, sizeof(*names), by_name);
    bool good = count > 0;
    for (size_t i = 0; i < count; i++) {
        char whole[2048];
        snprintf(whole, sizeof(whole), "%s/%s", path, names[i]);
        good &= read_seed(whole);
        free(names[i]);
    }
    return good;
}

/* ---- Damage ------------------------------------------------------------------------------------------- */

/* Replaces `old` bytes at `at` by room for `bytes`. */
static bool make_room(size_t at, size_t old, size_t bytes) {
    if (current_size - old + bytes > LONGEST)
        return false;
    memmove(current + at + bytes, current + at + old, current_size - at - old);
    current_size += bytes - old;
    return true;
}

static void put(size_t at, size_t old, const void *bytes, size_t count) {
    if (make_room(at, old, count))
        memcpy(current + at, bytes, count);
}

/* A boundary value of some integer type, in binary or in digits. */
static void put_number(size_t at) {
    static const uint64_t NUMBERS[] = {0,
                                       1,
                                       127,
                                       255,
                                       256,
                                       32767,
                                       65535,
                                       INT32_MAX,
                                       UINT32_MAX,
                                       1u << 31,
                                       1u << 24,
                                       INT64_MAX,
                                       INT64_MIN,
                                       UINT64_MAX,
                                       UINT64_MAX - 7,
                                       1ull << 32,
                                       1ull << 61,
                                       1ull << 62,
                                       0x7ff0000000000000u};
    const uint64_t value = NUMBERS[below(sizeof(NUMBERS) / sizeof(*NUMBERS))];
    const size_t widths[] = {1, 2, 4, 8}, width = widths[below(4)];
    char digits[32];
    size_t end = at;
    while (end < current_size && current[end] >= '0' && current[end] <= '9')
        end++;
    if (end > at) {
        const int length = snprintf(digits, sizeof(digits), next() & 1 ? "%lld" : "%llu", (unsigned long long)value);
        put(at, end - at, digits, (size_t)length);
    } else if (width <= current_size - at) {
        for (size_t i = 0; i < width; i++)
            current[at + i] = (uint8_t)(value >> 8 * i);
    }
}

static void damage(void) {
    static const char *const WORDS[] = {"null", "true",    "-1",           "1e999",    "[]", "{}",
                                        "\"\"", "\xff",    "\xc3",         "\xf0\x9f", "\n", "\t",
                                        "\r\n", "\\u0000", "\xe2\x80\xa8", "&quot;",   "."};
    const size_t at = below(current_size), left = current_size - at;
    size_t some = 1 + below(left < 16 ? left : 16);
    some = some < left ? some : left;
    switch (below(10)) {
    case 0:
        if (left)
            current[at] ^= (uint8_t)(1u << below(8));
        break;
    case 1:
        if (left)
            current[at] = (uint8_t)next();
        break;
    case 2: { /* the next digits */
        size_t digit = at;
        while (digit < current_size && (current[digit] < '0' || current[digit] > '9'))
            digit++;
        put_number(digit < current_size ? digit : at);
        break;
    }
    case 3:
        put_number(at);
        break;
    case 4:
        put(at, some, "", 0);
        break;
    case 5: {
        const char *word = WORDS[below(sizeof(WORDS) / sizeof(*WORDS))];
        put(at, next() & 1 ? some : 0, word, strlen(word));
        break;
    }
    case 6: /* repeat a part of this input */
        if (left) {
            uint8_t part[16];
            memcpy(part, current + at, some);
            put(below(current_size), 0, part, some);
        }
        break;
    case 7: { /* a part of another seed */
        const input *other = &seeds[below(seed_count)];
        const size_t from = below(other->size), most = other->size - from, count = below(most < 64 ? most : 64);
        put(at, next() & 1 && count <= left ? count : 0, other->data + from, count);
        break;
    }
    case 8:
        if (below(8) == 0)
            current_size = at;
        break;
    default: { /* one byte many times */
        uint8_t byte = left ? current[at] : 0, part[256];
        const size_t count = below(sizeof(part));
        memset(part, byte, count);
        put(at, 0, part, count);
    }
    }
}

/* ---- The run ------------------------------------------------------------------------------------------ */

static void keep(void) {
    const int fd = open(artifact, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd >= 0 && write(fd, current, current_size) == (ssize_t)current_size)
        close(fd);
}

static void on_signal(int number) {
    keep();
    signal(number, SIG_DFL);
    raise(number);
}

static void try(void) {
    uint8_t *exact = fuzz_copy(current, current_size);
    alarm(SLOW_SECONDS);
    LLVMFuzzerTestOneInput(exact, current_size);
    free(exact);
}

int main(int argc, char **argv) {
    double seconds = 0;
    const char *prefix = "";
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "-max_total_time=", 16) == 0)
            seconds = atof(argv[i] + 16);
        else if (strncmp(argv[i], "-artifact_prefix=", 17) == 0)
            prefix = argv[i] + 17;
        else if (argv[i][0] != '-' && !read_seeds(argv[i]))
            return fprintf(stderr, "%s has no seeds, or too many\n", argv[i]), 2;
    }
    LLVMFuzzerInitialize(&argc, &argv);
    const char *name = fuzz_chosen()->name;
    snprintf(artifact, sizeof(artifact), "%scrash-%s", prefix, name);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(keep);
    const int signals[] = {SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
        if (signals[i] == SIGABRT || signals[i] == SIGALRM || !__sanitizer_set_death_callback)
            signal(signals[i], on_signal);
    struct timespec start, now;
    uint64_t runs = 0;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;; runs++) {
        const bool plain = runs < seed_count; /* first each seed, unchanged */
        /* Mutations of a rejected seed would not get far into the reader. */
        if (seconds > 0 && seed_count > 0 && runs == seed_count && fuzz_taken() == 0)
            return fprintf(stderr, "%s accepts none of its %zu seeds\n", name, seed_count), 1;
        const input *s = &seeds[plain ? runs : below(seed_count)];
        current_size = seed_count ? s->size : 0;
        if (current_size)
            memcpy(current, s->data, current_size);
        for (size_t n = plain ? 0 : 1 + below(1u << below(5)); n > 0; n--)
            damage();
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (!plain && (double)(now.tv_sec - start.tv_sec) + 1e-9 * (double)(now.tv_nsec - start.tv_nsec) >= seconds)
            break;
        try();
    }
    alarm(0);
    printf("%s: %llu inputs, %llu accepted\n", name, (unsigned long long)runs, (unsigned long long)fuzz_taken());
    return 0;
}
