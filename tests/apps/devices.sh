# tfm devices, --device, TFM_DEVICE and tfm selftest. With TFM_BRIEF=1 only device_report.sh runs the self-test.
#     sh tests/apps/devices.sh PROGRAM SOURCE_ROOT FAULT_LAYER
# Prints TAP.
layer=$(realpath "$3")
. "$(dirname "$0")/common.sh"

run devices
check "devices marks the selected device with a star" [ "$code" = 0 -a "$(grep -c '^\*' out)" = 1 ]
check "devices prints no rows for platforms without devices" [ "$(grep -c ' none (' out)" = 0 ]
run devices --verbose
grep -c ' none (' out >empty
run devices --json
check "devices --json has as many platforms without devices as --verbose prints" [ "$(python3 -c 'import json
print(sum(row["device_index"] < 0 for row in json.load(open("out"))))')" = "$(cat empty)" ]
run devices --json
check "devices --json has all fields and one chosen device" [ "$(python3 -c 'import json, sys
rows = json.load(open("out"))
fields = """index platform_index device_index platform name vendor type driver opencl compute_units memory_bytes
max_alloc_bytes fp16 compiler chosen""".split()
print(all(f in r for r in rows for f in fields), sum(r["chosen"] for r in rows))')" = "True 1" ]
TFM_DEVICE=nonesuch "$tfm" devices >out 2>err
code=$?
check "devices succeeds and marks nothing where TFM_DEVICE matches no device" [ "$code" = 0 -a "$(grep -c '^\*' out)" = 0 ]
check "devices warns about a TFM_DEVICE that matches no device" one_sentence 0 'TFM_DEVICE is "nonesuch"'
TFM_LOG=bogus "$tfm" devices >out 2>err
code=$?
check "an unknown TFM_LOG level gives one warning" both 0 one_sentence 0 'TFM_LOG is "bogus"'
translate --device nonesuch -i two.de
check "translate --device names a selector that matches no device" both 1 says err 'nonesuch'
mkdir vendors
OCL_ICD_VENDORS=$here/vendors "$tfm" translate -m "$demo" -i two.de >out 2>err
code=$?
check "translate without an OpenCL platform names the package to install" one_sentence 1 'pocl-opencl-icd'

export TFM_CACHE_DIR=off # PoCL recompiles to return binaries, and no other test needs these kernels
brief || self_test # device_report.sh runs it too, after its report has compiled the programs

# unanswered NUMBER ARGUMENT...: runs with one query of the device failing, from this one on until it is that of the
# local memory
unanswered() {
    number=$1
    shift
    for number in $(seq "$number" $((number + 150))); do
        (
            export OPENCL_LAYERS="$layer" TFM_FAULT_NAME=clGetDeviceInfo TFM_FAULT_CALL="$number" TFM_DEVICE=0
            run "$@"
            echo "$code" >code
        )
        code=$(cat code)
        ! grep -q CL_DEVICE_LOCAL_MEM_SIZE out err || return
    done
}
export OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
unanswered 20 devices
check "a device that does not report its local memory is listed as unusable" \
    grep -q 'clGetDeviceInfo(CL_DEVICE_LOCAL_MEM_SIZE) failed with' out
: >empty
unanswered $((number + 4)) translate -m "$demo" -i empty
check "a context whose device does not report its local memory fails" one_sentence 1 \
    'clGetDeviceInfo(CL_DEVICE_LOCAL_MEM_SIZE) failed on'
echo "1..$count"
