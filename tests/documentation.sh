# Commands and options named in README.md and apps/docs must exist: finds renamed or removed ones. Prints TAP.
#     sh tests/documentation.sh PROGRAM SOURCE_ROOT
set -u
export LC_ALL=C
tfm=$(realpath "$1")
cd "$2" || exit 1
# Options of other programs: apt-get, cc, hf, meson, mpirun and pkg-config.
foreign='--(allow-run-as-root|buildtype|cflags|hostfile|libs|local-dir|no-install-recommends|oversubscribe|prefix|static|variable)'

help_of() {
    "$tfm" help ${1:+"$1"}
}
commands=$(help_of "" | awk '/^commands:/ { inside = 1; next } /^$/ { inside = 0 } inside && /^  [a-z]/ { print $1 }')
# shellcheck disable=SC2086 # words
options=$(for command in $commands; do help_of "$command"; done | grep -oE -e '--[a-z][a-z0-9-]*' | sort -u)

count=0
for page in README.md apps/docs/*.md; do
    named=$(grep -oE -e '(^|[^a-z0-9-])--[a-z][a-z0-9-]*' "$page" | sed 's/^[^-]//' | grep -vxE -e "$foreign" | sort -u)
    wrong=$(for option in $named; do echo "$options" | grep -qxF -e "$option" || echo "$option"; done)
    # shellcheck disable=SC2016 # backquotes of Markdown
    called=$(sed -n '/^```/,/^```/p; s/.*`\(tfm [a-z][^`]*\)`.*/\1/p' "$page" | grep -oE '(^|[^a-z./])tfm [a-z]+' |
        sed 's/.*tfm //' | sort -u)
    wrong="$wrong $(for command in $called; do
        printf '%s\nhelp\n' "$commands" | grep -qxF "$command" || echo "tfm $command"
    done)"
    count=$((count + 1))
    if [ -z "${wrong# }" ]; then
        echo "ok $count - $page names only existing commands and options of tfm"
    else
        echo "not ok $count - $page names only existing commands and options of tfm"
        echo "# unknown: $wrong" | tr '\n' ' '
        echo
    fi
done
echo "1..$count"
