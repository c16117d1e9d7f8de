# Shared by the tests of tfm serve, after checks.sh: requirements, start and stop of servers, and requests.
#     . "$root/tests/serve/common.sh"
if "$tfm" serve 2>&1 | grep -q libmicrohttpd-dev; then
    echo "1..0 # SKIP tfm was built without libmicrohttpd"
    exit 0
fi
command -v curl >/dev/null || {
    echo "1..0 # SKIP there is no curl"
    exit 0
}
# PoCL's LLVM sets a signal stack for the compiling thread, which the sanitizer would unmap when the thread ends.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}use_sigaltstack=0"
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$here"' EXIT

# start ARGUMENT...: a server on a free port; sets $server, $port and $at. Its log is in `log`. $settings are
# environment assignments, such as TFM_LOG=info.
settings=
start() {
    stop
    : >log # it would still have the last server's port
    # shellcheck disable=SC2086 # words
    env $settings "$tfm" serve --port 0 "$@" >served 2>log &
    server=$!
    port=
    for _ in $(seq 600); do
        port=$(sed -n 's,^tfm: .* listening on .*:\([0-9]*\)/$,\1,p' log)
        [ -z "$port" ] && kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    at=http://127.0.0.1:$port
}
# stop: ends it by SIGTERM; sets $ended to its exit code
stop() {
    ended=
    [ -n "$server" ] || return
    kill "$server" 2>/dev/null
    wait "$server"
    ended=$?
    server=
}

# ---- Requests
demo=$root/apps/demo
line=$(sed -n 1p "$demo/test.de")
# ask ARGUMENT...: a request by curl; writes `out` and `head`, and sets $code to the status
ask() {
    code=$(curl -s -g --path-as-is -m 120 -D head -o out -w '%{http_code}' "$@" 2>err)
}
# json PATH JSON
json() {
    ask "$at$1" -H 'Content-Type: application/json' -d "$2"
}
# form ARGUMENT...: to /translate, from German to English
form() {
    ask "$at/translate" -d source=de -d target=en "$@"
}
# many_lines: writes 500 distinct lines to `lines`.
many_lines() {
    for i in $(seq 25); do
        awk -v n="$i" '{ lines[NR] = $0 } END { for (k = 1; k <= NR; k++) print lines[k] " " lines[(k * 7 + n) % NR + 1] }' "$demo/test.de"
    done >lines
}
