# The suite `device` on platforms that Debian lacks or does not install by default: PoCL's single-threaded `basic`
# device, and Intel's CPU runtime, with a different compiler, which also runs on AMD's CPUs; there also layers, models
# and a trainer with the device profile `gpu`, and a fleet of Intel's and PoCL's devices, one of which fails.
#     sh tests/platforms.sh BUILD [PLATFORM...]      PLATFORM: basic, intel
# BUILD is a build folder with tests. Intel's runtime is fetched from PyPI and unpacked in BUILD/intel, not installed;
# if that fails, the platform is skipped with a message. The last line is "N passed, N failed, N skipped"; the exit code
# is 1 if something failed.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$PWD
build=$(realpath "${1:?give a build folder}")
shift
[ $# -gt 0 ] || set -- basic intel
counts=$build/platform-counts
: >"$counts"
. tests/suites.sh
unset TFM_GEMM TFM_MEGAKERNEL TFM_LOG TFM_CL_DIR TFM_PROFILE

skip() {
    echo "$1 is skipped: $2"
    echo "0 0 1" >>"$counts"
}
basic() {
    mkdir -p "$build/basic/vendors" "$build/basic/cache"
    cp /etc/OpenCL/vendors/pocl.icd "$build/basic/vendors/" || {
        skip basic "PoCL is not installed"
        return
    }
    export OCL_ICD_VENDORS="$build/basic/vendors" POCL_DEVICES=basic POCL_CACHE_DIR="$build/basic/cache" TFM_CACHE_DIR=off \
        TFM_DEVICE=basic
    suite basic "$build" --suite device
}

intel() {
    folder=$build/intel
    if [ ! -e "$folder/lib/libintelocl.so" ]; then
        rm -rf "$folder"
        mkdir -p "$folder/lib.new"
        if ! python3 -m pip --version >"$build/intel.log" 2>&1 || ! python3 -m pip download --quiet --no-deps --only-binary :all: \
            --dest "$folder" intel-opencl-rt intel-cmplr-lib-rt 'tbb>=2022' >>"$build/intel.log" 2>&1; then
            skip intel "$(tail -n 1 "$build/intel.log")"
            return
        fi
        for wheel in "$folder"/*.whl; do
            if ! python3 -m zipfile -e "$wheel" "$folder/unpacked"; then
                echo "intel: $wheel cannot be unpacked"
                echo "0 1 0" >>"$counts"
                return
            fi
            rm "$wheel"
        done
        for part in "$folder"/unpacked/*.data/data/lib; do
            cp -a "$part"/. "$folder/lib.new/"
        done
        # The wheel has its own loader; tfm uses the system's.
        rm -rf "$folder/unpacked" "$folder"/lib.new/libOpenCL.so*
        mv "$folder/lib.new" "$folder/lib" # only when complete: an interrupted download starts again
    fi
    mkdir -p "$folder/vendors"
    echo "$folder/lib/libintelocl.so" >"$folder/vendors/intel.icd"
    export OCL_ICD_VENDORS="$folder/vendors" LD_LIBRARY_PATH="$folder/lib" TFM_CACHE_DIR="$folder/cache" TFM_DEVICE=0
    # Without a device, only the platform is listed, with index -1.
    if "$build/apps/tfm" devices --json | grep -qE '"index": *[0-9]'; then
        suite intel "$build" --suite device
        as_gpu intel "$build" model trainer decode_steps quantize
        mixed_fleet
    else
        skip intel "its runtime finds no device"
    fi
}

# A fleet of Intel's and PoCL's devices, one of which fails.
mixed_fleet() {
    mkdir -p "$folder/both"
    cp /etc/OpenCL/vendors/pocl.icd "$folder/vendors/intel.icd" "$folder/both/" || {
        skip mixed_fleet "PoCL is not installed"
        return
    }
    OCL_ICD_VENDORS="$folder/both" "$build/tests/test_fleet_fault" test_intel_runtime_next_to_pocl_survives_faults | tee "$folder/mixed_fleet.log"
    if grep -q '  OK ] test_intel_runtime_next_to_pocl_survives_faults' "$folder/mixed_fleet.log"; then
        echo "1 0 0" >>"$counts"
    else # also if the test was skipped
        echo "0 1 0" >>"$counts"
    fi
}

for platform; do
    case $platform in
    basic | intel) ("$platform") || echo "0 1 0" >>"$counts" ;;
    *)
        echo "unknown platform $platform"
        echo "0 1 0" >>"$counts"
        ;;
    esac
done
report
