# Checks the rules of lib/docs/architecture.md: some with grep, others with nm if a build folder is given. Prints TAP.
#     sh tests/layers.sh [ROOT [BUILD]]
set -u
export LC_ALL=C
build=${2:+$(cd "$2" && pwd)}
cd "${1:-$(dirname "$0")/..}" || exit 1
count=0

# nothing NAME FOUND: fails if FOUND is not empty, and prints it
nothing() {
    count=$((count + 1))
    if [ -z "$2" ]; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
        echo "$2" | sed 's/^/# /'
    fi
}
# built NAME COMMAND...: fails if the command finds something in the build folder; skips without one
built() {
    built_name=$1
    shift
    if [ -n "$build" ]; then
        nothing "$built_name" "$("$@" 2>&1)"
    else
        count=$((count + 1))
        echo "ok $count - $built_name # SKIP no build folder is given"
    fi
}
code() { # removes comment lines from the output of grep -n
    grep -vE ':[0-9]+: *(/?\*|//)'
}

# may LAYER FOLDERS HEADERS: the folders that a layer's files may include from and call functions of, and the public
# headers that they may include
rules=
may() {
    rules="$rules $1=|$2|"
    nothing "lib/$1 includes from $2" "$(
        grep -rnE '^ *# *include *("[a-z_]+/|<(base|text|dev|ops|nn|model|train)/)' "lib/$1" | grep -vE "[\"<]($2|tfm)/"
        grep -rnE '^ *# *include *["<]tfm/' "lib/$1" | grep -vE "[\"<]tfm/($3)\.h")"
}
may base 'base' 'base|hub'
may text 'base|text' 'base|text|metrics|chat|grammar'
may dev 'base|dev' 'base|device|tensor|opencl|kernels'
may ops 'base|dev|ops' 'base|device|tensor|opencl|ops|tape|selftest|tune'
may nn 'base|dev|ops|nn' 'base|device|tensor|ops|tape|nn'
may model 'base|text|dev|ops|nn|model' 'base|device|tensor|ops|tape|nn|text|chat|grammar|model|embed|rerank|engine|fleet|selftest|tune'
may train 'base|text|dev|ops|nn|model|train' 'base|device|tensor|ops|tape|nn|text|model|embed|train|data'

# calls: every undefined symbol of an object that a layer defines which the object's own layer may not call
calls() {
    nm -A "$1" | awk -v rules="$rules" '
        BEGIN {
            for (n = split(rules, rule, " "); n > 0; n--)
                known[substr(rule[n], 1, index(rule[n], "=") - 1)] = substr(rule[n], index(rule[n], "=") + 1)
        }
        {
            split($1, at, ":") # "archive:object:" comes first in the line
            object = at[2]
            sub(/.*\//, "", object)
            layer = substr(object, 1, index(object, "_") - 1)
            if (!(layer in known))
                next # generated file with the kernel sources
            seen[layer]
            if ($(NF - 1) ~ /^[ABCDGRST]$/)
                home[$NF] = layer
            else if ($(NF - 1) == "U")
                takes[object " takes " $NF] = $NF " " layer
        }
        END {
            for (layer in known)
                if (!(layer in seen))
                    print "no object of lib/" layer " found: is the library built?"
            for (line in takes) {
                split(takes[line], use, " ")
                if (use[1] in home && index(known[use[2]], "|" home[use[1]] "|") == 0)
                    print line ", which belongs to lib/" home[use[1]]
            }
        }' | sort
}
built "no layer calls one to its right" calls "$build/lib/libtfm-core.a"

nothing "the check for call cycles finds a planted one" "$(python3 tests/call_cycles.py --self-test 2>&1)"
built "no files of a library folder call each other in a cycle" \
    python3 tests/call_cycles.py "$build/lib/libtfm-core.a"
built "no files of the program call each other in a cycle" \
    python3 tests/call_cycles.py "$build"/apps/tfm.p/*.o
nothing "no include path has .." "$(grep -rnE '^ *# *include *["<][^">]*\.\./' lib cl apps include)"
nothing "apps use include/ only" "$(
    grep -rnE '^ *# *include *<(base|text|dev|ops|nn|model|train)/' apps
    grep -rnE '^ *# *include *"' apps --include='*.[ch]' --include='*.cc' | while IFS=: read -r file line text; do
        header=${text#*\"} && header=${header%%\"*}
        case $header in tfm/*) continue ;; esac
        [ -e "apps/$header" ] || echo "$file:$line: $text"
    done)"
nothing "public headers include each other only" "$(grep -nE '#include "[a-z_]+/' include/tfm/*.h)"

# CLBlast's interface uses OpenCL, so its provider includes OpenCL too.
nothing "only lib/dev, opencl.h and the CLBlast provider name OpenCL symbols" "$(
    grep -rnwE 'clblast_c\.h|cl[A-Z][A-Za-z]+|cl_(mem|int|uint|event|kernel|context|program|device_id|command_queue)|CL_[A-Z_]+' \
        lib/base lib/ops lib/nn lib/text lib/model lib/train apps include/tfm --include='*.[ch]' --exclude-dir=examples |
        grep -vE '^(lib/ops/gemm/gemm_clblast\.c|include/tfm/opencl\.h):' | code)"
nothing "the library never exits and never prints" "$(
    grep -rnwE 'exit|abort|_exit|puts|putchar|printf|perror|assert' lib --include='*.c' --include='*.cc' | code)"
nothing "only the log writes to standard error" "$(grep -rnwE 'stdout|stderr' lib --include='*.c' --include='*.cc' |
    grep -v '^lib/base/log\.c:' | code)"
nothing "the code has no TODO or FIXME" "$(grep -rnwE 'TODO|FIXME' lib cl include apps tests --include='*.[chs]*' |
    grep -v '^tests/layers\.sh:')"
nothing "file names are unique" "$(find lib cl apps tests -name '*.[ch]' -o -name '*.cl' -o -name '*.cc' |
    grep -v '^apps/examples/' | sed 's|.*/||' | sort | uniq -d)"
# Exceptions: ops without a differentiable input (adam, onehot, sinusoid), ops that call recording ops (score_general),
# ops used only in searches (argmax_int8), and gemm_int8, a provider of gemm, which records.
nothing "every op records on the tape or declares that it has no backward pass" "$(
    sed -n "/^folder_ops = \[/,/^\]/s/^  '\(.*\)',\$/\1/p" lib/ops/*/meson.build |
        grep -vxE 'adam|onehot|sinusoid|score_general|argmax_int8|gemm_int8' | while read -r op; do
        find lib/ops \( -name "$op.c" -o -name "${op}_backward.c" \) -exec \
            grep -lE 'tfm__tape_(add|append)|TFM__TAPE_(NO_BACKWARD|REQUIRES_GRAD)' {} + | grep -q . || echo "$op"
    done)"
version=$(sed -n "s/^project(.* version: '\([^']*\)'.*/\1/p" meson.build)
nothing "the version is the same in all places" "$(
    while read -r file line; do
        grep -qF -- "$line" "$file" || echo "$file has no \"$line\""
    done <<END
include/tfm/version.h "$version"
apps/tfm.1 "tfm $version"
apps/packages/CHANGELOG.md ## $version
apps/packages/debian/changelog tfm ($version-
END
)"
nothing "no function of the library has more than 50 lines" "$(find lib -name '*.c' -exec awk '
    /^[a-zA-Z_]/ { begin = FNR; body = 0 }
    /\) \{$/ { body = 1 }
    /^}/ { if (body && FNR - begin >= 50) print FILENAME ":" begin ": " FNR - begin + 1 " lines"; body = 0 }' {} +)"
nothing "no function of a kernel file has more than 100 lines" "$(
    find cl -name '*.cl' -exec python3 tests/kernel_length.py {} + 2>&1)"
nothing "no line of C has more than 120 characters" "$(
    find lib cl include apps tests \( -name '*.[ch]' -o -name '*.cl' -o -name '*.cc' \) -exec python3 -c '
import sys
for path in sys.argv[1:]:
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        if len(line.rstrip("\n")) > 120:
            print("%s:%d" % (path, number))' {} + | head -n 20)"
if command -v clang-format >/dev/null; then
    nothing "all files are formatted with .clang-format" "$(
        find lib cl include apps tests \( -name '*.[ch]' -o -name '*.cl' -o -name '*.cc' \) -exec clang-format --dry-run {} + 2>&1 |
            grep -E 'warning|error' | head -n 20)"
else
    count=$((count + 1))
    echo "ok $count - all files are formatted with .clang-format # SKIP clang-format is not installed"
fi
for header in include/tfm/*.h; do
    nothing "$header stands alone in C" "$(cc -x c -std=c11 -fsyntax-only -Wall -Wextra -Iinclude "$header" 2>&1 |
        grep -E 'error|warning')"
    nothing "$header stands alone in C++" "$(c++ -x c++ -fsyntax-only -Wall -Wextra -Iinclude "$header" 2>&1 |
        grep -E 'error|warning')"
done
echo "1..$count"
