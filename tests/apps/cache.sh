# The kernel cache of the command line (empty, damaged, not writable) and kernels of TFM_CL_DIR.
#     sh tests/apps/cache.sh PROGRAM SOURCE_ROOT
# Prints TAP.
. "$(dirname "$0")/common.sh"

echo "$english" >want
echo "$german" >line
: >file
export TFM_CACHE_DIR="$here/file/cache"
translate -i line
check "translate warns once about a kernel cache that cannot be written" [ "$(grep -c 'warning' err)" = 1 ]
check "translate works without a kernel cache" same out want
export TFM_CACHE_DIR="$here/damaged" # empty; PoCL's binaries are stored by the second run
translate -i line
for damage in 'head -c 40' 'sed s/e/E/g' 'head -c 0'; do
    translate -i line
    for entry in damaged/*; do
        [ -f "$entry" ] || continue
        $damage "$entry" >cut
        cp cut "$entry"
    done
    translate -i line
    check "translate rebuilds kernel cache entries damaged by $damage" same out want
done
mkdir kernels
cp "$root/cl/norm/layernorm.cl" kernels
number=$(($(wc -l <kernels/layernorm.cl) + 1))
echo "this is no OpenCL" >>kernels/layernorm.cl
TFM_CL_DIR=$here/kernels "$tfm" translate -m "$demo" -i line >out 2>err
code=$?
check "translate names file and line of a kernel in TFM_CL_DIR that does not compile" both 1 says err "layernorm\.cl:$number:"
cp "$root/cl/norm/layernorm.cl" kernels
TFM_CL_DIR=$here/kernels "$tfm" translate -m "$demo" -i line >out 2>err
code=$?
check "translate uses a kernel in TFM_CL_DIR that compiles" same out want
TFM_CL_DIR=nowhere "$tfm" translate -m "$demo" -i line >out 2>err
code=$?
check "translate warns once about a TFM_CL_DIR that is not a folder" [ "$(grep -c 'warning: TFM_CL_DIR is "nowhere", which is not a folder' err)" = 1 ]
check "translate uses the built-in kernels if TFM_CL_DIR is not a folder" same out want

echo "1..$count"
