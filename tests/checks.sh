# Shared by the scripts that test the program: a temporary folder, TAP checks, and runs of the program.
#     tfm=PROGRAM root=SOURCE_ROOT
#     . "$root/tests/checks.sh"
# The script must end with echo "1..$count".
set -u
export LC_ALL=C
here=$(mktemp -d "${TMPDIR:-/tmp}/tfm-checks-XXXXXX")
trap 'rm -rf "$here"' EXIT
trap : PIPE # if the program dies early, a check fails, not the script; children do not inherit the trap
cd "$here" || exit 1
export TFM_CACHE_DIR="${TFM_CACHE_DIR:-$here/cache}" # never the user's
unset TFM_LOG TFM_CL_DIR TFM_PROFILE TFM_GEMM TFM_KERNELS
count=0

# brief: whether a few cases of each kind are enough, as in tests/run.sh; tests/nightly.sh runs all.
brief() {
    [ "${TFM_BRIEF:-}" = 1 ]
}

# hasty COMMAND...: a `run`, or a function with one, for kernels that no other test builds: in brief runs PoCL builds
# them without optimization, in less than half the time.
hasty() {
    (
        brief && export POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable
        "$@"
        echo "$code" >code
    )
    code=$(cat code)
}

# unkept COMMAND...: the same, for rarely built kernels: brief runs do not store their binaries, for which PoCL compiles
# again.
unkept() {
    (
        brief && export TFM_CACHE_DIR=off
        "$@"
        echo "$code" >code
    )
    code=$(cat code)
}

# unoptimized: later brief runs let PoCL build all kernels without optimization, if they compute little. The library
# cannot distinguish such binaries, so they are in a separate cache, shared by all scripts.
unoptimized() {
    brief || return 0
    export POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable
    [ "$TFM_CACHE_DIR" = off ] || export TFM_CACHE_DIR="$TFM_CACHE_DIR-unoptimized"
}

# check NAME COMMAND...: one line of TAP; on failure, the output of the last run follows.
check() {
    count=$((count + 1))
    name=$1
    shift
    if "$@"; then
        echo "ok $count - $name"
    else
        echo "not ok $count - $name"
        echo "# false: $*"
        echo "# exit code ${code:-none}"
        awk 'NR <= 20 { print "# out: " $0 }' out # always ends with a newline, else the next check is not recognized
        awk 'NR <= 20 { print "# err: " $0 }' err
    fi
}

skip() {
    count=$((count + 1))
    echo "ok $count - $1 # SKIP $2"
}

# run ARGUMENT...: sets `out`, `err` and $code. Under sanitizers the leak checker's tracer sometimes crashes, and its
# exit code replaces the program's: such a run is repeated, with its input from the start.
run() {
    attempt "$@"
    if unjudged; then
        attempt "$@" </dev/stdin
    fi
}
attempt() {
    "$tfm" "$@" >out 2>err
    code=$?
}
unjudged() {
    grep -q 'LeakSanitizer has encountered a fatal error' err
}

# one_sentence CODE TEXT: the last run failed with this code and one line on stderr that contains TEXT.
one_sentence() {
    [ "$code" = "$1" ] && [ "$(wc -l <err)" = 1 ] && grep -qF -- "$2" err
}
says() {
    grep -q -- "$2" "$1"
}
both() {
    [ "$code" = "$1" ] && shift && "$@"
}
same() {
    [ "$code" = 0 ] && cmp -s "$1" "$2"
}
# in_terminal COLUMNS ARGUMENT...: the program reads `in` and writes to a terminal of this width. `screen` has the
# visible text: of each line the part after it was last cleared.
in_terminal() {
    python3 - "$tfm" "$@" <<'END' >screen
import fcntl, os, pty, struct, sys, termios
program, columns, *arguments = sys.argv[1:]
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("4H", 24, int(columns), 0, 0))
    os.dup2(os.open("in", os.O_RDONLY), 0)
    os.execv(program, [program, *arguments])
text = b""
try:
    while piece := os.read(terminal, 4096):
        text += piece
except OSError:
    pass
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
for line in text.decode().split("\n"):
    print(line.rstrip("\r").split("\r\x1b[K")[-1])
sys.exit(code)
END
    code=$?
}

# self_test: checks the output of `tfm selftest` on a device with a compiler.
self_test() {
    run selftest
    check "selftest passes more than 15 checks" [ "$code" = 0 -a "$(grep -c ' pass ' out)" -gt 15 ]
    check "selftest prints 16 GEMM lines: one for each provider, two shared, six for MMA, one for large CLBlast matrices" [ "$(grep -c '^gemm ' out)" = 16 ]
    check "selftest aligns its verdicts in one column" [ "$(sed -n 's/ pass  *error .*//p' out | awk '{print length}' | sort -u | wc -l)" = 1 ]
    check "selftest prints the verdict last" eval 'tail -n 1 out | grep -q "^verdict: passed: all [0-9]* checks passed"'
    check "selftest runs the reference GEMM on any device" grep -q '^gemm  *reference  *pass' out
    check "selftest checks linear layers with fp16 and bf16 weights" [ "$(grep -c '^linear  *b*f16 .*pass' out)" = 2 ]
}
