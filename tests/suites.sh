# Shared by run.sh, nightly.sh and platforms.sh: running and counting suites, environment of sanitized programs.
#     root=SOURCE_ROOT counts=FILE
#     . tests/suites.sh
# Each suite and check adds a line "passed failed skipped" to FILE.

# suite LABEL FOLDER ARGUMENT...: meson test in a build folder, counted by cases. No passed case is a failure too.
suite() {
    label=$1 folder=$2
    shift 2
    log=$folder/meson-logs/$label.json
    case " $* " in
    *" --wrapper sh "*) log=$folder/meson-logs/$label-sh.json ;; # Meson adds the wrapper's name to the log's
    esac
    rm -f "$log"
    meson test -C "$folder" --no-rebuild --logbase "$label" "$@"
    code=$?
    tally=$(python3 tests/tally.py "$label" "$log") || tally="0 1 0"
    case $tally in
    "0 0 "*) echo "0 1 0" >>"$counts" && echo "$label: no case has passed" ;;
    *" 0 "*) [ $code = 0 ] || echo "0 1 0" >>"$counts" ;; # a failure that is not in the log
    esac
    echo "$tally" >>"$counts"
}

# as_gpu LABEL FOLDER TEST...: layers with the device profile `gpu`, in fp32 and with 16-bit storage; and the named
# tests
as_gpu() {
    name=$1 build_folder=$2
    shift 2
    TFM_TEST_VARIANT=gpu suite "$name-as-gpu" "$build_folder" nn block fused_linear torch_layers half_weights kv_half "$@"
}

# part COMMAND...: a script that ends with a line of counts
part() {
    echo "== $*"
    "$@" 2>&1 | tee "$counts.part"
    line=$(tail -n 1 "$counts.part" | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p')
    case $line in
    "" | "0 "*) echo "0 1 0" >>"$counts" && echo "nothing has passed: $*" ;;
    esac
    [ -z "$line" ] || echo "$line" >>"$counts"
}

# Prints the sum as the last line: "N passed, N failed, N skipped". False if something failed or nothing passed.
report() {
    awk '{ passed += $1; failed += $2; skipped += $3 }
         END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit failed > 0 || passed == 0 }' "$counts"
}

# For sanitized programs, in a subshell. PoCL is the only platform: Clover, part of llvmpipe's package, crashes under
# them.
sanitizer_environment() {
    # LeakSanitizer misinterprets PoCL's kernels as having thread-local memory, and crashes when it reads it.
    export ASAN_OPTIONS=detect_stack_use_after_return=1:intercept_tls_get_addr=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    export LSAN_OPTIONS="suppressions=$root/tests/lsan.supp:print_suppressions=0"
    # Must be readable by all: a test switches to a user without access to a checkout below root's home.
    export OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd TFM_DEVICE=pocl FONTCONFIG_FILE="$root/tests/fonts.conf"
    wrapper="sh $root/tests/unjudged.sh"
}
