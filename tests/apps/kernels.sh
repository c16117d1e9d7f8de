# tfm kernels: programs exported, packed, and run without a compiler.
#     sh tests/apps/kernels.sh PROGRAM SOURCE_ROOT FAULT_LAYER MAKE_DECODER
# Prints TAP. With TFM_BRIEF=1 the device compiles without optimization.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
layer=$(realpath "$3")
maker=$(realpath "$4")
. "$root/tests/checks.sh"
mkdir model
"$maker" model || exit 1
[ "$TFM_CACHE_DIR" = off ] && export TFM_CACHE_DIR="$here/cache" # runs share build results
unoptimized

# bare PACK ARGUMENT...: on a device without a compiler; leaves the counts of the fault layer in `counted`.
bare() {
    pack=$1
    shift
    (
        export TFM_KERNELS="$pack" OPENCL_LAYERS="$layer" TFM_FAULT_LIE=compiler=0 TFM_FAULT_REPORT="$here/counted"
        run "$@"
        echo "$code" >code
    )
    code=$(cat code)
}
# All programs of the last run came from binaries.
unbuilt() {
    grep -q "^clCreateProgramWithBinary [1-9]" counted && ! grep -q "^clCreateProgramWithSource [1-9]" counted
}
generate="generate -m model --token-ids --max-new-tokens 12"
kernels() {
    run kernels "$@"
}

# ---- Usage errors
kernels
check "kernels without --export and --pack is a usage error" one_sentence 2 'give either --export DIR or --pack DIR'
kernels --export programs
check "kernels --export without a command is a usage error" one_sentence 2 'give one thing to run'
kernels --export programs -m model -- generate
check "kernels --export with a model and a command is a usage error" one_sentence 2 'give one thing to run'
kernels --export programs generate -m model
check "kernels --export with a command but without -- is a usage error" one_sentence 2 'give a command of tfm after --'
kernels --pack programs
check "kernels --pack without -o is a usage error" one_sentence 2 'give -o FILE'
kernels --pack programs -o file -m model
check "kernels --pack with a model is a usage error" one_sentence 2 '--pack packs an exported folder'
kernels --export programs --preset tiny -i lines
check "kernels --export --preset with texts is a usage error" one_sentence 2 'need a model'
kernels --export programs -- kernels --export programs -m model
check "kernels --export rejects the command kernels" one_sentence 1 "kernels cannot be exported from 'kernels'"
kernels --export programs -- devices
check "kernels --export reports a command that compiles no program" one_sentence 1 ': run a model on a device during the export'
: >wall
kernels --export wall/programs -- devices
check "kernels --export reports a directory that cannot be made before it runs anything" one_sentence 1 'cannot write into the folder wall/programs: Not a directory'
kernels --pack nowhere -o file
check "kernels --pack names a directory without an export" one_sentence 1 'nowhere/manifest.json'

# ---- A decoder-only model
run $generate "10 11 12" 20
cp out want
bare "" $generate "10 11 12" 20
check "a device without a compiler and without a kernel pack says what to do" one_sentence 1 'has no compiler: set TFM_KERNELS to a pack'
kernels --export programs -- $generate "10 11 12" 20
check "kernels --export does not change the command's output" both 0 cmp -s out want
check "kernels --export says how many programs are new" says err '^programs has [1-9][0-9]* programs, [1-9][0-9]* of them new: compile each'
check "exported programs are self-contained and have fixed work-group sizes" python3 -c '
import json, os, re
m = json.load(open("programs/manifest.json"))
assert m["format"] == 1 and m["tfm"] and m["device"]["driver"] and ".bin" in m["binary_suffixes"], m
for p in m["programs"]:
    text = open("programs/" + p["file"]).read()
    assert p["file"] == p["name"] + ".cl" and re.fullmatch("[a-z0-9_]+-[0-9a-f]{16}", p["name"]), p
    assert "-D" not in p["options"] and "-cl-std=CL" in p["options"], p
    assert "#include" not in text and "#line" not in text and text.count("#define TFM_WIDTH ") > 0, p
    assert p["kernels"] and all(min(k["group"]) > 0 for k in p["kernels"]), p
    assert all(re.search(r"\b%s\(" % k["name"], text) for k in p["kernels"]), p
assert len(os.listdir("programs")) == len(m["programs"]) + 1'
kernels --pack programs -o file
check "kernels --pack says how many programs the driver compiled" both 0 says err '^file has [1-9][0-9]* programs in [0-9.]* MB, [1-9][0-9]* of them built by'
bare file $generate "10 11 12" 20
check "a kernel pack runs without a compiler" same out want
check "a kernel pack runs without compiling any program" unbuilt
TFM_GEMM=clblast bare file $generate "10 11 12" 20
check "a kernel pack excludes CLBlast, which compiles at run time" same out want
(
    export TFM_KERNELS=file OPENCL_LAYERS="$layer" TFM_FAULT_REPORT="$here/counted"
    run $generate "10 11 12" 20
    echo "$code" >code
)
code=$(cat code)
check "a kernel pack on a device with a compiler gives the same output" same out want
check "a kernel pack on a device with a compiler compiles no program from source" unbuilt

# ---- A pipelined accelerator has loops in work-groups of one item
# pipeline ARGUMENT...: on an accelerator
pipeline() {
    (
        export OPENCL_LAYERS="$layer" TFM_FAULT_LIE="${lie:-type=8}"
        run "$@"
        echo "$code" >code
    )
    code=$(cat code)
}
(
    brief && export TFM_CACHE_DIR=off # binaries would take as long as the build
    pipeline kernels --export pipeline -- $generate "10 11 12" 20
)
code=$(cat code)
check "kernels --export works for an accelerator" both 0 cmp -s out want
check "an accelerator's GEMM, softmax and norm have work-groups of one item" python3 -c '
import json
m = json.load(open("pipeline/manifest.json"))
files = {p["file"].rsplit("-", 1)[0] for p in m["programs"]}
assert any(f.startswith("gemm_") for f in files) and any("norm" in f for f in files), files
for p in m["programs"]:
    text = open("pipeline/" + p["file"]).read()
    assert "#define TFM_CLASS_CPU" in text and "#define TFM_GROUP 1\n" in text and "#define TFM_WIDTH 4\n" in text, p
    if p["file"].startswith(("gemm_cpu_packed", "gemm_cpu_skinny", "softmax", "layernorm", "rmsnorm")):
        assert all(k["group"] == [1, 1, 1] for k in p["kernels"]), p'
if ! brief; then # as above, but on an accelerator, which compiles everything again
    pipeline kernels --pack pipeline -o piped
    export TFM_KERNELS=piped
    lie=type=8,compiler=0 pipeline $generate "10 11 12" 20
    unset TFM_KERNELS
    check "an accelerator runs from a kernel pack without a compiler" same out want
fi

# ---- Missing programs and packs
bare file $generate --precision int8 "10 11 12"
check "a program missing from a kernel pack is an error that says what to do" one_sentence 1 'which this run needs: repeat `tfm kernels --export`'
check "a program missing from a kernel pack is named" says err 'has no program [a-z0-9_]*-[0-9a-f]\{16\},'
kernels --export programs -- $generate --precision int8 "10 11 12"
check "a second kernels --export adds only new programs" says err '^programs has \([0-9]*\) programs, [1-9]'
if ! brief; then # builds all programs of the pack again
    kernels --pack programs -o file
    bare file $generate --precision int8 "10 11 12"
    check "a kernel pack of two exports runs the added command" [ "$code" = 0 ]
    bare file $generate "10 11 12" 20
    check "a kernel pack of two exports still runs the first command" same out want
fi

# ---- Another device, driver or version; damage
cp -r programs other
sed -i 's/"driver": "[^"]*"/"driver": "0.0 of old"/' other/manifest.json
kernels --pack other -o third
check "kernels --pack rejects an export for another driver's binaries" one_sentence 1 'is for a device whose driver is "0.0 of old", but this device'
for file in other/*.cl; do
    echo binary >"${file%.cl}.bin"
done
kernels --pack other -o third
check "kernels --pack compiles nothing where all binaries are given" both 0 says err ', 0 of them built by'
bare third $generate "10 11 12"
check "a kernel pack for another driver is rejected" one_sentence 1 'third is for a device whose driver is "0.0 of old"'
kernels --export other -- $generate "10 11 12"
check "kernels --export rejects a directory exported for another driver" one_sentence 1 'the export in other is for a device whose driver is "0.0 of old"'
sed -i 's/"tfm": "[^"]*"/"tfm": "0.0.1"/' other/manifest.json
kernels --pack other -o third
check "kernels --pack rejects an export of another version" one_sentence 1 'is of tfm 0.0.1, and this is tfm'
head -c 1000 file >short
bare short $generate "10 11 12"
check "a truncated kernel pack is rejected" one_sentence 1 'short is not a complete kernel pack'
bare want $generate "10 11 12"
check "a file that is not a kernel pack is rejected" one_sentence 1 'want is not a complete kernel pack: it has another magic'
bare nowhere $generate "10 11 12"
check "a kernel pack that does not exist is named" one_sentence 1 'nowhere'
sed -i 's/"programs": \[/"programs": [{}, /' programs/manifest.json
kernels --pack programs -o third
check "a damaged manifest is rejected" one_sentence 1 'is no manifest of kernels'

# ---- The example
kernels --export sample -m model
check "kernels --export -m exports what a model runs" both 0 says err '^sample has [1-9]'
for way in "" "--beam-size 4" "--sample --seed 3 --top-k 5 -t 0.8"; do
    # shellcheck disable=SC2086
    unkept kernels --export ways -- $generate $way "10 11 12" "1 2 3 4 5 6 7" 20
done
check "kernels --export -m covers greedy search, beam search and sampling" both 0 python3 -c '
import json
sample, ways = ({p["name"] for p in json.load(open(f + "/manifest.json"))["programs"]} for f in ("sample", "ways"))
assert len(ways) > 5 and ways <= sample, ways - sample'
echo "1..$count"
