# tfm translate: output files, full disks, closed pipes, streaming, and the output after a signal.
#     sh tests/apps/translate_output.sh PROGRAM SOURCE_ROOT
# Prints TAP.
. "$(dirname "$0")/common.sh"

# ---- Files and stdout
translate -i "$demo/test.de" -o result
check "translate -o writes the translations to a file" same result "$demo/beam4.en"
echo old >result
chmod 640 result
translate --prefix-file two.de -i "$demo/test.de" -o result # too few lines
check "translate -o leaves the old file after a failure" [ "$code" = 1 -a "$(cat result)" = old ]
check "translate -o leaves no temporary file after a failure" [ "$(echo result*)" = result ]
translate -i "$demo/test.de" -o result
check "translate -o replaces the old file and keeps its permissions" [ "$(wc -l <result)" = 20 -a "$(stat -c %a result)" = 640 ]
{
    echo first
    echo "$german" | "$tfm" translate -m "$demo" -o /dev/stdout
    echo "$german" | "$tfm" translate -m "$demo" -o /dev/fd/5 5>&1
    echo last
} >shared 2>err
check "translate -o appends to /dev/stdout and /dev/fd/5 instead of truncating them" [ "$(cat shared)" = "first
$english
$english
last" ]
translate -i two.de -o nowhere/result
check "translate -o in a directory that does not exist is an error" one_sentence 1 'nowhere/result'
if [ -w /dev/full ]; then
    translate -i two.de -o /dev/full
    check "translate -o reports a full disk" one_sentence 1 'No space left'
    "$tfm" translate -m "$demo" -i two.de >/dev/full 2>err
    code=$?
    check "translate reports a full disk of standard output" one_sentence 1 'No space left'
    "$tfm" --help >/dev/full 2>err
    code=$?
    check "tfm --help reports a full disk" one_sentence 1 'No space left'
else
    skip "translate and tfm --help report a full disk" "there is no /dev/full"
fi
{
    "$tfm" translate -m "$demo" -i "$demo/test.de" 2>err
    echo $? >code
} | :
code=$(cat code)
check "translate ends quietly by SIGPIPE when the reader has closed the pipe" [ "$code" = 141 -a ! -s err ]
"$tfm" translate -m "$demo" -i two.de >&- 2>err
code=$?
check "translate with standard output closed is an error" one_sentence 1 'standard output'

# ---- Pipes: a line is translated before the writer sends more
wait_for() { # waits for a line count in `out`, at most a minute
    tries=0
    while [ "$(wc -l <out)" -lt "$1" ] && [ $tries -lt 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    [ "$(wc -l <out)" = "$1" ]
}
mkfifo slow
: >out
"$tfm" translate -m "$demo" <slow >out 2>err &
child=$!
exec 3>slow
echo "Danke." >&3
check "translate prints the first line before the writer of a pipe sends more" wait_for 1
printf 'Dan\377ke.\nDanke' >&3
check "translate prints an empty line for invalid UTF-8 while the pipe is open" wait_for 2
printf '.\nDanke.' >&3
check "translate joins a line that a pipe delivers in two parts" wait_for 3
exec 3>&-
wait $child
code=$?
check "translate of a pipe prints its last line at end of file and exits with 1" [ "$code" = 1 -a "$(wc -l <out)" = 4 ]
check "translate counts lines over the whole pipe" says err 'line 2:'
"$tfm" translate -m "$demo" -o killed <slow >out 2>err &
child=$!
exec 3>slow
tries=0
until ls killed.* >/dev/null 2>&1 || [ $tries -ge 600 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
kill -TERM $child
wait $child 2>/dev/null
exec 3>&-
check "translate -o leaves no file when SIGTERM comes before the first line is done" [ "$(echo killed*)" = 'killed*' ]
check "translate -o says that nothing was finished when SIGTERM comes early" says err 'tfm: stopped before the first result was complete: nothing was written$'
# The first progress line follows a batch: at that time no line may be finished, since the first one is the longest.
awk '{ print length, $0 }' "$demo/test.de" | sort -rn | cut -d' ' -f2- >falling.de
python3 - "$tfm" translate -m "$demo" -i falling.de -o killed --batch-tokens 256 <<'END' >screen
import os, pty, signal, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
text = b""
try:
    while piece := os.read(terminal, 4096):
        text += piece
        if b"translating" in text:
            os.kill(child, signal.SIGTERM)
except OSError:
    pass
os.waitpid(child, 0)
print(text.decode())
END
check "translate -o names no partial file when SIGTERM comes after a batch without the first line" \
    grep -q 'stopped before the first result was complete: nothing was written' screen
check "translate -o leaves no file when SIGTERM comes after a batch without the first line" [ "$(echo killed*)" = 'killed*' ]
"$tfm" translate -m "$demo" -o killed <slow >out 2>err &
child=$!
exec 3>slow
printf 'Danke.\n\nDan' >&3
wait_for_lines() { # PATH COUNT: in the temporary file of this name; signals are blocked while it is written and counted
    tries=0
    until [ "$(cat "$1".tfm-* 2>/dev/null | wc -l)" = "$2" ] || [ $tries -ge 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
}
wait_for_lines killed 2
kill -TERM $child
wait $child 2>/dev/null
code=$?
exec 3>&-
check "translate -o leaves the finished lines in FILE.partial after SIGTERM" [ "$code" = 143 -a "$(echo killed*)" = killed.partial -a \
    "$(wc -l <killed.partial)" = 2 ]
check "translate -o says how many lines FILE.partial holds" one_sentence 143 'the first 2 lines are in killed.partial'
translate -i two.de -o killed
check "translate -o deletes an earlier FILE.partial after success" [ "$code" = 0 -a "$(echo killed*)" = killed ]
rm killed
mkdir real && echo old >real/result && ln -s real/result link
"$tfm" translate -m "$demo" -o link <slow >out 2>err &
child=$!
exec 3>slow
echo 'Danke.' >&3
wait_for_lines real/result 1
kill -TERM $child
wait $child 2>/dev/null
code=$?
exec 3>&-
check "translate -o through a symbolic link names the partial file of its target" one_sentence 143 'real/result.partial'
check "translate -o through a symbolic link writes the partial file next to its target" [ "$(echo real/* link*)" = 'real/result real/result.partial link' ]
"$tfm" translate -m "$demo" -o killed <slow >out 2>err &
child=$!
exec 3>slow
echo 'Danke.' >&3
wait_for_lines killed 1
mkdir killed
exec 3>&-
wait $child
code=$?
check "translate -o leaves the lines in FILE.partial when FILE cannot be replaced" [ "$code" = 1 -a "$(echo killed*)" = 'killed killed.partial' ]
check "translate -o names FILE.partial when FILE cannot be replaced" says err 'the first 1 line is in killed.partial'

echo "1..$count"
