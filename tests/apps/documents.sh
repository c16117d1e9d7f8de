# tfm translate --format html, markdown, po, srt and vtt.
#     sh tests/apps/documents.sh PROGRAM SOURCE_ROOT
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
demo=$root/apps/demo
. "$root/tests/checks.sh"

translate() {
    run translate -m "$demo" "$@"
}

translate --format pdf </dev/null
check "translate --format with an unknown format is a usage error" one_sentence 2 "pdf"
for option in --scores --json '--n-best 2' '--prefix-file x'; do
    translate --format html $option </dev/null
    check "translate --format html with $option is a usage error" one_sentence 2 '--format html goes without'
done

# ---- HTML
echo '<p>Ich habe <b>Hunger</b>.</p><script>x < y</script><p>Danke.</p>' >in
translate --format html -i in
check "translate --format html keeps tags around the words that they surrounded" both 0 says out "^<p>I'm <b>hungry</b>.</p><script>x < y</script><p>Thank[^<]*</p>$"
echo '<p>Ich habe <b>Hunger</b>.</p>' >in
in_terminal 80 translate -m "$demo" --format html
check "translate --format html leaves no progress line on a terminal" both 0 says screen "^<p>I'm <b>hungry</b>.</p>$"
{
    printf '\357\273\277<!DOCTYPE html>\r\n<html><head><meta charset="utf-8"><title>Guten Morgen.</title></head>\r\n'
    printf '<body><p>Guten Morgen. Danke.</p>\r\n<p translate="no">Danke.</p></body></html>\r\n'
} >in
translate --format html -i in
check "translate --format html translates the title" both 0 says out '<title>Good morning.</title>'
check "translate --format html translates sentence by sentence" says out '<p>Good morning. Thank'
check "translate --format html keeps elements with translate=no" says out '<p translate="no">Danke.</p>'
check "translate --format html keeps a byte order mark and CR LF line ends" python3 -c '
data = open("out", "rb").read()
assert data.startswith(b"\xef\xbb\xbf<!DOCTYPE html>\r\n") and data.count(b"\n") == data.count(b"\r\n") >= 3 and b"&#13;" not in data, data'
for i in 1 2 3 4 5 6 7 8; do
    sed -n "$i"p "$demo/test.de" | sed 's,^\([^ ]*\) \(.*\)$,<p><i>\1</i> \2</p>,'
done >in
translate --format html -i in
cp out want
translate --format html -i in --batch-tokens 16
check "translate --format html in small batches gives the same document" same out want
translate --format html -i in -o file.html
check "translate --format html -o writes the same document" both 0 cmp -s file.html want
translate --format html </dev/null
check "translate --format html of an empty file prints nothing" [ "$code" = 0 -a ! -s out ]
printf '<p>Danke.</p>\n<p>D\377</p>\n' >in
translate --format html -i in
check "translate --format html names a line with invalid UTF-8" one_sentence 1 'in, line 2: byte 5'
printf '<p>Danke.</p>\n<p>%s</p>\n' "$(awk 'BEGIN { for (i = 0; i < 600; i++) printf "Haus " }')" >in
translate --format html -i in
check "translate --format html names a sentence that is too long" one_sentence 1 'in, line 2:'
check "translate --format html keeps a sentence that is too long and translates the others" [ "$(grep -c '^<p>Haus Haus.*Haus *</p>$\|^<p>Thank' out)" = 2 ]
awk 'BEGIN { for (i = 0; i < 3000; i++) printf "<div>"; print "<p>Danke.</p>" }' >in
translate --format html -i in
check "translate --format html translates deeply nested elements" both 0 says out '<div><p>Thank[^<]*</p>$'

# ---- Markdown and catalogs
printf '# Guten Morgen.\n\n> Ich habe\n> **Hunger**.\n\n```\nDanke.\n```\n' >in
translate --format markdown -i in
if says err 'this build has no Markdown'; then
    check "translate --format markdown without md4c is an error" one_sentence 1 'libmd4c-dev'
else
    printf "# Good morning.\n\n> I'm **hungry**.\n\n\`\`\`\nDanke.\n\`\`\`\n" >want
    check "translate --format markdown keeps marks and code" same out want
fi
printf 'msgid "Guten Morgen."\nmsgstr ""\n\nmsgid "Danke."\nmsgstr "Cheers."\n' >in
printf 'msgid "Guten Morgen."\nmsgstr "Good morning."\n\nmsgid "Danke."\nmsgstr "Cheers."\n' >want
translate --format po -i in
check "translate --format po fills empty messages" same out want
printf 'msgid "Danke."\nmsgtsr ""\n' >in
translate --format po -i in
check "translate --format po names a line that is no PO" one_sentence 1 'in, line 2'

# becomes HTML WANT: the translation of a document.
becomes() {
    printf '%s\n' "$1" >in
    translate --format html -i in
    printf '%s\n' "$2" >want
    [ "$code" = 0 ] && cmp -s out want
}
check "html: a <wbr> keeps its paragraph translated" becomes '<p>Guten<wbr> Tag. Wo ist Tom?</p>' "<p>Good<wbr> day. Where's Tom?</p>"
check "html: attributes of any name stay byte for byte" becomes \
    '<p @click="x" :key="i" v-if="a" *ngIf="x" [prop]="y" (click)="z" #ref A=1 A=2>Guten Tag.</p>' \
    '<p @click="x" :key="i" v-if="a" *ngIf="x" [prop]="y" (click)="z" #ref A=1 A=2>Good day.</p>'
check "html: addresses with placeholders, blanks and umlauts stay byte for byte" becomes \
    '<p><a href="{{ url }}">Guten Tag.</a></p><img src="%1$s"><form action=${x}></form><a href="ü.html?q=a b">Guten Tag.</a>' \
    '<p><a href="{{ url }}">Good day.</a></p><img src="%1$s"><form action=${x}></form><a href="ü.html?q=a b">Good day.</a>'
check "html: a CDATA section outside of svg is a comment" becomes '<p>Guten Tag.</p><![CDATA[ Wo ist Tom? ]]><p>Guten Tag.</p>' \
    '<p>Good day.</p><![CDATA[ Wo ist Tom? ]]><p>Good day.</p>'
for element in 'ruby' 'data value="1"' 'output' 'button' 'nobr' 'custom-tag'; do
    check "html: <$element> is part of its sentence" becomes "<p>Ich habe einen <$element>schönen</${element%% *}> Hund.</p>" \
        "<p>I have <$element>a beautiful</${element%% *}> dog.</p>"
done
for atom in '<picture><img src="a"></picture>' '<audio src="a"></audio>' '<canvas></canvas>' '<script>f()</script>' '<kbd>x</kbd>'; do
    check "html: $atom stays between its words" becomes "<p>Ich habe einen $atom Hund.</p>" "<p>I have a $atom dog.</p>"
done
check "html: an image stays glued to its word" becomes '<p>Ich habe einen <img src=a>Hund<img src=b>.</p>' \
    '<p>I have a <img src=a>dog<img src=b>.</p>'
check "html: footnote numbers stay with their sentences" becomes \
    '<p>Ich habe Hunger.<sup class="reference"><a href="#c1">[1]</a></sup> Wo ist Tom?<sup>2</sup></p>' \
    "<p>I'm hungry.<sup class=\"reference\"><a href=\"#c1\">[1]</a></sup> Where's Tom?<sup>2</sup></p>"
check "html: a footnote number before the stop stays there" becomes '<p>Ich habe Hunger<sup><a href="#r1">1</a></sup>. Wo ist Tom?</p>' \
    "<p>I'm hungry<sup><a href=\"#r1\">1</a></sup>. Where's Tom?</p>"
check "html: soft hyphens and zero-width spaces are left out of words" becomes '<p>Wo ist mein Au&shy;to?</p><p>Wo ist mein Au&#8203;to?</p>' \
    "<p>Where's my car?</p><p>Where's my car?</p>"
check "html: a paragraph of a non-breaking space stays" becomes '<p>&nbsp;</p>' '<p>&nbsp;</p>'
check "html: an element with translate=no keeps its place in a sentence" becomes '<p>Guten <span translate="no">Morgen</span>.</p>' \
    '<p>Good <span translate="no">Morgen</span>.</p>'
check "html: translate=yes inside translate=no is translated, and class=notranslate is not" becomes \
    '<div translate="no">Danke<p translate="yes">Guten Tag.</p></div><p class="a notranslate">Guten Tag.</p>' \
    '<div translate="no">Danke<p translate="yes">Good day.</p></div><p class="a notranslate">Guten Tag.</p>'
check "html: template code stays byte for byte, also with < and > in it" becomes \
    '<p><?php if ($x > 3): ?>Guten Morgen.<% y > 3 %> {% if a < b and c > d %}Wo ist Tom?{# > #}</p><i {% if a > b %}x="1"{% endif %} y=<?= $x > 1 ?>>Danke.</i>' \
    "<p><?php if (\$x > 3): ?>Good morning.<% y > 3 %> {% if a < b and c > d %}Where's Tom?{# > #}</p><i {% if a > b %}x=\"1\"{% endif %} y=<?= \$x > 1 ?>>Thanks.</i>"
check "html: a template expression gets no new character references" becomes \
    '<p {{ x > y }}>Ich bin in {{ a && b > c }}.</p><p>Ich bin in <b>{{ a && b }}</b>.</p>' \
    "<p {{ x > y }}>I'm in {{ a && b > c }}.</p><p>I'm in <b>{{ a && b }}</b>.</p>"
echo '<p>Guten Tag. {%</p><p>Wo ist Tom?</p><i>%}</i>' >in
translate --format html -i in
check "html: an opening template mark without its end is text" both 0 says out "</p><p>Where's Tom?</p><i>%}</i>"
check "html: a link of an arrow stays unchanged" becomes '<p><b><a href="#r1">^</a></b> <i>Ich bin hier.</i></p>' \
    '<p><b><a href="#r1">^</a></b> <i>I'"'"'m here.</i></p>'
check "html: a footnote's asterisk and a list number stay unchanged" becomes \
    '<p><i>1.<b>&nbsp; </b></i>Ich bin hier<a href="#n">*</a>.<a href="#r">↩︎</a></p>' \
    '<p><i>1.<b>&nbsp; </b></i>I'"'"'m here<a href="#n">*</a>.<a href="#r">↩︎</a></p>'
check "html: the final punctuation of a label stays inside the label" becomes '<p><label>Wie heißt du?</label> <input><button>Ich gehe</button></p>' \
    "<p><label>What's your name?</label> <input><button>I'm going to go.</button></p>"
check "html: checkboxes are separate sentences" becomes \
    '<p><label><input type="checkbox"> Ich habe Hunger.</label> <label><input type="checkbox"> Wo ist Tom?</label></p>' \
    "<p><label><input type=\"checkbox\"> I'm hungry.</label> <label><input type=\"checkbox\"> Where's Tom?</label></p>"
check "html: items between vertical bars are translated separately" becomes '<p><a href="a">Guten Morgen.</a> | <a href="b">Wo ist Tom?</a> &bull; Ich bin hier.</p>' \
    "<p><a href=\"a\">Good morning.</a> | <a href=\"b\">Where's Tom?</a> &bull; I'm here.</p>"
check "html: sentences separated only by a tag are two sentences" becomes '<p><b>Guten Morgen.</b>Wo ist Tom? Ich bin hier.<i>Danke.</i></p>' \
    "<p><b>Good morning.</b>Where's Tom? I'm here.<i>Thanks.</i></p>"
check "html: code elements between commas stay in order before the full stop" becomes '<p>Ich habe <code>x</code>, <code>y</code> und <code>z</code>.</p>' \
    '<p>I got and I have <code>x</code> <code>y</code> <code>z</code>.</p>'
check "html: the blank before a link with an image stays outside the sentences" becomes \
    '<div><a href="a">Guten Morgen.</a> <a href="b"><img src="a.png"> Wo ist Tom?</a></div>' \
    '<div><a href="a">Good morning.</a> <a href="b"><img src="a.png"> Where'"'"'s Tom?</a></div>'
check "html: lines of <pre> stay separate lines" becomes '<pre>
Guten Tag.
  Wo ist Tom?
</pre>' "<pre>
Good day.
  Where's Tom?
</pre>"

# ---- Subtitles
cue() {
    printf '%s\n%s\n%s\n\n' "$1" "00:00:0$1,000 --> 00:00:0$1,900" "$2"
}
{
    cue 1 'Ich habe
<i>Hunger</i>.'
    cue 2 '- Guten Morgen.
- Danke.'
    cue 3 '{\an8}Guten Morgen.'
    cue 4 ''
    cue 7 'Danke.'
} >in
translate --format srt -i in
check "srt: a sentence over two lines keeps its tag" both 0 says out "<i>hungry</i>"
grep -E '^[0-9]+$|-->' in >want
grep -E '^[0-9]+$|-->' out >left
check "srt: cue numbers and times stay" cmp -s left want
check "srt: the dashes of two speakers stay" [ "$(sed -n '/^2$/,/^3$/p' out | grep -c '^- \(Good morning\|Thank\)')" = 2 ]
check "srt: the position tag of a cue stays" says out '^{\\an8}Good morning'
cp out want
{
    printf '\357\273\277'
    sed 's/$/\r/' in
} >windows
translate --format srt -i windows
{
    printf '\357\273\277'
    sed 's/$/\r/' want
} >expected
check "srt: a byte order mark and CR LF line ends stay" same out expected
check "srt: a valid file gives no warning" [ ! -s err ]
sed 's/00:00:02,000 -->/0:02.5 ->/; s/^7$/seven/' in >odd
translate --format srt -i odd
check "srt: a file with irregular times and cue numbers is translated" both 0 says out '^- Good morning'
check "srt: one warning counts the untranslated lines and shows the first" says err "^tfm: odd: 1 line outside the cues stays untranslated, first line 19: 'seven'$"
check "srt: irregular times and cue numbers are kept" says out '^0:02.5 -> 00:00:02,900$'
translate --format srt -i "$demo/test.de" -o never.srt
check "srt: a file without cues is rejected with an example of times" one_sentence 1 "00:00:01,000 --> 00:00:02,500"
check "srt: a file without cues writes no output file" [ ! -e never.srt ]
printf '\033[31mred\302\233\n' >damaged
translate --format srt -i damaged
check "srt: control characters in an error message are masked" one_sentence 1 "line 1 is '?[31mred?'"
printf '1\n00:00:01,000 --> 00:00:02,000\nGr\374n\n' >latin1
translate --format srt -i latin1
check "srt: a file with invalid UTF-8 is rejected with a hint at iconv" one_sentence 1 'latin1, line 3:'
printf '1\n00:00:01,000 --> 00:00:02,000\nGut.\n' | iconv -f UTF-8 -t UTF-16 >utf16
translate --format srt -i utf16
check "srt: a file in UTF-16 is rejected with the command that converts it" one_sentence 1 'iconv -f UTF-16 -t UTF-8'

# ---- WebVTT
{
    printf 'WEBVTT\n\nSTYLE\n::cue { color: red }\n\nNOTE Guten Morgen.\n\nintro\n00:01.000 --> 00:02.000 align:start\n'
    printf '<v Tom>Guten Morgen.</v>\n\n00:03.000 --> 00:04.000\nIch habe <b>Hunger</b>.\n'
} >in.vtt
for format in vtt srt; do
    translate --format $format -i in.vtt
    check "$format: WebVTT is translated" both 0 says out '^<v Tom>Good morning.</v>$'
    check "$format: WebVTT keeps its markup" says out '<b>hungry</b>'
    grep -v '<' in.vtt >left
    grep -v '<' out >expected
    check "$format: WebVTT keeps its header, comments, styles, identifiers and settings" same left expected
done
printf '1\n00:00:01,000 --> 00:00:02,000\nGuten Morgen.\n' >in
translate --format vtt -i in
check "vtt: a SubRip file is accepted" both 0 says out '^Good morning.$'
translate --format srt -i nowhere.srt
check "srt: an input file that does not exist is named" one_sentence 1 'nowhere.srt'
echo "1..$count"
