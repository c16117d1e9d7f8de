# Builds unsigned Debian packages of tfm into FOLDER, from TARBALL (of `meson dist`) or from the files here. It builds a
# copy, because debian/ must be at the top of the source.
#     sh apps/packages/build-deb.sh FOLDER [TARBALL]
# Needs dpkg-dev, and the build dependencies: as root, apt-get build-dep ./apps/packages
set -eu
fail() {
    echo "build-deb.sh: $*" >&2
    exit 1
}
[ $# -ge 1 ] || fail "no folder is given: give the output folder"
mkdir -p "$1"
out=$(realpath "$1")
tarball=${2:+$(realpath "$2")}
cd "$(dirname "$0")/../.."

version=$(sed -n "s/^project(.* version: '\([^']*\)'.*/\1/p" meson.build)
packaged=$(dpkg-parsechangelog -l apps/packages/debian/changelog -S Version)
[ "${packaged%-*}" = "$version" ] ||
    fail "apps/packages/debian/changelog is of $packaged, meson.build of $version: add an entry to the former"
dpkg-checkbuilddeps apps/packages/debian/control || fail "install them: apt-get build-dep ./apps/packages"

top=tfm-$version
orig=$out/tfm_$version.orig.tar.xz
rm -rf "${out:?}/$top"
if [ -n "$tarball" ]; then
    cp "$tarball" "$orig"
elif git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard |
        tar --null --ignore-failed-read -T - --sort=name --owner=0 --group=0 --transform "s,^,$top/," -cJf "$orig"
else
    tar --exclude-vcs --exclude='./build*' --sort=name --owner=0 --group=0 --transform "s,^[.],$top," -cJf "$orig" .
fi
tar -C "$out" -xf "$orig"
[ -f "$out/$top/meson.build" ] || fail "$tarball holds no folder $top: is it of this version?"
cp -r apps/packages/debian "$out/$top/"
cd "$out/$top"
DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-} parallel=${JOBS:-$(nproc)}" dpkg-buildpackage -us -uc
