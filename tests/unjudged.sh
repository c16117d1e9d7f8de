# Runs a test of the sanitized build: sh tests/unjudged.sh PROGRAM ARGUMENT...
# The leak checker looks at a program at its end, while the threads of a driver are ending too, and now and then its own
# tracer dies of that, with its exit code in place of the test's. Such a run has shown nothing, and is done again, at most
# five times. What is printed is the last run's.
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
for attempt in 1 2 3 4 5 6; do
    "$@" >"$folder/out" 2>"$folder/err"
    code=$?
    [ $code != 0 ] && grep -q 'LeakSanitizer has encountered a fatal error' "$folder/err" || break
    echo "run $attempt of $1: the leak checker died" >&2
done
cat "$folder/out"
cat "$folder/err" >&2
exit $code
