# The relative links of Markdown files lead to files, or to headings of the same file.
#     sh tests/links.sh FILE...
set -eu
dead=0
for file; do
    for link in $(grep -o ']([^)]*)' "$file" | sed 's/^](//; s/)$//' | grep -v '^[a-z]*:' | sort -u); do
        case $link in
        '#'*) # a heading in small letters, with hyphens for blanks
            grep '^#' "$file" | sed 's/^#* //' | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-' | grep -qxF -e "${link#\#}" && continue
            ;;
        *) [ -e "$(dirname "$file")/${link%%#*}" ] && continue ;;
        esac
        echo "$file: $link leads nowhere"
        dead=1
    done
done
exit $dead
