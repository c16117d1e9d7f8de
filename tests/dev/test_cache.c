/* Disk cache: stored entries are returned, damaged ones never are. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "support/harness.h"
#include "base/base.h"
#include "dev/cache/cache.h"

static const char KEY[] = "program softmax -DWG=8\nPortable Computing Language | 3.1";
static const char PAYLOAD[] = "binary\0with a NUL, and no end";

static char folder[256];
static int warnings;

static void count_warnings(void *user, tfm_log_level level, const char *line) {
    (void)user, (void)line;
    warnings += level <= TFM_LOG_WARNING;
}

static int setup(void **state) {
    (void)state;
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%s/tfm-cache-XXXXXX", temporary ? temporary : P_tmpdir);
    tfm_log_set(count_warnings, NULL, TFM_LOG_WARNING);
    return mkdtemp(folder) && setenv("TFM_CACHE_DIR", folder, 1) == 0 ? 0 : -1;
}

/* Calls `visit` with the path of every file in the folder; returns how many. */
static int each_file(void (*visit)(const char *path)) {
    int count = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (struct dirent *next; (next = readdir(listing));) {
        char path[600];
        if (next->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, next->d_name);
        count++;
        if (visit)
            visit(path);
    }
    closedir(listing);
    return count;
}

static void remove_file(const char *path) {
    assert_int_equal(unlink(path), 0);
}

static int teardown(void **state) {
    (void)state;
    setenv("TFM_CACHE_DIR", folder, 1);
    each_file(remove_file);
    return rmdir(folder);
}

static char entry_path[600];

static void note_path(const char *path) {
    snprintf(entry_path, sizeof(entry_path), "%s", path);
}

/* A folder with exactly one entry, KEY -> PAYLOAD; its path is in entry_path. */
static void one_entry(void) {
    each_file(remove_file);
    tfm__cache_put(KEY, PAYLOAD, sizeof(PAYLOAD));
    assert_int_equal(each_file(note_path), 1);
}

static void assert_there(const char *key, const void *want, size_t want_bytes) {
    size_t bytes = 77;
    void *got = tfm__cache_get(key, &bytes);
    assert_non_null(got);
    assert_int_equal(bytes, want_bytes);
    assert_memory_equal(got, want, want_bytes);
    free(got);
}

static void assert_absent(const char *key) {
    size_t bytes = 77;
    void *got = tfm__cache_get(key, &bytes);
    assert_null(got);
    assert_int_equal(bytes, 0);
}

static void test_cached_entry_comes_back(void **state) {
    (void)state;
    assert_absent(KEY);
    one_entry();
    assert_there(KEY, PAYLOAD, sizeof(PAYLOAD));
    assert_absent("another key");
    tfm__cache_put("another key", "x", 1);
    assert_there("another key", "x", 1);
    tfm__cache_put(KEY, "new", 3);
    assert_there(KEY, "new", 3);
    tfm__cache_put("empty", "", 0);
    assert_there("empty", "", 0);
    assert_int_equal(each_file(NULL), 3);
    tfm__cache_drop(KEY);
    tfm__cache_drop("never there");
    assert_absent(KEY);
    assert_int_equal(warnings, 0);
}

static void test_entries_of_any_size_come_back(void **state) {
    (void)state;
    /* Sizes around the hash's 8-byte words, and a large one. */
    static const size_t SIZES[] = {1, 7, 8, 9, 15, 16, 17, 65, 1000, 3000001};
    for (size_t i = 0; i < TFM__COUNT(SIZES); i++) {
        char *data = malloc(SIZES[i]);
        for (size_t j = 0; j < SIZES[i]; j++)
            data[j] = (char)(j * 31 + i);
        tfm__cache_put(KEY, data, SIZES[i]);
        assert_there(KEY, data, SIZES[i]);
        free(data);
    }
}

static void flip(const char *path, long at, unsigned char bits) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, at, SEEK_SET);
    int c = fgetc(file);
    assert_int_not_equal(c, EOF);
    fseek(file, at, SEEK_SET);
    fputc(c ^ bits, file);
    assert_int_equal(fclose(file), 0);
}

static long size_of(const char *path) {
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    return (long)about.st_size;
}

/* Each byte of header, key and payload, in its lowest, highest and all bits: no payload is returned, and the entry is
 * deleted. */
static void test_damaged_cache_entry_is_dropped(void **state) {
    (void)state;
    static const unsigned char BITS[] = {0x01, 0x80, 0xff};
    one_entry();
    long size = size_of(entry_path);
    assert_int_equal(size, 32 + (long)strlen(KEY) + (long)sizeof(PAYLOAD));
    for (long at = 0; at < size; at++) {
        for (size_t i = 0; i < TFM__COUNT(BITS); i++) {
            one_entry();
            flip(entry_path, at, BITS[i]);
            assert_absent(KEY);
            assert_int_equal(access(entry_path, F_OK), -1);
        }
    }
    tfm__cache_put(KEY, PAYLOAD, sizeof(PAYLOAD));
    assert_there(KEY, PAYLOAD, sizeof(PAYLOAD));
}

static void test_truncated_or_longer_entry_is_dropped(void **state) {
    (void)state;
    one_entry();
    long size = size_of(entry_path);
    for (long cut = 0; cut <= size + 3; cut++) {
        if (cut == size)
            continue;
        one_entry();
        assert_int_equal(truncate(entry_path, cut), 0);
        assert_absent(KEY);
        assert_int_equal(access(entry_path, F_OK), -1);
    }
}

/* A valid entry under another key's name, as a hash collision would leave it. */
static void test_entry_under_another_key_is_ignored(void **state) {
    (void)state;
    char other_path[600];
    one_entry();
    snprintf(other_path, sizeof(other_path), "%s", entry_path);
    each_file(remove_file);
    tfm__cache_put("program other", "x", 1);
    each_file(note_path);
    assert_int_equal(rename(entry_path, other_path), 0);
    assert_absent(KEY);
    assert_absent("program other");
    assert_int_equal(access(other_path, F_OK), 0);
    tfm__cache_put(KEY, PAYLOAD, sizeof(PAYLOAD));
    assert_there(KEY, PAYLOAD, sizeof(PAYLOAD));
}

/* Anything except a regular file is not followed, waited for or read. */
static void test_links_pipes_and_directories_are_ignored(void **state) {
    (void)state;
    one_entry();
    assert_int_equal(unlink(entry_path), 0);
    assert_int_equal(symlink("/etc/passwd", entry_path), 0);
    assert_absent(KEY);
    unlink(entry_path);
    assert_int_equal(mkfifo(entry_path, 0600), 0);
    assert_absent(KEY);
    unlink(entry_path);
    assert_int_equal(mkdir(entry_path, 0700), 0);
    assert_absent(KEY);
    tfm__cache_put(KEY, PAYLOAD, sizeof(PAYLOAD)); /* cannot replace a folder */
    assert_absent(KEY);
    assert_int_equal(rmdir(entry_path), 0);
    assert_int_equal(each_file(NULL), 0); /* no temporary file is left either */
}

static void sparse(const char *name, off_t bytes, long seconds_ago) {
    char path[600];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    int file = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, bytes), 0);
    struct timespec now[2] = {{0}};
    clock_gettime(CLOCK_REALTIME, &now[0]);
    now[0].tv_sec -= seconds_ago;
    now[1] = now[0];
    assert_int_equal(futimens(file, now), 0);
    close(file);
}

static bool there(const char *name) {
    char path[600];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void test_cache_deletes_oldest_entries_beyond_its_limit(void **state) {
    (void)state;
    each_file(remove_file);
    sparse("0000000000000003.tfm", 100 << 20, 300);
    sparse("0000000000000001.tfm", 100 << 20, 100);
    sparse("0000000000000002.tfm", 60 << 20, 200);
    sparse("0000000000000004.tfm-1-1", 5, 7200); /* left by a dead process */
    sparse("0000000000000005.tfm-1-1", 5, 10);   /* in use by another process */
    sparse("0000000000000006.table-1-1", 5, 7200);
    sparse("0000000000000007.table", 5, 7200); /* it stays */
    sparse("somebody's.file", 500 << 20, 9999);
    tfm__cache_put(KEY, PAYLOAD, sizeof(PAYLOAD));
    assert_false(there("0000000000000003.tfm"));
    assert_true(there("0000000000000002.tfm"));
    assert_true(there("0000000000000001.tfm"));
    assert_false(there("0000000000000004.tfm-1-1"));
    assert_true(there("0000000000000005.tfm-1-1"));
    assert_false(there("0000000000000006.table-1-1"));
    assert_true(there("0000000000000007.table"));
    assert_true(there("somebody's.file"));
    assert_there(KEY, PAYLOAD, sizeof(PAYLOAD));
}

static void test_two_processes_share_the_cache(void **state) {
    (void)state;
    each_file(remove_file);
    pid_t child = fork();
    for (int i = 0; i < 300; i++) {
        tfm__cache_put(KEY, PAYLOAD, sizeof(PAYLOAD));
        size_t bytes;
        void *got = tfm__cache_get(KEY, &bytes);
        bool good = got && bytes == sizeof(PAYLOAD) && memcmp(got, PAYLOAD, bytes) == 0;
        free(got);
        if (child == 0 && !good)
            _exit(1);
        if (child != 0)
            assert_true(good);
    }
    if (child == 0)
        _exit(0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(each_file(NULL), 1);
}

static void test_cache_directory_follows_environment(void **state) {
    (void)state;
    char below[300], home[300];
    each_file(remove_file);
    setenv("TFM_CACHE_DIR", "off", 1);
    tfm__cache_put(KEY, PAYLOAD, sizeof(PAYLOAD));
    assert_absent(KEY);
    assert_int_equal(each_file(NULL), 0);
    /* Unset: the XDG folder; a relative one is ignored in favor of ~/.cache; both are created for the owner only. */
    unsetenv("TFM_CACHE_DIR");
    setenv("XDG_CACHE_HOME", folder, 1);
    setenv("HOME", folder, 1);
    tfm__cache_put(KEY, PAYLOAD, sizeof(PAYLOAD));
    assert_there(KEY, PAYLOAD, sizeof(PAYLOAD));
    snprintf(below, sizeof(below), "%s/tfm", folder);
    struct stat about;
    assert_int_equal(stat(below, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_absent(KEY);
    tfm__cache_put(KEY, "home", 4);
    assert_there(KEY, "home", 4);
    snprintf(home, sizeof(home), "%s/.cache/tfm", folder);
    assert_int_equal(stat(home, &about), 0);
    setenv("TFM_CACHE_DIR", home, 1);
    tfm__cache_drop(KEY);
    setenv("TFM_CACHE_DIR", below, 1);
    tfm__cache_drop(KEY);
    assert_int_equal(rmdir(home), 0);
    snprintf(home, sizeof(home), "%s/.cache", folder);
    assert_int_equal(rmdir(home), 0);
    assert_int_equal(rmdir(below), 0);
    setenv("TFM_CACHE_DIR", folder, 1);
}

/* How often a separate process warns if it uses this folder three times. */
static int warnings_in(const char *path) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        warnings = 0;
        setenv("TFM_CACHE_DIR", path, 1);
        for (int i = 0; i < 3; i++) {
            size_t bytes;
            tfm__cache_put(KEY, PAYLOAD, sizeof(PAYLOAD));
            if (tfm__cache_get(KEY, &bytes))
                _exit(99);
        }
        _exit(warnings);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_unsafe_cache_directory_gives_one_warning(void **state) {
    (void)state;
    each_file(remove_file);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(warnings_in(folder), 1);
    assert_int_equal(chmod(folder, 0770), 0);
    assert_int_equal(warnings_in(folder), 1);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(warnings_in("/dev/null"), 1);
    assert_int_equal(warnings_in("/dev/null/below"), 1);
    assert_int_equal(warnings_in("/proc/no-such-folder"), 1);
    if (geteuid() == 0) {
        assert_int_equal(chown(folder, 12345, 12345), 0);
        assert_int_equal(warnings_in(folder), 1);
        assert_int_equal(chown(folder, 0, 0), 0);
    } else {
        assert_int_equal(warnings_in("/"), 1);
        assert_int_equal(chmod(folder, 0500), 0);
        assert_int_equal(warnings_in(folder), 1);
        assert_int_equal(chmod(folder, 0700), 0);
    }
    assert_int_equal(warnings_in("off"), 0);
    assert_int_equal(each_file(NULL), 0);
}

/* A full disk, simulated by a file size limit. */
static void test_cache_on_full_disk_warns_once(void **state) {
    (void)state;
    int status;
    each_file(remove_file);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {40, 40};
        warnings = 0;
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        tfm__cache_put(KEY, PAYLOAD, sizeof(PAYLOAD));
        tfm__cache_put(KEY, PAYLOAD, sizeof(PAYLOAD));
        _exit(warnings);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_int_equal(each_file(NULL), 0);
}

static void test_cache_hash_values_never_change(void **state) {
    (void)state;
    /* Must never change: file names and checksums depend on it. */
    assert_true(tfm__hash64("tfm", 3, 0) == 0x95da5b31dd6919b0u);
    assert_true(tfm__hash64("The quick brown fox", 19, 7) == 0x16c5ae5caa00acfu);
    assert_true(tfm__hash64("", 0, 0) != tfm__hash64("", 0, 1));
    assert_true(tfm__hash64("ab", 2, 0) != tfm__hash64("ba", 2, 0));
    assert_true(tfm__hash64("a", 1, 0) != tfm__hash64("a\0", 2, 0));
    unsigned char data[64] = {0};
    uint64_t plain = tfm__hash64(data, sizeof(data), 0), changed = 0;
    for (int bit = 0; bit < 512; bit++) {
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        uint64_t hash = tfm__hash64(data, sizeof(data), 0);
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_true(hash != plain);
        changed += (uint64_t)__builtin_popcountll(hash ^ plain);
    }
    /* For any split of the bytes. */
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (unsigned char)(i * 7);
    plain = tfm__hash64(data, 61, 3);
    for (size_t step = 1; step < 61; step++) {
        tfm__hash hash = {.value = 3};
        for (size_t at = 0; at < 61; at += step)
            tfm__hash_add(&hash, data + at, at + step < 61 ? step : 61 - at);
        assert_true(tfm__hash_finish(&hash) == plain);
    }
    /* A one-bit change flips about half of the hash. */
    assert_in_range(changed, 512 * 30, 512 * 34);
}

static bool stored(const char *key) {
    size_t bytes;
    void *payload = tfm__cache_get(key, &bytes);
    free(payload);
    return payload != NULL;
}

/* Entries of one kind and device are deleted, others and foreign files are not. */
static void test_entries_of_one_kind_and_device_are_dropped(void **state) {
    (void)state;
    static const char *const KEYS[] = {"validation of a\ndevice 1",         "validation of b, and more\ndevice 1",
                                       "validation of a\ndevice 2",         "program a\ndevice 1",
                                       "lasting validation of a\ndevice 1", "validation of "};
    char stray[sizeof(folder) + 64];
    for (size_t i = 0; i < sizeof(KEYS) / sizeof(*KEYS); i++)
        tfm__cache_put(KEYS[i], PAYLOAD, sizeof(PAYLOAD));
    snprintf(stray, sizeof(stray), "%s/0123456789abcdef.tfm", folder);
    FILE *file = fopen(stray, "w");
    assert_non_null(file);
    fputs("TFMCACHE", file);
    fclose(file);
    assert_true(tfm__cache_drop_all("validation of ", "\ndevice 1"));
    for (size_t i = 0; i < sizeof(KEYS) / sizeof(*KEYS); i++) {
        assert_int_equal(stored(KEYS[i]), i >= 2);
        tfm__cache_drop(KEYS[i]);
    }
    assert_int_equal(access(stray, F_OK), 0);
    remove(stray);
}

/* One holder at a time, until it unlocks or ends; and the effect of a signal handler. */
static void test_cache_lock_has_one_holder(void **state) {
    (void)state;
    int lock, second, state_of_child, ready[2];
    char byte;
    assert_true(tfm__cache_lock(&lock, 0) && lock >= 0);
    assert_false(tfm__cache_lock(&second, 0.1));
    tfm__cache_unlock(lock);
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        const bool got = tfm__cache_lock(&lock, 0) && lock >= 0;
        if (!got || write(ready[1], "", 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    close(ready[1]); /* so that the parent sees a child end */
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_false(tfm__cache_lock(&second, 0));
    kill(child, SIGKILL);
    waitpid(child, &state_of_child, 0);
    assert_true(tfm__cache_lock(&lock, 0) && lock >= 0);
    tfm__cache_unlock(lock);
    close(ready[0]);
    setenv("TFM_CACHE_DIR", "off", 1); /* without a share everyone succeeds */
    assert_true(tfm__cache_lock(&lock, 0) && lock == -1 && tfm__cache_lock(&second, 0) && second == -1);
    tfm__cache_unlock(lock);
    setenv("TFM_CACHE_DIR", folder, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cached_entry_comes_back),
        cmocka_unit_test(test_entries_of_any_size_come_back),
        cmocka_unit_test(test_damaged_cache_entry_is_dropped),
        cmocka_unit_test(test_truncated_or_longer_entry_is_dropped),
        cmocka_unit_test(test_entry_under_another_key_is_ignored),
        cmocka_unit_test(test_cache_deletes_oldest_entries_beyond_its_limit),
        cmocka_unit_test(test_two_processes_share_the_cache),
        cmocka_unit_test(test_cache_directory_follows_environment),
        cmocka_unit_test(test_cache_hash_values_never_change),
        cmocka_unit_test(test_unsafe_cache_directory_gives_one_warning),
        cmocka_unit_test(test_cache_on_full_disk_warns_once),
        cmocka_unit_test(test_links_pipes_and_directories_are_ignored),
        cmocka_unit_test(test_entries_of_one_kind_and_device_are_dropped),
        cmocka_unit_test(test_cache_lock_has_one_holder),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
