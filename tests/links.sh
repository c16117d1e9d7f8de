# Checks relative links in Markdown files, to files and to headings of Markdown files.
#     sh tests/links.sh FILE...
set -eu
dead=0
# has_heading FILE ANCHOR: a heading in lower case, with hyphens for blanks
has_heading() {
    grep '^#' "$1" | sed 's/^#* //' | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-' | grep -qxF -e "$2"
}
for file; do
    for link in $(grep -o ']([^)]*)' "$file" | sed 's/^](//; s/)$//' | grep -v '^[a-z]*:' | sort -u); do
        target=$(dirname "$file")/${link%%#*}
        case $link in
        '#'*) has_heading "$file" "${link#\#}" && continue ;;
        *.md'#'*) [ -e "$target" ] && has_heading "$target" "${link#*#}" && continue ;;
        *) [ -e "$target" ] && continue ;;
        esac
        echo "$file: $link leads nowhere"
        dead=1
    done
done
exit $dead
