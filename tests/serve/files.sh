# tfm serve: LibreTranslate's /translate_file: formats, downloads, expiry, and rejected files.
#     sh tests/serve/files.sh PROGRAM SOURCE_ROOT
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
. "$root/tests/checks.sh"
. "$root/tests/serve/common.sh"

# file NAME ARGUMENT...: uploads a file; sets $url to the path of its translation, "" if there is none
file() {
    sent=$1
    shift
    ask "$at/translate_file" -F "file=@$sent" -F target=en "$@"
    url=$(sed -n 's,^{"translatedFileUrl":"http://127.0.0.1:'"$port"'\(/[^"]*\)".*,\1,p' out)
}
# rejected CODE ERROR: whether the last answer is this error
rejected() {
    [ "$code" = "$1" ] && [ "$(cat out)" = "{\"error\":\"$2\"}" ]
}
cat >page.html <<'END'
<!-- c --><p title=a>Ich habe <b>Hunger</b>.</p><script>x</script><p>Danke.
END
cat >page.md <<'END'
# Guten Morgen

Ich habe **Hunger**. `code` [Danke](http://a.example).
END
cat >de.po <<'END'
msgid ""
msgstr "Language: en\n"

#: a.c:1
msgid "Guten Morgen."
msgstr ""
END
printf '1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>Guten Morgen.</i>\r\n\r\n2\r\n00:00:03,000 --> 00:00:04,000\r\nDanke.\r\n' >film.srt
printf 'WEBVTT\n\n00:01.000 --> 00:02.000 align:start\nGuten Morgen.\n' >film.vtt
printf 'Guten Morgen. Wo ist Tom?\n\nDanke.\n' >lines.txt
printf '\357\273\277<p>Danke.</p>\n' >marked.htm

# ---- Formats
start -m "$demo" -m "fr-en=$demo" --timeout 600
for pair in html:page.html html:marked.htm markdown:page.md po:de.po srt:film.srt vtt:film.vtt text:lines.txt; do
    format=${pair%%:*}
    name=${pair#*:}
    split=
    [ $format != text ] || split=--split
    # shellcheck disable=SC2086 # words
    if ! "$tfm" translate -m "$demo" --format $format $split -i "$name" -o want 2>err; then
        skip "POST /translate_file of $name gives the file of tfm translate --format $format" "$(cat err)"
        continue
    fi
    file "$name" -F source=de
    ask "$at$url"
    check "POST /translate_file of $name gives the file of tfm translate --format $format" [ "$code:$(cmp out want 2>&1)" = 200: ]
done
check "a translated file is an attachment that no browser renders" [ -n "$(grep -i '^content-disposition: attachment' head)" -a \
    -n "$(grep -i '^content-type: text/plain; charset=utf-8' head)" -a -n "$(grep -i '^x-content-type-options: nosniff' head)" ]
file film.srt -F source=auto
check "POST /translate_file with source auto answers the detected language" says out '"detectedLanguage":{"confidence":[0-9.]*,"language":"de"}'
printf '1\n00:00:01,000 --> 00:00:02,500\nDanke.\n\nseven\n00:00:03,000 --> 00:00:04,000\nDanke.\n' >lost.srt
file lost.srt -F source=de
check "POST /translate_file warns of text outside the cues" says out '"warnings":\["the file: 1 line outside the cues stays untranslated, first line 5: .seven.'
ask "$at/frontend/settings"
check "GET /frontend/settings lists the formats of files" says out '"supportedFilesFormat":\[".txt",".html",".htm",".md",".po",".srt",".vtt"\]'

# ---- Names
file lines.txt -F source=de -F 'file=@lines.txt;filename=../../etc/passwd.txt'
check "the name of a translated file is random" eval 'echo "$url" | grep -qxE "/download_file/[0-9a-f]{32}\.txt"'
first=$url
ask "$at/translate_file" -F 'file=@lines.txt;filename=../../../tmp/x/LINES.TXT' -F target=en -F source=de
url=$(sed -n 's,^{"translatedFileUrl":"http://127.0.0.1:'"$port"'\(/[^"]*\)".*,\1,p' out)
check "no part of a client's path is in the address of its file" eval 'echo "$url" | grep -qxE "/download_file/[0-9a-f]{32}\.txt" && [ "$url" != "$first" ]'
ask "$at/translate_file" -H Host: -F file=@lines.txt -F target=en -F source=de --http1.0
check "a request without a host gets the path of its file" eval 'grep -qE "^{\"translatedFileUrl\":\"/download_file/[0-9a-f]{32}\.txt\"}$" out'
for path in ../../etc/passwd %2e%2e%2fetc%2fpasswd 0123456789abcdef0123456789abcdef.txt "$demo/test.de"; do
    ask "$at/download_file/$path"
    check "GET /download_file answers 404 for a name that it did not give: ${path##*/}" [ "$code" = 404 ]
done

# ---- Rejected files
ask "$at/translate_file" -F source=de -F target=en
check "POST /translate_file rejects a form without a file" rejected 400 'Invalid request: missing file parameter'
ask "$at/translate_file" -F file=text -F source=de -F target=en
check "POST /translate_file rejects a file without a name" rejected 400 'Invalid request: missing file parameter'
file lines.txt
check "POST /translate_file rejects a form without a source" rejected 400 'Invalid request: missing source parameter'
file lines.txt -F source=xx
check "POST /translate_file rejects a language that is not served" rejected 400 'xx is not supported'
: >empty.txt
file empty.txt -F source=de
check "POST /translate_file rejects an empty file" rejected 400 'Invalid request: empty file'
for name in program.exe md .; do
    ask "$at/translate_file" -F "file=@lines.txt;filename=$name" -F source=de -F target=en
    check "POST /translate_file rejects a file of another format: $name" rejected 400 'Invalid request: file format not supported'
done
printf 'word\n' >damaged.po
file damaged.po -F source=de
check "POST /translate_file names the line of a damaged catalog" [ "$code" = 400 -a -n "$(grep 'the file, line 1 is neither a comment nor a string' out)" ]
printf 'a\000b\n' >nul.txt
file nul.txt -F source=de
check "POST /translate_file rejects a NUL byte" rejected 400 'Invalid request: the file has a NUL byte'
printf 'a\377b\n' >latin.txt
file latin.txt -F source=de
check "POST /translate_file rejects a file that is not UTF-8" [ "$code" = 400 ]
awk 'BEGIN { for (i = 0; i < 9000; i++) print "Danke." }' >large.txt
file large.txt -F source=de
check "POST /translate_file answers 413 for too many characters" [ "$code" = 413 ]
check "the log has no message of a file" [ "$(grep -c '^tfm: ' log)" = 1 ]

# ---- Keys and expiry
start -m "$demo" --api-key 0123456789abcdef --file-ttl 3 --timeout 600
file lines.txt -F source=de
check "POST /translate_file without a required key answers 400" rejected 400 'Please contact the server operator to get an API key'
file lines.txt -F source=de -F api_key=0123456789abcdef
ask "$at$url"
check "a file is downloaded without a key" [ "$code" = 200 ]
sleep 4
ask "$at$url"
check "a file is deleted after --file-ttl" rejected 404 'There is no such file, or it has expired'
stop
check "the server exits with 0 after translated files" [ "$ended" = 0 ]

echo "1..$count"
