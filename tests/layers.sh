# The rules of lib/README.md that a grep can check. Prints TAP.
#     sh tests/layers.sh [ROOT]
set -u
export LC_ALL=C
cd "${1:-$(dirname "$0")/..}" || exit 1
count=0

# nothing NAME FOUND: fails if something was found, and shows it
nothing() {
    count=$((count + 1))
    if [ -z "$2" ]; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
        echo "$2" | sed 's/^/# /'
    fi
}
code() { # what grep -n found, less lines that are comments
    grep -vE ':[0-9]+: *(/?\*|//)'
}

# may LAYER FOLDERS HEADERS: where a layer's files may include from, and which public headers
may() {
    nothing "lib/$1 includes from $2" "$(grep -nE '^#include "[a-z_]+/' "lib/$1"/* | grep -vE "#include \"($2|tfm)/"
        grep -nE '^#include ["<]tfm/' "lib/$1"/* | grep -vE "[\"<]tfm/($3)\.h")"
}
may base 'base' 'base'
may text 'base|text' 'base|text|metrics'
may dev 'base|dev' 'base|device|tensor|opencl'
may ops 'base|dev|ops' 'base|device|tensor|opencl|ops|tape|selftest'
may nn 'base|dev|ops|nn' 'base|device|tensor|ops|tape|nn'
may model 'base|text|dev|ops|nn|model' 'base|device|tensor|ops|tape|nn|text|model'
may train 'base|text|dev|ops|nn|model|train' 'base|device|tensor|ops|tape|nn|text|model|train|data'
nothing "apps use include/ only" "$(grep -nE '#include "(base|dev|ops|nn|text|model|train)/' apps/*.[ch] apps/examples/*.c)"
nothing "public headers include each other only" "$(grep -nE '#include "[a-z_]+/' include/tfm/*.h)"

# CLBlast's interface is OpenCL's, so its provider speaks it too.
nothing "only lib/dev, opencl.h and the CLBlast provider name OpenCL symbols" "$(
    grep -nwE 'clblast_c\.h|cl[A-Z][A-Za-z]+|cl_(mem|int|uint|event|kernel|context|program|device_id|command_queue)|CL_[A-Z_]+' \
        lib/base/* lib/ops/* lib/nn/* lib/text/* lib/model/* lib/train/* apps/*.[ch] include/tfm/*.h |
        grep -vE '^(lib/ops/gemm_clblast\.c|include/tfm/opencl\.h):' | code)"
nothing "the library never exits and never prints" "$(
    grep -nwE 'exit|abort|_exit|puts|putchar|printf|perror|assert' lib/*/*.c lib/*/*.cc | code)"
nothing "only the log writes to standard error" "$(grep -nwE 'stdout|stderr' lib/*/*.c lib/*/*.cc |
    grep -v '^lib/base/log\.c:' | code)"
nothing "no work is left for later in the code" "$(grep -rnwE 'TODO|FIXME' lib cl include apps tests --include='*.[chs]*' |
    grep -v '^tests/layers\.sh:')"
nothing "file names are unique" "$(find lib cl apps tests -name '*.[ch]' -o -name '*.cl' -o -name '*.cc' |
    grep -v '^apps/examples/' | sed 's|.*/||' | sort | uniq -d)"
for header in include/tfm/*.h; do
    nothing "$header stands alone in C" "$(cc -x c -std=c11 -fsyntax-only -Wall -Wextra -Iinclude "$header" 2>&1 |
        grep -E 'error|warning')"
    nothing "$header stands alone in C++" "$(c++ -x c++ -fsyntax-only -Wall -Wextra -Iinclude "$header" 2>&1 |
        grep -E 'error|warning')"
done
echo "1..$count"
