# tfm serve: LibreTranslate's API: translation, language detection, HTML, placeholders, forms, and rejected requests.
#     sh tests/serve/libretranslate.sh PROGRAM SOURCE_ROOT
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
. "$root/tests/checks.sh"
. "$root/tests/serve/common.sh"

# ---- Translations
start -m "$demo" -m "fr-en=$demo" --timeout 600 # for a busy machine
"$tfm" translate -m "$demo" --split <"$demo/test.de" >want
translation=$(sed -n 1p want)
ask "$at/health"
check "GET /health answers ok" [ "$code" = 200 -a "$(cat out)" = '{"status":"ok"}' ]
ask "$at/languages"
check "GET /languages lists languages and their targets" says out '{"code":"de","name":"German","targets":\["en"\]}'
ask "$at/frontend/settings"
check "GET /frontend/settings has keyRequired and charLimit" says out '"keyRequired":false,"charLimit":50000,'
form -d "q=$line"
check "POST /translate with a URL-encoded form answers the translation" [ "$code" = 200 -a "$(cat out)" = "{\"translatedText\":\"$translation\"}" ]
ask "$at/translate" -F "q=$line" -F source=de -F target=en
check "POST /translate with a multipart form answers the translation" [ "$(cat out)" = "{\"translatedText\":\"$translation\"}" ]
json /translate "{\"q\":\"$line\",\"source\":\"de\",\"target\":\"en\"}"
check "POST /translate with JSON answers the translation" [ "$code" = 200 -a "$(cat out)" = "{\"translatedText\":\"$translation\"}" ]
json /translate "{\"q\":[\"$line\",\"\",\"Danke.\"],\"source\":\"de\",\"target\":\"en\"}"
check "POST /translate with a list of texts answers a list" says out "^{\"translatedText\":\[\"$translation\",\"\",\"Thank"
json /translate "{\"q\":\"$line\",\"source\":\"de\",\"target\":\"en\",\"alternatives\":3}"
check "POST /translate with alternatives answers alternatives" says out '^{"translatedText":"[^"]*","alternatives":\["[^"]*","[^"]*"'
json /translate "{\"q\":\"Danke.\",\"source\":\"de\",\"target\":\"en\",\"alignments\":true}"
check "POST /translate with alignments answers tokens and weights" says out '"alignments":\[{"source":\["▁Danke.*"weights":\[\[0\.'
json /translate "{\"q\":\"Danke.\",\"source\":\"de\",\"target\":\"en\",\"alignments\":true,\"head\":99}"
check "POST /translate rejects an alignment head that the model does not have" [ "$code" = 400 -a -n "$(grep 'the head of alignments is 99' out)" ]
json /translate "{\"q\":\"Danke.\",\"source\":\"de\",\"target\":\"en\",\"api_key\":7}"
check "POST /translate rejects an api_key that is not a string" [ "$code" = 400 ]
curl -s "$at/translate" --data-urlencode "q@$demo/test.de" -d source=de -d target=en >out
check "POST /translate of several lines equals tfm translate --split" python3 -c 'import json, sys
assert json.load(open("out", encoding="utf-8"))["translatedText"] == open("want", encoding="utf-8").read()'

# ---- Language detection
# detected TEXT: the first language that /detect names, and its confidence
detected() {
    ask "$at/detect" --data-urlencode "q=$1"
    sed 's/^\[{"confidence":\([0-9]*\)[0-9.]*,"language":"\([a-z]*\)"}.*/\2 \1/' out
}
check "POST /detect names the language of a sentence" [ "$(detected 'Das ist ein ganz gewöhnlicher deutscher Satz.' | cut -d' ' -f1)" = de ]
for text in 'Guten Tag' 'Wo ist Tom?' 'Ich' 'Danke'; do
    check "POST /detect prefers the served language for a short text: $text" [ "$(detected "$text" | cut -d' ' -f1)" = de ]
done
check "POST /detect recognizes a language by its script" [ "$(detected Привет | cut -d' ' -f1) $(detected こんにちは)" = 'ru ja 98' ]
for pair in 'tr İstasyon nerede?' 'vi Ga ở đâu?' 'ru Где вокзал?' 'it Ti amo' 'uk Де вокзал?' 'pl Gdzie jest dworzec?' \
    'en Łukasz is here' 'fa صبح بخیر' 'be Добрай раніцы' 'de Das Café ist schön' 'mr तुम्ही कसे आहात?'; do
    check "POST /detect recognizes a short text by its letters and frequent words: $pair" [ "$(detected "${pair#* }" | cut -d' ' -f1)" = "${pair%% *}" ]
done
for text in https://example.com/where/is/the/and somebody@example.org 'www.example.org  http://a.example/the'; do
    check "POST /detect has confidence 0 for URLs and mail addresses only: $text" [ "$(detected "$text")" = 'de 0' ]
done
json /detect '{"q":["ja","Bonjour mon ami, comment allez-vous?"]}'
check "POST /detect of a list regards all of its texts" says out '^\[{"confidence":[0-9.]*,"language":"fr"}'
check "POST /detect recognizes a text next to a URL" [ "$(detected 'Guten Tag, https://example.com/where/is/the' | cut -d' ' -f1)" = de ]
check "POST /detect has confidence 0 for a text without letters" [ "$(detected '12345 !')" = 'de 0' ]
check "POST /detect tells Italian from English with a confidence below 90 for a short text" eval \
    "detected 'La tua password non è corretta' | awk '{ exit !(\$1 == \"it\" && \$2 < 90) }'"
ask "$at/translate" -d "q=$line" -d source=auto -d target=en
check "POST /translate with source auto answers the translation and the detected language" says out \
    "\"$translation\",\"detectedLanguage\":{\"confidence\":[0-9.]*,\"language\":\"de\"}"
ask "$at/translate" --data-urlencode 'q=La tua password non è corretta' -d source=auto -d target=en
check "POST /translate with source auto names a detected language that is not served" [ "$code" = 400 -a \
    "$(grep -c 'it is in Italian (it), and en is translated to from de, fr only' out)" = 1 ]
json /translate '{"q":["Wo ist der Bahnhof?","Where is the station that you have seen?"],"source":"auto","target":"en"}'
check "POST /translate with source auto keeps a text in the target language" [ "$code" = 200 -a \
    "$(grep -c '","Where is the station that you have seen?"\],.*"language":"de"},{.*"language":"en"}' out)" = 1 ]
ask "$at/translate" --data-urlencode 'q=Where is the station that you have seen?' -d source=auto -d target=en
check "and a single one of a form" says out '^{"translatedText":"Where is the station that you have seen?","detectedLanguage"'
form --data-urlencode 'q=Tout le monde sait comment se suicider.'
check "a text in another language than source is translated with a warning" [ "$code" = 200 -a \
    "$(grep -c '"warnings":\["the text is in French (fr)' out)" = 1 ]
form --data-urlencode 'q=Ich habe Hunger.'
check "a text in the language of source has no warning" [ "$(grep -c warnings out)" = 0 ]
ask "$at/translate" --data-urlencode 'q=<p title="where is the and of to">Wo ist <b class="hello my friend">Tom</b>?</p>' \
    -d source=auto -d target=en -d format=html
[ "$code" = 501 ] || check "POST /translate with source auto detects the language of HTML from its text, not its markup" says out '"language":"de"'
form --data-urlencode 'q=<p>Ich habe <b>Hunger</b>.</p><script>x</script><p>Danke.</p>' -d format=html
check "POST /translate with format html keeps tags around the words that they surrounded" says out "<p>I'm <b>hungry</b>.</p><script>x</script><p>Thank"
printf '<p>Ich habe <b>Hunger</b>.</p><script>x</script><p>Danke.</p>' | "$tfm" translate -m "$demo" --format html >want.html
check "POST /translate with format html equals tfm translate --format html" python3 -c 'import json
assert json.load(open("out", encoding="utf-8"))["translatedText"] == open("want.html", encoding="utf-8").read()'
form --data-urlencode 'q=<div>Nimm <code>x</code><p>Danke.</p></div>' -d format=html
check "POST /translate with format html keeps an untranslated element at the end of a text" says out '^{"translatedText":"<div>[A-Z][^<]*<code>x</code>[^<]*<p>Thank[^<]*</p></div>"}$'
form --data-urlencode 'q=<p><img src=a.png> Guten Morgen</p>' -d format=html
check "POST /translate with format html keeps an untranslated element at the beginning of a text" says out '^{"translatedText":"<p><img src=a.png> Good morning[^<]*</p>"}$'
form --data-urlencode 'q=<!-- c -->Guten Morgen<p>Danke.</p>' -d format=html
check "POST /translate with format html keeps a comment before a paragraph" says out '^{"translatedText":"<!-- c --> *Good morning[^<]*<p>Thank[^<]*</p>"}$'
form --data-urlencode 'q=<p>Danke.<a id=x></a> <a href=y><img src=z></a></p>' -d format=html
check "POST /translate with format html keeps elements without text" says out '<p>Thank.*<a id=x></a> <a href=y><img src=z></a></p>'

# ---- Forms
form -d 'q=Ich habe Hunger. 5%'
echo 'Ich habe Hunger. 5%' | "$tfm" translate -m "$demo" --split >percent.want
check "an incomplete percent escape at the end of the last form field stays" [ "$(cat out)" = "{\"translatedText\":\"$(cat percent.want)\"}" ]
cp out percent
ask "$at/translate" -d 'q=Ich habe Hunger. 5%' -d source=de -d target=en
check "an incomplete percent escape at the end of another form field stays" cmp -s out percent
ask "$at/translate" -d source=de -d target=en -d 'q=Ich habe Hunger. 5%25'
check "a percent sign is decoded from its escape in a form" cmp -s out percent
ask "$at/translate" -d source=%zz -d target=en -d q=a
check "a percent sign before non-hexadecimal letters stays in a form" [ "$(cat out)" = '{"error":"%zz is not supported"}' ]
ask "$at/translate" -d s%6Furce=de -d target=e%6e -d 'q=Guten+Morgen%2e'
check "escapes in form names and values are decoded, and plus is a blank" [ "$(cat out)" = '{"translatedText":"Good morning."}' ]

# ---- Placeholders
json /translate '{"q":["Ich bin in ${city}.","Danke.","{{x}}"],"source":"de","target":"en"}'
check "POST /translate keeps placeholders in the translations of a list" says out '^{"translatedText":\["I.m in ${city}.","Thank[^"]*","{{x}}"\]}$'
form --data-urlencode 'q=<p>Hallo <b>{{name}}</b>, wo ist <i>{0}</i>?</p>' -d format=html
check "POST /translate keeps placeholders in their elements of HTML" says out '<b>{{name}}</b>, .*<i>{0}</i>?</p>'
form --data-urlencode 'q=Hallo {{name}}, wo ist {0}?' -d alternatives=2
check "POST /translate keeps placeholders in alternatives" [ "$(grep -o '{{name}}' out | wc -l)" -ge 2 ]

# ---- Framing
python3 "$root/tests/serve/framing.py" "$port" >out
code=$?
check "a request with ambiguous framing is rejected at once and its connection closed" both 0 says out '"wrong": 0'

# ---- Rejected requests
form -d q=
check "POST /translate without a text answers LibreTranslate's error" [ "$code" = 400 -a "$(cat out)" = '{"error":"Invalid request: missing q parameter"}' ]
ask "$at/translate" -d q=a -d source=xx -d target=en
check "POST /translate rejects a language that is not served" [ "$code" = 400 -a "$(cat out)" = '{"error":"xx is not supported"}' ]
ask "$at/translate" -d q=a -d source=en -d target=de
check "POST /translate rejects a language pair that is not served" [ "$code" = 400 ]
form -d q=a -d alternatives=many
check "POST /translate rejects alternatives that are not a number" [ "$code" = 400 ]
ask "$at/translate" -H 'Content-Type: text/plain' -d q=a
check "POST /translate answers 415 for an unsupported content type" [ "$code" = 415 ]
ask "$at/translate"
check "GET /translate answers 405 with the header Allow" [ "$code" = 405 -a -n "$(grep -i '^allow: POST' head)" ]
ask "$at/../../etc/passwd"
check "a path outside the server's tree answers 404" [ "$code" = 404 ]
python3 -c 'print("q=" + "a" * 60000 + "&source=de&target=en")' >large
ask "$at/translate" -d @large
check "POST /translate answers 413 for too many characters" [ "$code" = 413 ]
python3 -c 'print("q=" + "a" * 900000 + "&source=de&target=en")' >large
ask "$at/translate" -d @large
check "POST /translate answers 413 for a body that is too large" [ "$code" = 413 ]

# ---- Texts in several languages
other=$root/tests/golden/untied-gelu-bf16
start -m "$demo" -m "fr-en=$other" --timeout 600
json /translate '{"q":"Bonjour, comment allez-vous ?","source":"fr","target":"en"}'
french=$(sed 's/^{"translatedText":\(".*"\)}$/\1/' out)
for more in '' ',"alternatives":2' ',"alignments":true'; do
    json /translate '{"q":["Guten Morgen.","Bonjour, comment allez-vous ?","","Wo ist Tom?"],"source":"auto","target":"en"'"$more}"
    cp out auto.json
    check "POST /translate with source auto of a list${more:+ with}$more uses the model of each text's language" python3 -c 'import json, sys
found = json.load(open("auto.json"))
assert found["translatedText"] == ["Good morning.", json.loads(sys.argv[1]), "", "Where'"'"'s Tom?"], found
assert [g["language"] for g in found["detectedLanguage"]] == ["de", "fr", "de", "de"], found' "$french"
done
check "alignments of a list are in the order of its texts" python3 -c 'import json
found = ["".join(a["source"]) for a in json.load(open("auto.json"))["alignments"]]
assert "Guten" in found[0] and "Tom" in found[-1] and len(found) == 3, found'
json /translate '{"q":["Guten Morgen.","Ho dimenticato la mia chiave"],"source":"auto","target":"en"}'
check "POST /translate with source auto of a list names the text in a language that is not served" [ "$code" = 400 -a -n "$(grep 'text 2: it is in Italian' out)" ]
stop

echo "1..$count"
