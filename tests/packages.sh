# Builds and tests the packages like a user; takes some minutes, as root, on Debian:
#   dist    the tarball of `meson dist`: its tests configure, and Debian's packages are built from it
#   debian  the packages of apps/packages/debian: lintian reports nothing; their own tests pass in a clean Debian
#   docker  the steps of apps/packages/Dockerfile, without Docker (tests/dockerfile.py); the result translates and
#           serves as its own user, with a read-only root
#     sh tests/packages.sh FOLDER [PART...]
# Default: all parts; `debian` uses the tarball of `dist` in FOLDER, or the working tree. The last line is "N passed, N
# failed, N skipped".
set -u
mkdir -p "$1"
folder=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- dist debian docker
cd "$(dirname "$0")/.." || exit 1
root=$PWD
passed=0 failed=0 skipped=0
finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ $failed = 0 ]
    exit
}
skip() {
    skipped=$((skipped + 1))
    echo "skipped: $*"
}
# check NAME COMMAND...
check() {
    name=$1
    shift
    echo "== $name"
    if "$@" >"$folder/last.log" 2>&1; then
        passed=$((passed + 1))
        return 0
    fi
    failed=$((failed + 1))
    tail -n 40 "$folder/last.log"
    echo "failed: $name"
    return 1
}
# in_clean COMMAND...: runs in the clean Debian, with the system's folders and network
in_clean() {
    unshare --mount sh -c 'for place in proc dev sys; do mount --rbind "/$place" "$0/$place" || exit; done
        exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"' \
        "$folder/clean" "$@"
}

# ---- Requirements ----

[ "$(sed -n 's/^VERSION_ID=//p' /etc/os-release)" = '"12"' ] || { skip "this is not Debian 12" && finish; }
[ "$(id -u)" = 0 ] || { skip "only root can make a clean Debian" && finish; }
sh apps/packages.sh curl debhelper debootstrap iproute2 lintian && apt-get build-dep -y -qq ./apps/packages >"$folder/last.log" 2>&1 ||
    { skip "Debian's tools cannot be installed" && finish; }
if [ ! -f "$folder/base.tar" ]; then
    mirror=$(apt-get indextargets --format '$(SITE)' "Codename: bookworm" "Component: main" | head -n 1)
    rm -rf "$folder/base"
    debootstrap --variant=minbase bookworm "$folder/base" "$mirror" >"$folder/last.log" 2>&1 &&
        tar -C "$folder/base" -cf "$folder/base.part" . && mv "$folder/base.part" "$folder/base.tar" ||
        { tail -n 3 "$folder/last.log" && skip "debootstrap failed" && finish; }
    rm -rf "$folder/base"
fi

version=$(sed -n "s/^project(.* version: '\([^']*\)'.*/\1/p" meson.build)
tarball=$folder/dist/meson-dist/tfm-$version.tar.xz

dist() {
    git rev-parse --is-inside-work-tree >/dev/null 2>&1 || { skip "meson dist: this is not a git work tree" && return; }
    [ -f "$folder/dist/build.ninja" ] || meson setup "$folder/dist" -Dtests=false >"$folder/last.log" 2>&1
    rm -f "$tarball"
    check "meson dist" meson dist -C "$folder/dist" --no-tests --allow-dirty --formats xztar || return
    rm -rf "$folder/unpacked"
    mkdir "$folder/unpacked"
    check "the tarball of meson dist unpacks" tar -C "$folder/unpacked" -xf "$tarball"
    check "the tests of the tarball configure" meson setup "$folder/unpacked/build" "$folder/unpacked/tfm-$version" -Dtests=true
    rm -rf "$folder/unpacked"
}

# A clean Debian with the packages, and only the sources that their tests need.
prepare_clean() {
    rm -rf "$folder/clean"
    mkdir -p "$folder/clean"
    tar -C "$folder/clean" -xf "$folder/base.tar"
    cp /etc/resolv.conf "$folder/clean/etc/"
    mkdir -p "$folder/clean/debs" "$folder/clean/source/debian" "$folder/clean/source/apps" "$folder/clean/source/tests"
    cp "$folder"/deb/*.deb "$folder/clean/debs/"
    cp -r "$folder/deb/tfm-$version/debian/tests" "$folder/clean/source/debian/"
    cp -r tests/consumer tests/consumer.sh "$folder/clean/source/tests/"
    cp -r apps/examples apps/demo "$folder/clean/source/apps/"
    cp README.md "$folder/clean/source/"
}
debian() {
    [ -f "$tarball" ] || tarball=
    rm -rf "$folder"/deb/*
    check "the Debian packages build" sh apps/packages/build-deb.sh "$folder/deb" ${tarball:+"$tarball"} || return
    # There is no packaging request (ITP bug) for an initial upload to close.
    check "lintian reports nothing for the Debian packages" lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs \
        --tag-display-limit 0 "$folder/deb/tfm_${version}"-*_"$(dpkg --print-architecture)".changes
    prepare_clean
    check "apt-get update succeeds in a clean Debian" in_clean apt-get update
    check "tfm and its recommended packages install in a clean Debian" in_clean sh -c \
        "apt-get install -y /debs/libtfm[0-9]*[0-9]_*.deb /debs/tfm_*.deb /debs/tfm-demo_*.deb"
    check "PoCL is installed with tfm" in_clean dpkg -s pocl-opencl-icd
    check "the installed tfm translates" in_clean sh /source/debian/tests/translate
    check "the installed tfm has its manual page and completions" in_clean ls /usr/share/man/man1/tfm.1.gz \
        /usr/share/bash-completion/completions/tfm.bash /usr/share/zsh/vendor-completions/_tfm
    check "the unit of tfm serve and its options are installed, and it is not enabled" in_clean sh -c \
        "ls /lib/systemd/system/tfm.service /etc/default/tfm && ! ls /etc/systemd/system/*/tfm.service"
    check "libtfm-dev installs in a clean Debian" in_clean sh -c \
        "apt-get install -y --no-install-recommends /debs/libtfm-dev_*.deb cmake gcc libc6-dev make pkg-config"
    check "programs build against the installed libtfm-dev" in_clean sh -c "cd /source && sh debian/tests/build"
    check "apt-get purge removes the packages" in_clean apt-get purge -y libtfm-dev tfm tfm-demo "libtfm[0-9].*"
    check "apt-get purge leaves no file" sh -c "! find '$folder/clean/usr' '$folder/clean/etc' -name '*tfm*' ! -name '*?tfm[ts]*' | grep ." # not ICU's dtfmtsym.h, nor Pygments' textfmts.py
    rm -rf "$folder/clean"
}

# Requests to the container's program, in its own network namespace.
asked() {
    nsenter --target $server --net curl -sS -d q="Guten Morgen." -d source=de -d target=en \
        http://127.0.0.1:5000/translate | tee /dev/stderr | grep -qF '"Good morning."'
}
docker() {
    rm -rf "$folder/docker"
    check "the steps of the Dockerfile run" python3 tests/dockerfile.py build apps/packages/Dockerfile "$root" "$folder/docker" \
        debian:12="$folder/base.tar" DEB_BUILD_OPTIONS="noautodbgsym noopt" || return
    run="python3 tests/dockerfile.py run '$folder/docker'"
    check "the Docker image translates" sh -c "$run translate -m /usr/share/tfm/demo <apps/demo/test.de | cmp - apps/demo/beam4.en"
    check "the Docker image keeps its kernel cache in a volume" sh -c "find '$folder/docker/volumes/0/tfm' -type f | grep -q ."
    check "the Docker image cannot write outside its volumes" sh -c "$run translate -m /usr/share/tfm/demo -i /usr/share/tfm/demo/test.de \
        -o /usr/share/tfm/out 2>&1 | tee /dev/stderr | grep -q 'Read-only'"
    python3 tests/dockerfile.py run "$folder/docker" >"$folder/serve.log" 2>&1 &
    server=$!
    for _ in $(seq 300); do
        grep -q 'listening on' "$folder/serve.log" && break
        kill -0 $server 2>/dev/null || break
        sleep 0.2
    done
    check "the Docker image serves" asked || cat "$folder/serve.log"
    check "the Docker image runs as its own user" sh -c "[ \$(stat -c %u /proc/$server) = 10001 ]"
    kill -TERM $server
    check "the Docker image's server exits after SIGTERM" wait $server
    rm -rf "$folder/docker"
}

for part; do
    case $part in
    dist | debian | docker) "$part" ;;
    *) check "$part is no part of it" false ;;
    esac
done
finish
