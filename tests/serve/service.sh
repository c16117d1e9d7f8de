# The unit for systemd, apps/packages/debian/tfm.service: systemd accepts it, and the server starts with its options.
#     sh tests/serve/service.sh PROGRAM SOURCE_ROOT
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
. "$root/tests/checks.sh"
. "$root/tests/serve/common.sh"
packages=$root/apps/packages/debian

# value NAME: of a setting of the unit
value() {
    sed -n "s/^$1=//p" "$packages/tfm.service"
}
sed "s,^ExecStart=/usr/bin/tfm ,ExecStart=$tfm ," "$packages/tfm.service" >tfm.service
chmod 644 tfm.service # tests/coverage.sh sets a umask that lets everybody write
if command -v systemd-analyze >/dev/null; then
    systemd-analyze verify --man=no ./tfm.service >out 2>&1
    code=$?
    check "systemd-analyze accepts tfm.service without a warning" [ $code = 0 -a ! -s out ]
    systemd-analyze security --offline=yes --threshold=40 ./tfm.service >out 2>&1
    code=$?
    check "systemd-analyze rates the exposure of tfm.service below 4" [ $code = 0 ]
else
    skip "systemd-analyze accepts tfm.service without a warning" "there is no systemd-analyze"
    skip "systemd-analyze rates the exposure of tfm.service below 4" "there is no systemd-analyze"
fi
check "tfm.service reads its options from /etc/default/tfm" [ "$(value EnvironmentFile) $(value ExecStart)" = \
    "/etc/default/tfm /usr/bin/tfm serve \$TFM_SERVE_OPTIONS" ]
check "tfm.service reloads by SIGHUP" [ "$(value ExecReload)" = '/bin/kill -HUP $MAINPID' ]
check "tfm.service waits for longer than an accepted request may take" [ "$(value TimeoutStopSec)" -ge 65 ]

# As systemd does: with no other environment than the unit's, and a cache in CacheDirectory.
. "$packages/tfm.default"
mkdir cache
settings="-u HOME -u TFM_CACHE_DIR -u POCL_CACHE_DIR $(value Environment | sed "s,=/var/cache/tfm,=$here/cache,")"
# shellcheck disable=SC2046 # words
start $(echo "$TFM_SERVE_OPTIONS" | sed "s,/usr/share/tfm/demo,$demo,") --timeout 600
for _ in $(seq 600); do
    ask "$at/ready"
    [ "$code" != 200 ] || break
    sleep 0.1
done
check "the server with the options of /etc/default/tfm becomes ready" [ "$(cat out)" = '{"status":"ready"}' ]
form -d 'q=Guten Morgen.'
check "the server with the options of /etc/default/tfm translates" [ "$(cat out)" = '{"translatedText":"Good morning."}' ]
stop
check "the server exits with 0 after SIGTERM of systemd" [ "$ended" = 0 ]
check "kernels are stored in the cache directory of tfm.service" [ -n "$(find cache/tfm -type f)" ]

echo "1..$count"
