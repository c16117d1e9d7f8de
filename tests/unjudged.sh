# Runs a test of the sanitized build: sh tests/unjudged.sh PROGRAM ARGUMENT... The leak checker runs at exit, while
# threads of a driver end, and its tracer sometimes crashes, with its own exit code instead of the test's. Such a run
# has no result and is repeated, at most five times. Prints the output of the last run.
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
for attempt in 1 2 3 4 5 6; do
    "$@" >"$folder/out" 2>"$folder/err"
    code=$?
    [ $code != 0 ] && grep -q 'LeakSanitizer has encountered a fatal error' "$folder/err" || break
    echo "run $attempt of $1: the leak checker crashed" >&2
done
cat "$folder/out"
cat "$folder/err" >&2
exit $code
