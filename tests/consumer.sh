# Builds the translation example against an installed tfm like other projects, with pkg-config and with CMake. Both must
# translate like the demo model, and CMake must refuse incompatible versions. README's example must translate, and fail
# without a model.
#     sh tests/consumer.sh PREFIX FOLDER
# Exit code 77 without CMake.
set -eu
prefix=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
cd "$(dirname "$0")/.."
root=$PWD
unset LD_LIBRARY_PATH
pc=$(find "$prefix" -name tfm.pc | head -n 1)
[ -n "$pc" ] || { echo "no tfm.pc is below $prefix: is it installed?"; exit 1; }
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH

# translates PROGRAM
translates() {
    "$1" "$root/apps/demo" "$(sed -n 6p "$root/apps/demo/test.de")" >"$folder/out" || return
    grep -qxF "$(sed -n 6p "$root/apps/demo/beam4.en")" "$folder/out" && return
    echo "$1 gave:"
    cat "$folder/out"
    return 1
}
# shellcheck disable=SC2046 # words
cc -std=c11 "$root/apps/examples/translate.c" $(pkg-config --cflags --libs tfm) \
    -Wl,-rpath,"$(pkg-config --variable=libdir tfm)" -o "$folder/by-pkg-config"
translates "$folder/by-pkg-config"
# README's example: its exit status reports success or failure.
sed -n '/^```c$/,/^```$/p' "$root/README.md" | sed '/^```/d' >"$folder/readme.c"
# shellcheck disable=SC2046 # words
cc -std=c11 "$folder/readme.c" $(pkg-config --cflags --libs tfm) \
    -Wl,-rpath,"$(pkg-config --variable=libdir tfm)" -o "$folder/readme"
[ "$("$folder/readme")" = "Good morning." ] || { echo "README's example does not translate"; exit 1; }
if (cd / && "$folder/readme") 2>"$folder/err" || ! grep -q 'apps/demo' "$folder/err"; then
    echo "README's example without a model: it must fail and name the folder"
    exit 1
fi

command -v cmake >/dev/null || { echo "skipped: CMake is not installed"; exit 77; }
rm -rf "$folder/cmake"
# finds VERSION: whether CMake accepts the installed tfm for it
finds() {
    cmake -S "$root/tests/consumer" -B "$folder/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DWANTED="$1" \
        -DEXAMPLE="$root/apps/examples/translate.c" >"$folder/cmake.log" 2>&1
}
version=$(pkg-config --modversion tfm)
major=${version%%.*}
minor=${version#*.}
patch=${minor#*.}
minor=${minor%%.*}
for wanted in "" "$version" "$major.$minor" "$major.$minor...$major.$((minor + 1))" "$version;EXACT"; do
    finds "$wanted" || { echo "CMake does not find tfm $version as \"$wanted\":"; cat "$folder/cmake.log"; exit 1; }
done
cmake --build "$folder/cmake" >"$folder/cmake.log" 2>&1 || { cat "$folder/cmake.log"; exit 1; }
translates "$folder/cmake/consumer"

# Versions with another soname, or newer ones.
for wanted in "$major.$minor.$((patch + 1))" "$major.$((minor + 1))" $((major + 1)) "0...<$version"; do
    rm -rf "$folder/cmake"
    finds "$wanted" && { echo "CMake takes tfm $version for $wanted"; exit 1; }
    grep -q "version: $version" "$folder/cmake.log" || { cat "$folder/cmake.log"; exit 1; }
done
[ "$major" != 0 ] || [ "$minor" = 0 ] || ! finds "0.$((minor - 1))" || { echo "CMake takes tfm $version for 0.$((minor - 1))"; exit 1; }
