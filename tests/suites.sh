# What run.sh, nightly.sh and platforms.sh share: how suites are run and counted, and what sanitized programs need.
#     root=SOURCE_ROOT counts=FILE
#     . tests/suites.sh
# Each suite and check adds a line "passed failed skipped" to FILE.

# suite LABEL FOLDER ARGUMENT...: meson test in a build folder, counted by cases. Nothing that passed is a failure too.
suite() {
    label=$1 folder=$2
    shift 2
    log=$folder/meson-logs/$label.json
    case " $* " in
    *" --wrapper sh "*) log=$folder/meson-logs/$label-sh.json ;; # Meson puts the wrapper's name into that of the log
    esac
    rm -f "$log"
    meson test -C "$folder" --no-rebuild --logbase "$label" "$@"
    code=$?
    tally=$(python3 tests/tally.py "$label" "$log") || tally="0 1 0"
    case $tally in
    "0 0 "*) echo "0 1 0" >>"$counts" && echo "$label: no case has passed" ;;
    *" 0 "*) [ $code = 0 ] || echo "0 1 0" >>"$counts" ;; # Meson knows of a failure that the log does not tell
    esac
    echo "$tally" >>"$counts"
}

# as_gpu LABEL FOLDER TEST...: layers with the tuning of GPUs, in fp32, and in 16 bits what may be kept so;
# and these tests
as_gpu() {
    name=$1 build_folder=$2
    shift 2
    TFM_TEST_VARIANT=gpu suite "$name-as-gpu" "$build_folder" nn block fused_linear torch_layers half_weights kv_half "$@"
}

# part COMMAND...: what ends with a line of counts
part() {
    echo "== $*"
    "$@" 2>&1 | tee "$counts.part"
    line=$(tail -n 1 "$counts.part" | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p')
    case $line in
    "" | "0 "*) echo "0 1 0" >>"$counts" && echo "nothing has passed: $*" ;;
    esac
    [ -z "$line" ] || echo "$line" >>"$counts"
}

# Prints the sum as the last line: "N passed, N failed, N skipped". False unless something passed and nothing failed.
report() {
    awk '{ passed += $1; failed += $2; skipped += $3 }
         END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit failed > 0 || passed == 0 }' "$counts"
}

# For sanitized programs, in a subshell. PoCL is the only platform: Clover, which comes with llvmpipe, crashes under them.
sanitizer_environment() {
    # What LeakSanitizer takes for thread-local memory of PoCL's kernels is none, and reading it ends it.
    export ASAN_OPTIONS=detect_stack_use_after_return=1:intercept_tls_get_addr=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    export LSAN_OPTIONS="suppressions=$root/tests/lsan.supp:print_suppressions=0"
    # A file that anyone may read: a test becomes a user who may not enter a checkout below root's home.
    export OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd TFM_DEVICE=pocl FONTCONFIG_FILE="$root/tests/fonts.conf"
    wrapper="sh $root/tests/unjudged.sh"
}
