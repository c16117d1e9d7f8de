/* Files: maps, reads, atomic writes, folders. */
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "support/scratch.h"

static size_t entries(void) {
    DIR *dir = opendir(scratch_root);
    assert_non_null(dir);
    size_t count = 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 2;
}

static void test_file_is_mapped(void **state) {
    (void)state;
    tfm__file file;
    scratch_write("bytes", "a\0b", 3);
    harness_ok(tfm__file_map(&file, scratch_path("bytes")));
    assert_int_equal(file.size, 3);
    assert_memory_equal(file.data, "a\0b", 3);
    tfm__file_unmap(&file);
    assert_null(file.data);
    tfm__file_unmap(&file);

    scratch_text("empty", "");
    harness_ok(tfm__file_map(&file, scratch_path("empty")));
    assert_int_equal(file.size, 0);
    tfm__file_unmap(&file);

    scratch_refused(tfm__file_map(&file, scratch_path("absent")), TFM_ERROR_IO, "absent: No such file");
    scratch_refused(tfm__file_map(&file, scratch_root), TFM_ERROR_IO, "is a folder");
    assert_int_equal(mkfifo(scratch_path("pipe"), 0600), 0);
    scratch_refused(tfm__file_map(&file, scratch_path("pipe")), TFM_ERROR_IO, "not a regular file");
    assert_null(file.data);
}

static void test_file_is_read_whole(void **state) {
    (void)state;
    char *text;
    size_t size;
    static char large[100001];
    memset(large, 'x', sizeof(large) - 1);
    const size_t sizes[] = {0, 1, 4095, 4096, 4097, 100000};
    for (size_t i = 0; i < TFM__COUNT(sizes); i++) {
        scratch_write("read", large, sizes[i]);
        harness_ok(tfm__file_read(&text, &size, scratch_path("read")));
        assert_int_equal(size, sizes[i]);
        assert_int_equal(strlen(text), sizes[i]);
        free(text);
    }
    /* Reports 0 bytes, but has some. */
    if (access("/proc/self/status", R_OK) == 0) {
        harness_ok(tfm__file_read(&text, NULL, "/proc/self/status"));
        assert_non_null(strstr(text, "VmRSS"));
        free(text);
    }
    scratch_refused(tfm__file_read(&text, &size, scratch_path("absent")), TFM_ERROR_IO, "absent: No such file");
    assert_null(text);
    scratch_refused(tfm__file_read(&text, &size, scratch_root), TFM_ERROR_IO, "is a folder");
}

static void holds(const char *name, const char *content) {
    char *text;
    harness_ok(tfm__file_read(&text, NULL, scratch_path(name)));
    assert_string_equal(text, content);
    free(text);
}

static void test_file_write_is_atomic(void **state) {
    (void)state;
    harness_ok(tfm__file_write(scratch_path("written"), "first", 5));
    holds("written", "first");
    size_t before = entries();
    harness_ok(tfm__file_write(scratch_path("written"), "second", 6));
    holds("written", "second");
    harness_ok(tfm__file_write(scratch_path("written"), NULL, 0));
    holds("written", "");
    assert_int_equal(entries(), before);
    scratch_refused(tfm__file_write(scratch_path("no/such"), "x", 1), TFM_ERROR_IO, "No such file");
    harness_ok(tfm__dir_make(scratch_path("folder"), 0700));
    before = entries();
    scratch_refused(tfm__file_write(scratch_path("folder"), "x", 1), TFM_ERROR_IO, "cannot replace");
    assert_int_equal(mkfifo(scratch_path("tube"), 0600), 0);
    assert_int_equal(symlink("tube", scratch_path("to-tube")), 0);
    before += 2;
    scratch_refused(tfm__file_write(scratch_path("tube"), "x", 1), TFM_ERROR_IO, "it is a device, a pipe");
    scratch_refused(tfm__file_write(scratch_path("to-tube"), "x", 1), TFM_ERROR_IO, "it is a device, a pipe");
    assert_int_equal(entries(), before);
}

/* A full disk, simulated by a file size limit. */
static void test_file_write_on_full_disk_keeps_the_old_file(void **state) {
    (void)state;
    static char large[1 << 16];
    harness_ok(tfm__file_write(scratch_path("full"), "old", 3));
    size_t before = entries();
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 1 << 12;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    tfm_status status = tfm__file_write(scratch_path("full"), large, sizeof(large));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    scratch_refused(status, TFM_ERROR_IO, "full: File too large");
    assert_int_equal(entries(), before);
    holds("full", "old");
}

/* Writes two contents in turns until killed. */
static void write_for_ever(char *content, size_t size) {
    for (char c = 'a';; c = c == 'a' ? 'b' : 'a') {
        memset(content, c, size);
        if (tfm__file_write(scratch_path("killed"), content, c == 'a' ? size : size / 2) != TFM_OK)
            _exit(1);
    }
}

/* Two writers of one file, killed at any instant: the file always has one whole content. They leave at most one
 * temporary file, removed by the next writer. */
static void test_killed_writers_leave_one_whole_file(void **state) {
    (void)state;
    enum { SIZE = 3 << 20, ROUNDS = 25 };
    static char content[SIZE];
    scratch_text("killed", "b");
    const size_t before = entries();
    for (int i = 0; i < ROUNDS; i++) {
        pid_t writers[2];
        for (int k = 0; k < 2; k++)
            if ((writers[k] = fork()) == 0)
                write_for_ever(content, SIZE);
        usleep(3000 + 1370 * (unsigned)i);
        for (int k = 0; k < 2; k++) {
            int how = 0;
            kill(writers[k], SIGKILL);
            assert_int_equal(waitpid(writers[k], &how, 0), writers[k]);
            assert_true(WIFSIGNALED(how));
        }
        char *text;
        size_t size;
        harness_ok(tfm__file_read(&text, &size, scratch_path("killed")));
        assert_true(text[0] == 'a' ? size == SIZE : size == SIZE / 2 || size == 1);
        for (size_t at = 1; at < size; at++)
            assert_true(text[at] == text[0]);
        free(text);
        assert_true(entries() <= before + 1);
    }
    harness_ok(tfm__file_write(scratch_path("killed"), "b", 1));
    holds("killed", "b");
    assert_int_equal(entries(), before);
}

static void test_directories_are_made(void **state) {
    (void)state;
    struct stat info;
    harness_ok(tfm__dir_make(scratch_path("one/two//three/"), 0700));
    assert_int_equal(stat(scratch_path("one/two/three"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    harness_ok(tfm__dir_make(scratch_path("one/two/three"), 0777));
    harness_ok(tfm__dir_check_writable(scratch_path("one/two/three")));
    harness_ok(tfm__dir_check_writable(scratch_path("one//four/five/")));
    assert_false(tfm__file_exists(scratch_path("one/four")));
    assert_int_equal(stat(scratch_path("one/two/three"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    const mode_t mask = umask(027);
    harness_ok(tfm__dir_make(scratch_path("for/others"), 0777));
    umask(mask);
    assert_int_equal(stat(scratch_path("for/others"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0750);
    harness_ok(tfm__dir_make("/", 0700));
    scratch_text("file", "x");
    scratch_refused(tfm__dir_make(scratch_path("file"), 0700), TFM_ERROR_IO, "file: Not a directory");
    scratch_refused(tfm__dir_make(scratch_path("file/below"), 0700), TFM_ERROR_IO, "file: Not a directory");
    scratch_refused(tfm__dir_make("", 0700), TFM_ERROR_IO, "No such file");
    scratch_refused(tfm__dir_check_writable(scratch_path("file")), TFM_ERROR_IO, "file: Not a directory");
    scratch_refused(tfm__dir_check_writable(scratch_path("file//below/")), TFM_ERROR_IO, "below/: Not a directory");
    assert_true(tfm__file_exists(scratch_path("file")));
    assert_true(tfm__file_exists(scratch_root));
    assert_false(tfm__file_exists(scratch_path("absent")));
    assert_false(tfm__file_exists(scratch_path("file/below")));
}

/* A self-referencing link stands for every stat error other than ENOENT: root, used in containers, passes all
 * permission checks. */
static void test_unreadable_path_exists_and_opening_says_why(void **state) {
    (void)state;
    char *text = NULL;
    assert_int_equal(symlink("loop", scratch_path("loop")), 0);
    assert_true(tfm__file_exists(scratch_path("loop/below")));
    scratch_refused(tfm__file_read(&text, NULL, scratch_path("loop/below")), TFM_ERROR_IO, "Too many levels");
}

static void test_paths_are_joined(void **state) {
    (void)state;
    static const char *const CASES[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"/", "b", "/b"}, {".", "b", "./b"}};
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        char *path = tfm__path_join(CASES[i][0], CASES[i][1]);
        assert_string_equal(path, CASES[i][2]);
        free(path);
    }
}

/* A size beyond memory is rejected. */
static void test_array_growth_beyond_memory_is_an_error(void **state) {
    (void)state;
    int16_t *array = NULL;
    size_t room = 0;
    assert_int_equal(tfm__grow(&array, &room, 65, sizeof(*array)), TFM_OK);
    assert_int_equal(room, 128);
    assert_int_equal(tfm__grow(&array, &room, SIZE_MAX, sizeof(*array)), TFM_ERROR_MEMORY);
    assert_true(array && room == 128);
    free(array);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_array_growth_beyond_memory_is_an_error),
        cmocka_unit_test(test_file_is_mapped),
        cmocka_unit_test(test_file_is_read_whole),
        cmocka_unit_test(test_file_write_is_atomic),
        cmocka_unit_test(test_file_write_on_full_disk_keeps_the_old_file),
        cmocka_unit_test(test_directories_are_made),
        cmocka_unit_test(test_unreadable_path_exists_and_opening_says_why),
        cmocka_unit_test(test_paths_are_joined),
        cmocka_unit_test(test_killed_writers_leave_one_whole_file),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
