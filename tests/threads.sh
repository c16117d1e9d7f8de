# Runs multi-threaded code under ThreadSanitizer: devices of a fleet, streams of lines, trainers on several devices,
# corpus readers, failing devices, and the server under its own tests and under load.
#     sh tests/threads.sh BUILD
# Sets up BUILD with -Db_sanitize=thread if it does not exist, and builds the tests. Drivers and compilers are not
# instrumented, but their locks and threads are visible and order tfm's accesses; PoCL's kernels are not visible. There
# are no suppressions: PoCL 3.1 causes no report. A race inserted into a copy of the library's source must be found
# first. Every report is a failure, stored in BUILD/reports. On two idle cores it takes half an hour. The last line is
# "N passed, N failed, N skipped"; the exit code is 1 if something failed.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$PWD
build=$root/${1#"$root"/}
reports=$build/reports
counts=$build/counts
. tests/suites.sh
export TFM_BRIEF=1 TFM_DEVICE=pocl OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
unset TFM_LOG TFM_CL_DIR TFM_MEGAKERNEL TFM_PROFILE TFM_GEMM

[ -f "$build/build.ninja" ] ||
    meson setup "$build" -Dwerror=true -Db_sanitize=thread -Db_lundef=false -Doptimization=1 -Dc_args=-g1 -Dcpp_args=-g1 \
        >/dev/null || exit 1
names="cpu_partition translate_stream fleet data batch_split refcount distributed_reader train_processes train_fleet"
# shellcheck disable=SC2046,SC2086 # words
ninja -C "$build" --quiet apps/tfm tests/make_decoder tests/fault_layer.so $(python3 tests/needed.py "$build" $names \
    fleet_fault) || {
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}
rm -rf "$reports"
mkdir -p "$reports"
: >"$counts"
export TFM_CACHE_DIR="$build/cache" TSAN_OPTIONS="exitcode=66:log_path=$reports/report"

# judged NAME CODE: one check; prints its reports and moves them away
judged() {
    if [ "$2" = 0 ] && ! ls "$reports"/report.* >/dev/null 2>&1; then
        echo "ok: $1"
        echo "1 0 0" >>"$counts"
        return
    fi
    echo "$1: failed, with exit code $2"
    for report in "$reports"/report.*; do
        [ -f "$report" ] || continue
        head -n 60 "$report"
        mv "$report" "$reports/$1-${report##*/}"
    done
    echo "0 1 0" >>"$counts"
}

# ---- A planted race is found: two threads that log without the log's lock
mkdir -p "$build/canary"
sed 's/pthread_mutex_lock(&lock);//; s/pthread_mutex_unlock(&lock);//' lib/base/log.c >"$build/canary/log.c"
cat >"$build/canary/main.c" <<'END'
#include <pthread.h>
#include <stddef.h>
#include "base/base.h"
static int lines;
static void on_log(void *user, tfm_log_level level, const char *line) {
    (void)user, (void)level, (void)line;
    lines++;
}
static void *log_one(void *user) {
    tfm__log(TFM_LOG_WARNING, "one");
    return user;
}
int main(void) {
    pthread_t threads[2];
    tfm_log_set(on_log, NULL, TFM_LOG_WARNING);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, log_one, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return lines != 2;
}
END
for source in "$root/lib/base/log.c" "$build/canary/log.c"; do
    cc -std=c11 -D_GNU_SOURCE -fsanitize=thread -g -Ilib -Iinclude "$build/canary/main.c" "$source" -pthread \
        -o "$build/canary/canary" || echo "0 1 0" >>"$counts"
    "$build/canary/canary"
    code=$?
    case $source in
    "$root"/lib/*) judged "two threads that log" $code ;;
    *) [ $code = 66 ] && rm -f "$reports"/report.* && judged "a race that is put in is found" 0 ||
        judged "a race that is put in is found" 1 ;;
    esac
done

# ---- Tests, each in a separate process
for name in $names fleet_fault; do
    timeout 1800 "$build/tests/test_$name" >"$build/$name.out" 2>&1
    code=$?
    [ $code = 0 ] || tail -n 20 "$build/$name.out"
    judged "$name" $code
done

# ---- The server. Its tests have time limits, which it may exceed here, so their results do not count.
for script in options libretranslate models concurrency limits openai chat_templates; do
    sh "tests/serve/$script.sh" "$build/apps/tfm" . "$build/tests/make_decoder" >"$build/serve-$script.tap" 2>&1
    grep '^not ok' "$build/serve-$script.tap"
    tail -n 1 "$build/serve-$script.tap" | grep -q '^1\.\.[1-9]'
    judged "the server's tests: $script" $?
done
python3 tests/serve/soak.py "$build/apps/tfm" . "$build/tests/make_decoder" --requests 600 --log "$build/soak.log" >"$build/soak.out" 2>&1
code=$?
cat "$build/soak.out"
judged "the server under load" $code
report
