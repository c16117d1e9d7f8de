# From a bare Debian machine to translated sentences: installs what is missing, builds into build/demo, translates
# the German sentences in apps/demo with the model there.
#     sh apps/demo.sh
set -eu
cd "$(dirname "$0")/.."

# dpkg-dev sets Debian's library folder for Meson; without it libraries go to lib64, which is not searched.
sh apps/packages.sh gcc g++ dpkg-dev meson ninja-build pkg-config ocl-icd-opencl-dev opencl-headers libclblast-dev \
    libsentencepiece-dev libjansson-dev libyaml-dev libicu-dev libpcre2-dev libcairo2-dev libmicrohttpd-dev libcurl4-openssl-dev nettle-dev libedit-dev ca-certificates libcld2-dev libgumbo-dev fonts-dejavu-core pocl-opencl-icd

build=build/demo
if [ ! -f $build/build.ninja ]; then
    said=$(meson setup $build -Dtests=false --buildtype=release) || { echo "$said" >&2; exit 1; } # Meson prints errors on standard output
fi
# Shows progress in tenths; other output of ninja only after a failure.
{ NINJA_STATUS="[%f/%t] " ninja -C $build 2>&1 || echo failed; } | awk '
    BEGIN { printf "Building" }
    /^\[[0-9]+\/[0-9]+\] / { split(substr($1, 2), step, "/"); tenth = int(10 * step[1] / step[2])
                          if (tenth > done) { printf " %d%%", 10 * tenth; fflush(); done = tenth } }
    { said = said $0 "\n"; last = $0 }
    END { print ""; if (last == "failed") { printf "%s", said; exit 1 } }'

# The first run builds the kernels for this device; later ones load them from the cache.
tfm=$build/apps/tfm
$tfm devices
echo
$tfm translate -m apps/demo -i apps/demo/test.de -o $build/demo.en --stats
echo

# Each translation is below its sentence: side by side would be wider than a terminal.
sed 's/^/    /' $build/demo.en | paste -d '\n' apps/demo/test.de -
echo

# Models translate single sentences: --split splits a paragraph and joins the translations.
german="Heute Morgen bin ich zu spät aufgestanden. Der Bus war schon weg, und es hat geregnet. Ich habe meinen Chef \
angerufen und ihm gesagt, dass ich eine Stunde später komme. Er war nicht böse auf mich. Am Abend sind wir zusammen ins \
Kino gegangen."
echo "A paragraph:"
echo "$german" | fold -s -w 76
echo "$german" | $tfm translate -m apps/demo --split | fold -s -w 72 | sed 's/^/    /'
echo
$tfm attention -m apps/demo "Wo ist mein Auto?" -o $build/attention.svg
echo "The attention maps of one translation are in"
echo "    $build/attention.svg"
echo "Now your own:"
echo "    echo \"Wo ist der Bahnhof?\" | $tfm translate -m apps/demo"
