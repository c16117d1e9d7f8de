# Installs the missing ones of the given Debian packages. Changes nothing if all are installed.
#     sh apps/packages.sh meson ninja-build ...
set -eu

command -v dpkg-query >/dev/null || {
    echo "This is no Debian: see to these packages, or what is like them: $*" >&2
    exit 0
}
missing=
for package in "$@"; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || state=
    [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null; then
    as_root=sudo
else
    echo "These packages are missing, and only root can install them:$missing" >&2
    exit 1
fi
echo "Installing$missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
# shellcheck disable=SC2086 # words
$as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
