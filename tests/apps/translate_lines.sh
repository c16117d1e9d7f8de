# tfm translate: empty, blank, invalid and long lines, line ends and input files.
#     sh tests/apps/translate_lines.sh PROGRAM SOURCE_ROOT
# Prints TAP.
. "$(dirname "$0")/common.sh"

printf '%s\n\n%s' "$german" "$german" >lines
translate -i lines
printf '%s\n\n%s\n' "$english" "$english" >want
check "translate keeps empty lines and accepts a last line without a newline" same out want
printf '\357\273\277%s\r\n\r\n%s\r\n' "$german" "$german" >lines
translate -i lines
check "translate accepts a byte order mark and CR LF line ends" same out want
printf '%s\r\n\r\n%s\r' "$german" "$german" >lines
translate -i lines
check "translate accepts a last line that ends in CR" same out want
printf '%s\n \t\n\n' "$german" >lines
translate --scores -i lines
check "translate --scores prints no score for empty and blank lines" [ "$(sed -n '2,$p' out | wc -c)" = 2 ]
printf '%s\n\343\200\200\n%s\n' "$german" "$german" >lines
translate --n-best 2 -i lines
check "translate --n-best prints one empty hypothesis for a line of Unicode blanks" [ "$(sed -n 3p out)" = "1 |||  ||| " -a "$(wc -l <out)" = 5 ]
printf '' >lines
translate -i lines
check "translate of an empty file prints nothing and succeeds" [ "$code" = 0 -a ! -s out ]
printf '%s\nDan\377ke.\nDan\000ke.\n%s\n' "$german" "$german" >lines
translate -i lines
printf '%s\n\n\n%s\n' "$english" "$english" >want
check "translate writes an empty line for a line with invalid UTF-8 or NUL and continues" cmp -s out want
check "translate exits with 1 after a line with invalid UTF-8 or NUL" [ "$code" = 1 ]
check "translate names the lines with invalid UTF-8 or NUL" [ "$(grep -c 'line [23]:' err)" = 2 ]
translate --n-best 2 -i lines
check "translate --n-best keeps its line numbers after a bad line" both 1 grep -qF "3 ||| $english ||| " out
awk 'BEGIN { for (i = 0; i < 900; i++) printf "Haus "; print "" }' >lines
echo "$german" >>lines
translate -i lines
printf '\n%s\n' "$english" >want
check "translate names a line that is too long for the model and exits with 1" both 1 says err 'line 1: the line has [0-9]* tokens, and the model takes at most [0-9]*: '
check "translate writes an empty line for a line that is too long and continues" cmp -s out want
translate --truncate -i lines
grep -v 'building kernels for this device' err >complaints # logged on a busy machine
check "translate --truncate cuts a line that is too long without a message" [ "$code" = 0 -a "$(wc -l <out)" = 2 -a ! -s complaints ]
translate -i nowhere
check "translate names an input file that does not exist" one_sentence 1 'nowhere'
translate -i .
check "translate rejects a directory as the input file" one_sentence 1 'directory'
run translate -m nowhere <two.de
check "translate names a model directory that does not exist" one_sentence 1 'nowhere'

printf '\377\376D\000a\000\n\000' >wide
run translate -m "$demo" -i wide
check "translate names UTF-16 input and the conversion to UTF-8" one_sentence 1 'wide is in UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`'

echo "1..$count"
