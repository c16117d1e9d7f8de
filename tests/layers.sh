# The folder is the layer: what a folder's files include lies in it or below it. TAP.
#     sh tests/layers.sh [ROOT]
cd "${1:-$(dirname "$0")/..}" || exit 1
number=0

# rule WHAT COMMAND...: the command lists offences, one a line
rule() {
    what=$1
    shift
    number=$((number + 1))
    found=$("$@")
    if [ -z "$found" ]; then
        echo "ok $number - $what"
    else
        echo "not ok $number - $what"
        echo "$found" | sed 's/^/# /'
    fi
}
# outside LAYER FOLDERS HEADERS: what lib/LAYER includes besides these folders of lib/ and these headers of tfm/
outside() {
    grep -nE '#include "(base|dev|ops|nn|text|model)/' "lib/$1"/* | grep -vE "#include \"($2)/"
    grep -nE '#include [<"]tfm/' "lib/$1"/* | grep -vE "[<\"]tfm/($3)\.h"
}
# opencl: OpenCL and CLBlast named where they are not at home
opencl() {
    grep -rnE '#include [<"](CL/|clblast|tfm/opencl\.h)|\bcl[A-Z][A-Za-z]+\(' lib apps include --include='*.[ch]' --include='*.cc' |
        grep -vE '^(lib/dev/|include/tfm/opencl\.h|lib/ops/gemm_clblast\.c)'
}

echo "1..8"
rule "base includes base" outside base 'base' 'base'
rule "dev includes base and itself" outside dev 'base|dev' 'base|device|tensor|opencl'
rule "ops includes dev and below" outside ops 'base|dev|ops' 'base|device|tensor|opencl|ops|selftest'
rule "nn includes ops and below" outside nn 'base|dev|ops|nn' 'base|device|tensor|ops|nn'
rule "text includes base and itself" outside text 'base|text' 'base|text'
rule "model includes what there is" outside model 'base|dev|ops|nn|text|model' 'base|device|tensor|ops|nn|text|model'
rule "apps include public headers only" grep -rnE '#include "(base|dev|ops|nn|text|model)/' apps --include='*.[ch]'
rule "OpenCL is named in its rooms only" opencl
