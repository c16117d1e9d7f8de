# tfm serve as its clients meet it: LibreTranslate's API and OpenAI's, limits, keys, turns, the end.
#     sh tests/serve/serve.sh PROGRAM SOURCE_ROOT MAKE_DECODER [REQUESTS]
# REQUESTS are malformed ones, 220 if not given. Prints TAP. With TFM_BRIEF=1 what servers are loaded with is shorter.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
make_decoder=$(realpath "$3")
requests=${4:-220}
demo=$root/apps/demo
. "$root/tests/checks.sh"
. "$root/tests/serve/common.sh"

# ask ARGUMENT...: a request by curl; leaves `out`, `head` and the status in $code
ask() {
    code=$(curl -s -g --path-as-is -m 120 -D head -o out -w '%{http_code}' "$@" 2>err)
}
# json PATH JSON
json() {
    ask "$at$1" -H 'Content-Type: application/json' -d "$2"
}
# form ARGUMENT...: to /translate, from German to English
form() {
    ask "$at/translate" -d source=de -d target=en "$@"
}

# ---- What is wrong before it starts
run serve --help
check "its help is all that it says" both 0 says out 'examples:'
check "its help is no mistake" [ ! -s err ]
check "its help fits a terminal" [ "$(wc -L <out)" -lt 80 ]
run serve
check "no model: what to give" one_sentence 2 'which model? give --model'
run serve -m "$demo" -m "$demo"
check "two models of one name" one_sentence 1 'two models are called de-en'
run serve -m x=$demo
check "a translator's name is its languages" one_sentence 1 'its name is two languages, as in de-en='
run serve -m nowhere
check "a model that is not there" one_sentence 1 'nowhere'
run serve -m "$demo" --port 0 -d nowhere
check "a device that is not there" one_sentence 1 'nowhere'
run serve -m "$demo" --port 0 -d 0,nowhere
check "a list with a device that is not there" one_sentence 1 '"nowhere" matches no device'
run serve -m "$demo" --api-key short
check "a short key" one_sentence 1 'give 8 to 255'
run serve -m "$demo" --memory-limit 1
check "a limit that is too small for a model" one_sentence 1 'more than --memory-limit 1'
run serve -m "$demo" --host 256.1.1.1
check "an address that is none" one_sentence 1 '--host 256.1.1.1'

# ---- LibreTranslate's API
start -m "$demo" -m "fr-en=$demo" -m "embedder=$root/tests/golden/embedder" --memory-limit 250 --timeout 600 # also if it is busy
line=$(sed -n 1p "$demo/test.de")
"$tfm" translate -m "$demo" --split <"$demo/test.de" >want
translation=$(sed -n 1p want)
ask "$at/health"
check "health" [ "$code" = 200 -a "$(cat out)" = '{"status":"ok"}' ]
ask "$at/languages"
check "languages and their targets" says out '{"code":"de","name":"German","targets":\["en"\]}'
ask "$at/frontend/settings"
check "settings" says out '"keyRequired":false,"charLimit":50000,'
form -d "q=$line"
check "a form: the translation" [ "$code" = 200 -a "$(cat out)" = "{\"translatedText\":\"$translation\"}" ]
ask "$at/translate" -F "q=$line" -F source=de -F target=en
check "a form of parts: the same" [ "$(cat out)" = "{\"translatedText\":\"$translation\"}" ]
json /translate "{\"q\":\"$line\",\"source\":\"de\",\"target\":\"en\"}"
check "JSON: the same" [ "$code" = 200 -a "$(cat out)" = "{\"translatedText\":\"$translation\"}" ]
json /translate "{\"q\":[\"$line\",\"\",\"Danke.\"],\"source\":\"de\",\"target\":\"en\"}"
check "a list: a list" says out "^{\"translatedText\":\[\"$translation\",\"\",\"Thank"
json /translate "{\"q\":\"$line\",\"source\":\"de\",\"target\":\"en\",\"alternatives\":3}"
check "alternatives" says out '^{"translatedText":"[^"]*","alternatives":\["[^"]*","[^"]*"'
json /translate "{\"q\":\"Danke.\",\"source\":\"de\",\"target\":\"en\",\"alignments\":true}"
check "alignments: tokens and weights" says out '"alignments":\[{"source":\["▁Danke.*"weights":\[\[0\.'
json /translate "{\"q\":\"Danke.\",\"source\":\"de\",\"target\":\"en\",\"alignments\":true,\"head\":99}"
check "a head that the model does not have" [ "$code" = 400 -a -n "$(grep 'the head of alignments is 99' out)" ]
json /translate "{\"q\":\"Danke.\",\"source\":\"de\",\"target\":\"en\",\"api_key\":7}"
check "a key that is no text" [ "$code" = 400 ]
curl -s "$at/translate" --data-urlencode "q@$demo/test.de" -d source=de -d target=en >out
check "lines of a text: those of tfm translate --split" python3 -c 'import json, sys
assert json.load(open("out", encoding="utf-8"))["translatedText"] == open("want", encoding="utf-8").read()'
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do # 500 lines, no two alike
    awk -v n="$i" '{ lines[NR] = $0 } END { for (k = 1; k <= NR; k++) print lines[k] " " lines[(k * 7 + n) % NR + 1] }' "$demo/test.de"
done >lines
load=500 long=500 # lines, of many requests and of one
brief && load=60 long=120
head -n $load lines >load
head -n $long lines >long
"$tfm" translate -m "$demo" --split <long >many
head -n $load many >load.want
# load CONNECTIONS: all of them
load() {
    python3 "$root/tests/serve/load.py" "$port" load --want load.want --connections "$1" >out
}
load 32
check "$load lines over 32 connections: byte for byte tfm translate's" says out "\"lines\": $load,.*\"wrong\": 0"
# detected TEXT: the first language that /detect names, and its confidence
detected() {
    ask "$at/detect" --data-urlencode "q=$1"
    sed 's/^\[{"confidence":\([0-9]*\)[0-9.]*,"language":"\([a-z]*\)"}.*/\2 \1/' out
}
check "/detect names the language of a sentence" [ "$(detected 'Das ist ein ganz gewöhnlicher deutscher Satz.' | cut -d' ' -f1)" = de ]
for text in 'Guten Tag' 'Wo ist Tom?' 'Ich' 'Danke'; do
    check "/detect takes a short text, $text, for the language that is served" [ "$(detected "$text" | cut -d' ' -f1)" = de ]
done
check "/detect knows a language by its script" [ "$(detected Привет | cut -d' ' -f1) $(detected こんにちは)" = 'ru ja 98' ]
for pair in 'tr İstasyon nerede?' 'vi Ga ở đâu?' 'ru Где вокзал?' 'it Ti amo' 'uk Де вокзал?' 'pl Gdzie jest dworzec?' \
    'en Łukasz is here' 'fa صبح بخیر' 'be Добрай раніцы' 'de Das Café ist schön' 'mr तुम्ही कसे आहात?'; do
    check "/detect knows a short text by its letters and frequent words: $pair" [ "$(detected "${pair#* }" | cut -d' ' -f1)" = "${pair%% *}" ]
done
for text in https://example.com/where/is/the/and somebody@example.org 'www.example.org  http://a.example/the'; do
    check "/detect names a served language with confidence 0 for addresses: $text" [ "$(detected "$text")" = 'de 0' ]
done
check "/detect knows a text beside an address" [ "$(detected 'Guten Tag, https://example.com/where/is/the' | cut -d' ' -f1)" = de ]
check "/detect names a served language with confidence 0 where there are no letters" [ "$(detected '12345 !')" = 'de 0' ]
check "/detect knows Italian from English, and is not surer than a short text lets it be" eval \
    "detected 'La tua password non è corretta' | awk '{ exit !(\$1 == \"it\" && \$2 < 90) }'"
ask "$at/translate" -d "q=$line" -d source=auto -d target=en
check "source auto: the translation, and the language that was detected" says out \
    "\"$translation\",\"detectedLanguage\":{\"confidence\":[0-9.]*,\"language\":\"de\"}"
ask "$at/translate" --data-urlencode 'q=La tua password non è corretta' -d source=auto -d target=en
check "source auto: a language that is not served is refused by its name" [ "$code" = 400 -a \
    "$(grep -c 'it is in Italian (it), and en is translated to from de, fr only' out)" = 1 ]
form --data-urlencode 'q=Tout le monde sait comment se suicider.'
check "a text in another language than source says is translated with a warning" [ "$code" = 200 -a \
    "$(grep -c '"warnings":\["the text is in French (fr)' out)" = 1 ]
form --data-urlencode 'q=Ich habe Hunger.'
check "a text in the language that source says has no warning" [ "$(grep -c warnings out)" = 0 ]
ask "$at/translate" --data-urlencode 'q=<p title="where is the and of to">Wo ist <b class="hello my friend">Tom</b>?</p>' \
    -d source=auto -d target=en -d format=html
[ "$code" = 501 ] || check "source auto: HTML is detected by its text, not by its markup" says out '"language":"de"'
form --data-urlencode 'q=<p>Ich habe <b>Hunger</b>.</p><script>x</script><p>Danke.</p>' -d format=html
check "HTML: its marks are around what they were around" says out "<p>I'm <b>hungry</b>.</p><script>x</script><p>Thank"
printf '<p>Ich habe <b>Hunger</b>.</p><script>x</script><p>Danke.</p>' | "$tfm" translate -m "$demo" --format html >want.html
check "HTML: tfm translate --format html gives the same bytes" python3 -c 'import json
assert json.load(open("out", encoding="utf-8"))["translatedText"] == open("want.html", encoding="utf-8").read()'
form --data-urlencode 'q=<div>Nimm <code>x</code><p>Danke.</p></div>' -d format=html
check "HTML: what is kept at the end of a text" says out '^{"translatedText":"<div>[A-Z][^<]*<code>x</code>[^<]*<p>Thank[^<]*</p></div>"}$'
form --data-urlencode 'q=<p><img src=a.png> Guten Morgen</p>' -d format=html
check "HTML: and at its beginning" says out '^{"translatedText":"<p><img src=a.png> Good morning[^<]*</p>"}$'
form --data-urlencode 'q=<!-- c -->Guten Morgen<p>Danke.</p>' -d format=html
check "HTML: a comment, before a paragraph" says out '^{"translatedText":"<!-- c --> *Good morning[^<]*<p>Thank[^<]*</p>"}$'
form --data-urlencode 'q=<p>Danke.<a id=x></a> <a href=y><img src=z></a></p>' -d format=html
check "HTML: elements without text are kept" says out '<p>Thank.*<a id=x></a> <a href=y><img src=z></a></p>'

# ---- Forms
form -d 'q=Ich habe Hunger. 5%'
echo 'Ich habe Hunger. 5%' | "$tfm" translate -m "$demo" --split >percent.want
check "a form: a percent sign that is no escape stays, at the end of a field" [ "$(cat out)" = "{\"translatedText\":\"$(cat percent.want)\"}" ]
cp out percent
ask "$at/translate" -d 'q=Ich habe Hunger. 5%' -d source=de -d target=en
check "a form: before another field" cmp -s out percent
ask "$at/translate" -d source=de -d target=en -d 'q=Ich habe Hunger. 5%25'
check "a form: as its escape" cmp -s out percent
ask "$at/translate" -d source=%zz -d target=en -d q=a
check "a form: with letters that are no hexadecimal digits" [ "$(cat out)" = '{"error":"%zz is not supported"}' ]
ask "$at/translate" -d s%6Furce=de -d target=e%6e -d 'q=Guten+Morgen%2e'
check "a form: escapes in names and values, a plus for a blank" [ "$(cat out)" = '{"translatedText":"Good morning."}' ]

# ---- Placeholders
json /translate '{"q":["Ich bin in ${city}.","Danke.","{{x}}"],"source":"de","target":"en"}'
check "placeholders stay in translations of a list" says out '^{"translatedText":\["I.m in ${city}.","Thank[^"]*","{{x}}"\]}$'
form --data-urlencode 'q=<p>Hallo <b>{{name}}</b>, wo ist <i>{0}</i>?</p>' -d format=html
check "placeholders stay in HTML, in their elements" says out '<b>{{name}}</b>, .*<i>{0}</i>?</p>'
form --data-urlencode 'q=Hallo {{name}}, wo ist {0}?' -d alternatives=2
check "placeholders stay in alternatives" [ "$(grep -o '{{name}}' out | wc -l)" -ge 2 ]

# ---- Framing
python3 "$root/tests/serve/framing.py" "$port" >out
code=$?
check "a request whose end is in doubt is refused at once and its connection closed" both 0 says out '"wrong": 0'

# ---- What is refused
form -d q=
check "no text: LibreTranslate's words" [ "$code" = 400 -a "$(cat out)" = '{"error":"Invalid request: missing q parameter"}' ]
ask "$at/translate" -d q=a -d source=xx -d target=en
check "a language that is not served" [ "$code" = 400 -a "$(cat out)" = '{"error":"xx is not supported"}' ]
ask "$at/translate" -d q=a -d source=en -d target=de
check "a pair that is not served" [ "$code" = 400 ]
form -d q=a -d alternatives=many
check "alternatives that are no number" [ "$code" = 400 ]
ask "$at/translate" -H 'Content-Type: text/plain' -d q=a
check "another type of body" [ "$code" = 415 ]
ask "$at/translate"
check "another method" [ "$code" = 405 -a -n "$(grep -i '^allow: POST' head)" ]
ask "$at/../../etc/passwd"
check "nothing of the host is here" [ "$code" = 404 ]
python3 -c 'print("q=" + "a" * 60000 + "&source=de&target=en")' >large
ask "$at/translate" -d @large
check "too many characters" [ "$code" = 413 ]
python3 -c 'print("q=" + "a" * 900000 + "&source=de&target=en")' >large
ask "$at/translate" -d @large
check "too large a body" [ "$code" = 413 ]
ask "$at/health"
for header in 'cache-control: no-store' 'x-content-type-options: nosniff' 'x-frame-options: DENY' \
    "content-security-policy: default-src 'none'; frame-ancestors 'none'" 'referrer-policy: no-referrer'; do
    check "header: ${header%%:*}" grep -qi "^$header" head
done

# ---- Others
ask "$at/openapi.json"
check "the description is JSON, and has the paths" python3 -c 'import json
assert "/v1/chat/completions" in json.load(open("out"))["paths"]'
ask "$at/"
check "the page" [ "$code" = 200 -a -n "$(grep -i "^content-type: text/html" head)" ]
nonce=$(sed -n 's/.*script-src .nonce-\([0-9a-f]*\).*/\1/p' head)
check "its script has the number that its policy has" grep -q "<script nonce=\"$nonce\"" out
ask "$at/status"
check "status: what the page shows of a model" says out '"name":"de-en","task":"translate","loaded":true,"chat":false}'
ask "$at/"
check "it loads nothing from outside" [ "$(grep -cE '(src|href)="(https?:)?//' out)" = 0 ]
ask "$at/v1/models"
check "OpenAI: models" says out '"id":"embedder"'
"$tfm" embed -m "$root/tests/golden/embedder" >want.json <<END
the cat sits in the garden
END
json /v1/embeddings '{"model":"embedder","input":"the cat sits in the garden"}'
check "OpenAI: the vector is tfm embed's" [ "$(sed 's/.*"embedding":\(\[[^]]*\]\).*/\1/' out)" = "$(cat want.json)" ]
printf 'the cat\n' | "$tfm" embed -m "$root/tests/golden/embedder" --prompt query >want.json
json /v1/embeddings '{"model":"embedder","input":"the cat","prompt_name":"query"}'
check "a prompt of the directory, as tfm embed --prompt" [ "$(sed 's/.*"embedding":\(\[[^]]*\]\).*/\1/' out)" = "$(cat want.json)" ]
prompted=$(sed 's/.*"usage"/"usage"/' out)
json /v1/embeddings '{"model":"embedder","input":"query: a the cat"}'
check "and its tokens are counted" [ "$(sed 's/.*"usage"/"usage"/' out)" = "$prompted" ]
json /v1/embeddings "{\"model\":\"embedder\",\"input\":\"$(printf 'cat %.0s' $(seq 100))\"}"
check "OpenAI: of a text that is cut, the tokens that are read are counted" says out '"usage":{"prompt_tokens":16,'
json /v1/embeddings '{"model":"embedder","input":"the cat","prompt_name":"nobody"}'
check "a prompt that the directory does not have" [ "$code" = 400 -a -n "$(grep "has no prompt 'nobody'" out)" ]
json /v1/embeddings '{"model":"nobody","input":"a"}'
check "OpenAI: an error in its form" [ "$code" = 404 -a -n "$(grep '^{"error":{"message":.*"type":"invalid_request_error"' out)" ]
json /v1/chat/completions '{"model":"de-en","messages":[{"role":"user","content":"a"}]}'
check "OpenAI: a task that a model does not do" [ "$code" = 400 ]
ask "$at/translate" -d "q=$line" -d source=fr -d target=en
check "another model takes the place of one that was used longest ago" [ "$code" = 200 ]
ask "$at/metrics"
check "metrics: answers, models, times" [ -n "$(grep '^tfm_answers_total{class="2xx"} [1-9]' out)" -a \
    -n "$(grep '^tfm_model_loaded{model="fr-en"} 1' out)" -a -n "$(grep '^tfm_request_seconds_bucket{le="+Inf"}' out)" ]
check "metrics: what was dropped for it" [ -n "$(grep '^tfm_model_drops_total [1-9]' out)" -a \
    -n "$(grep '^tfm_model_loaded{model="de-en"} 0' out)" ]
check "metrics: batches hold several lines" awk '/^tfm_lines_total/ { l = $2 } /^tfm_batches_total/ { b = $2 } END { exit l < 1.5 * b }' out

# ---- Texts in several languages
other=$root/tests/golden/untied-gelu-bf16
start -m "$demo" -m "fr-en=$other" --timeout 600
json /translate '{"q":"Bonjour, comment allez-vous ?","source":"fr","target":"en"}'
french=$(sed 's/^{"translatedText":\(".*"\)}$/\1/' out)
for more in '' ',"alternatives":2' ',"alignments":true'; do
    json /translate '{"q":["Guten Morgen.","Bonjour, comment allez-vous ?","","Wo ist Tom?"],"source":"auto","target":"en"'"$more}"
    cp out auto.json
    check "a list${more:+ with}$more: each text is translated by the model of its own language" python3 -c 'import json, sys
found = json.load(open("auto.json"))
assert found["translatedText"] == ["Good morning.", json.loads(sys.argv[1]), "", "Where'"'"'s Tom?"], found
assert [g["language"] for g in found["detectedLanguage"]] == ["de", "fr", "de", "de"], found' "$french"
done
check "alignments of a list are in the order of its texts" python3 -c 'import json
found = ["".join(a["source"]) for a in json.load(open("auto.json"))["alignments"]]
assert "Guten" in found[0] and "Tom" in found[-1] and len(found) == 3, found'
json /translate '{"q":["Guten Morgen.","Ho dimenticato la mia chiave"],"source":"auto","target":"en"}'
check "a list with a text that is not served: which one" [ "$code" = 400 -a -n "$(grep 'text 2: it is in Italian' out)" ]
stop

# ---- Several workers
start -m "$demo" -m "embedder=$root/tests/golden/embedder" --workers 2 --timeout 600 --max-chars 1000000 --max-lines 5000
for connections in 1 32; do
    load "$connections"
    check "two workers, $connections at a time: the same answers" grep -q '"wrong": 0' out
    ask "$at/metrics"
    had=$(sed -n 's/^tfm_model_workers{model="de-en"} //p' out)
    [ "$connections" = 1 ] || check "the second one works where one request does not leave the first idle" [ "$had" = 2 ]
    [ "$connections" = 32 ] || check "the second one is not needed for one at a time" [ "$had" = 1 ]
done
check "the other model is not loaded" grep -q '^tfm_model_workers{model="embedder"} 0' out
curl -s "$at/translate" --data-urlencode "q@long" -d source=de -d target=en >whole &
whole=$!
load 8
check "a long request beside short ones: theirs" grep -q '"wrong": 0' out
wait $whole
check "and its own" [ "$(python3 -c 'import json; print(json.load(open("whole"))["translatedText"], end="")' | cmp - many && echo same)" = same ]
parts=$((long * 2 / 5))
head -n $parts lines >long1
cat long1 long1 long1 >long2
curl -s -m 300 "$at/translate" --data-urlencode "q@long1" -d source=de -d target=en >one.json &
one=$!
sleep 0.05 # the second is at its first batch when the first worker ends, and then nothing else comes
curl -s -m 300 "$at/translate" --data-urlencode "q@long2" -d source=de -d target=en >three.json &
three=$!
wait $one
wait $three
check "two long requests alone: both are answered" python3 -c 'import json, sys
want = "".join(open("many").readlines()[:int(sys.argv[1])])
assert json.load(open("one.json"))["translatedText"] == want
assert json.load(open("three.json"))["translatedText"] == want * 3' $parts
stop
check "two workers end well" [ "$ended" = 0 ]
cp -r "$demo" leaves
start -m leaves --workers 2 --timeout 600
ask "$at/translate" -d "q=$line" -d source=de -d target=en
mv leaves left-behind
load 16
check "a second worker that cannot load: the first does it all" grep -q '"wrong": 0' out
stop
if ! brief; then # all come from one address: as one client does that keeps eight connections busy
    start -m "$demo" --workers 1 --timeout 120 --max-chars 1000000 --max-lines 5000
    load 8
    python3 "$root/tests/serve/load.py" "$port" load --connections 8 --repeat 6 >busy &
    busy=$!
    sleep 0.5
    ask "$at/translate" --data-urlencode "q@load" -d source=de -d target=en -d alternatives=1
    check "a long request of another kind has its turn among short ones" eval "[ $code = 200 ] && kill -0 $busy"
    wait $busy
    check "and they have theirs" grep -q '"wrong": 0' busy
    stop
fi
run serve -m "$demo" --workers 5
check "five workers are refused" one_sentence 2 'give 1 to 4'
run serve -m "$demo" --workers 2 --memory-limit 500
check "several workers and a limit of memory are refused" one_sentence 2 'do not go together'
start -m "$demo" -m "fr-en=$demo" -m "embedder=$root/tests/golden/embedder" --memory-limit 250 --timeout 600

# ---- Clients that leave, and the end
for _ in 1 2 3 4; do
    curl -s -m 0.05 "$at/translate" --data-urlencode "q@long" -d source=de -d target=en >left
done
sleep 0.5
form -d "q=$line"
check "after clients that hung up: the translation" says out "$translation"
curl -s "$at/translate" --data-urlencode "q@long" -d source=de -d target=en >drained &
drained=$!
sleep 0.5
stop
wait $drained
check "SIGTERM: what is here is answered" [ "$(python3 -c 'import json; print(len(json.load(open("drained"))["translatedText"].split("\n")))')" = $((long + 1)) ]
check "and the server ends well" [ "$ended" = 0 ]
check "the log: a line of JSON for each request, without its text" [ -n "$(grep '"path":"/translate","status":200' log)" -a \
    "$(grep -c "Fahrrad" log)" = 0 ]

# ---- Keys and limits
printf '0123456789abcdef\nfedcba9876543210\n' >keys
start -m "$demo" --api-keys keys --max-queue 40 --max-client 30 --timeout 3 --allow-origin https://page.example
for path in /v1/chat/completions /translate; do
    ask "$at$path" -X OPTIONS -H 'Origin: https://page.example' -H 'Access-Control-Request-Method: POST' \
        -H 'Access-Control-Request-Headers: authorization,content-type,x-stainless-os'
    check "a page of another origin may ask, with the headers that clients add: $path" [ "$code" = 204 -a \
        -n "$(grep -i '^Access-Control-Allow-Origin: https://page.example' head)" -a \
        -n "$(grep -i '^Access-Control-Allow-Headers: Authorization, Content-Type, \*' head)" ]
done
json /v1/chat/completions '{}'
check "and reads why it is refused" [ "$code" = 401 -a -n "$(grep -i '^Access-Control-Allow-Origin: https://page.example' head)" ]
form -d "q=$line"
check "no key" [ "$code" = 400 -a "$(cat out)" = '{"error":"Please contact the server operator to get an API key"}' ]
form -d "q=$line" -d api_key=0123456789abcdeX
check "a wrong key" [ "$code" = 403 -a "$(cat out)" = '{"error":"Invalid API key"}' ]
form -d "q=$line" -d api_key=0123456789abcdef
check "a key" [ "$code" = 200 ]
form -d "q=$line" -H 'Authorization: Bearer fedcba9876543210'
check "a key as OpenAI's clients send it" [ "$code" = 200 ]
ask "$at/v1/models"
check "OpenAI: no key" [ "$code" = 401 ]
head -31 lines >some
ask "$at/translate" --data-urlencode "q@some" -d source=de -d target=en -d api_key=0123456789abcdef
check "too many lines of a client: 429, and when to come again" [ "$code" = 429 -a -n "$(grep -i '^retry-after: [1-9]' head)" ]
head -41 lines >some
ask "$at/translate" --data-urlencode "q@some" -d source=de -d target=en -d api_key=0123456789abcdef
check "a full queue: 503, and when to come again" [ "$code" = 503 -a -n "$(grep -i '^retry-after: [1-9]' head)" ]
python3 - "$port" <<'END' >slow
import socket, sys, time
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
said = "held"
try:
    for byte in b"POST /translate HTTP/1.1\r\nHost: x\r\nX: " + 300 * b"x": # a byte every 0.1 s, for half a minute
        s.send(bytes([byte]))
        s.settimeout(0.1)
        try:
            if s.recv(1) == b"":
                said = "closed"
                break
        except TimeoutError:
            pass
except OSError:
    said = "closed"
print(said)
END
check "a client that sends a byte now and then is closed" says slow '^closed$'
start -m "$demo" --api-keys keys --batch-tokens 256 --timeout 600
form -d "q=$line" -d api_key=fedcba9876543210 # it is loaded
head -400 lines >many.de
curl -s "$at/translate" --data-urlencode "q@many.de" -d source=de -d target=en -d api_key=0123456789abcdef >drained &
large=$!
sleep 0.3
form -d "q=$line" -d api_key=fedcba9876543210
check "turns: one line is not held up by another client's hundreds" kill -0 $large
wait $large
check "and these are translated as well" [ "$(python3 -c 'import json; print(len(json.load(open("drained"))["translatedText"].split("\n")))')" = 401 ]
python3 "$root/tests/serve/abuse.py" "$port" "$requests" 0123456789abcdef "$line" "$translation" >out
code=$?
check "$requests malformed requests: the right statuses, and good ones between them" both 0 says out '"wrong": 0'
stop
check "and then the server ends well" [ "$ended" = 0 ]


# ---- What takes too long, what a second signal cuts off, and what the host has wrong
cp -r "$demo" damaged
start -m "$demo" -m fr-en=damaged --timeout 3 --beam 8
: >damaged/model.safetensors
ask "$at/translate" -d q=a -d source=fr -d target=en
check "a damaged model: 500, and not where it is" [ "$code" = 500 -a "$(cat out)" = '{"error":"The model or the device failed"}' ]
check "the log says what it is" grep -q '^tfm: damaged/model.safetensors' log
form --data-urlencode "q@lines"
check "--timeout ends what is worked on: 503" [ "$code" = 503 -a \
    "$(cat out)" = '{"error":"The request took longer than 3 s: try again later"}' ]
form -d q=Danke.
check "and the next request gets its translation" [ "$code" = 200 ]
start -m "$demo" --beam 8
form -d q=Danke. # it is loaded
head -200 lines >many.de
ask "$at/translate" --data-urlencode "q@many.de" -d source=de -d target=en
ask "$at/metrics"
check "no batch is long: by their tokens alone, these lines would be two; others join as some end" awk \
    '/^tfm_lines_total/ { l = $2 } /^tfm_joined_total/ { j = $2 } END { exit !(l > 200 && l - j < 100) }' out
curl -s -w '%{http_code}' "$at/translate" --data-urlencode "q@lines" -d source=de -d target=en >drained &
drained=$!
sleep 0.5
kill "$server"
sleep 0.2
stop
wait $drained
check "a second SIGTERM: what is cut off gets 503" says drained '^{"error":"The server is going down"}503$'
check "and the server ends well" [ "$ended" = 0 ]

# ---- Texts: a small model of random parameters, whose tokens are words
mkdir chatty
"$make_decoder" chatty
python3 "$root/tests/serve/make_words.py" chatty
cp -r chatty other
sed 's/im_start/turn/g' chatty/tokenizer_config.json >other/tokenizer_config.json
mkdir sentences sentences/1_Pooling # sentence-transformers of a language model
cp chatty/* sentences
echo '[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]' >sentences/modules.json
echo '{"word_embedding_dimension": 24, "pooling_mode_lasttoken": true}' >sentences/1_Pooling/config.json
start -m chatty -m other -m sentences --max-new 20
"$tfm" generate -m chatty --max-new 12 "w10 w11 w12" >want
json /v1/completions '{"model":"chatty","prompt":"w10 w11 w12","max_tokens":12,"temperature":0}'
check "OpenAI: a text is tfm generate's" says out "\"text\":\"$(cat want)\",\"logprobs\":null,\"finish_reason\":\"length\""
cp out whole.json
check "and its tokens are counted" says out '"usage":{"prompt_tokens":3,"completion_tokens":12,"total_tokens":15}'
json /v1/completions '{"model":"chatty","prompt":"w10 w11 w12","max_tokens":12,"temperature":0,"stream":true}'
python3 - <<'END' >joined
import json
events = [line[6:] for line in open("out") if line.startswith("data: ")]
assert events[-1].strip() == "[DONE]" and len(events) > 4
print("".join(json.loads(e)["choices"][0]["text"] for e in events[:-1]))
END
check "OpenAI: the pieces of a stream are that text" cmp -s joined want
json /v1/completions '{"model":"chatty","prompt":"w10","max_tokens":8,"seed":7,"n":2}'
cp out drawn
json /v1/completions '{"model":"chatty","prompt":"w10","max_tokens":8,"seed":7,"n":2}'
check "OpenAI: equal seeds draw the same" [ "$(sed 's/.*"choices"/"choices"/' drawn)" = "$(sed 's/.*"choices"/"choices"/' out)" ]
json /v1/chat/completions '{"model":"chatty","messages":[{"role":"user","content":"w20"}],"max_tokens":4,"temperature":0}'
check "OpenAI: a chat" [ "$code" = 200 -a -n "$(grep '"message":{"role":"assistant","content":" *w[0-9]' out)" ]
ask "$at/status"
check "status: which models chat" [ -n "$(grep '"name":"chatty","task":"generate","loaded":true,"chat":true}' out)" -a \
    -n "$(grep '"name":"other","task":"generate","loaded":false,"chat":false}' out)" ]
json /v1/chat/completions '{"model":"other","messages":[{"role":"user","content":"w20"}]}'
check "OpenAI: a template that is not run is refused" [ "$code" = 400 -a -n "$(grep 'not ChatML' out)" ]
json /v1/completions '{"model":"chatty","prompt":"w10","max_tokens":21}'
check "OpenAI: more tokens than --max-new" [ "$code" = 400 ]
json /v1/completions '{"model":"chatty","prompt":"w10","echo":true}'
check "OpenAI: what is not done is refused by its name" [ "$code" = 400 -a -n "$(grep '"message":"Invalid request: echo is not supported.*"param":"echo"' out)" ]
# what clients send that changes nothing, what changes something and is not done, and what nobody knows
for field in '"logit_bias":{}' '"best_of":1' '"response_format":{"type":"text"}' '"tool_choice":"none"' '"max_tokens":4.0' \
    '"seed":4294967295' '"seed":18446744073709551615' '"seed":-7' '"seed":-1' '"stop":null' '"stream":null' '"logprobs":0' \
    '"user":"u"' '"top_k":-1,"temperature":1' '"min_p":0,"temperature":0.5' '"repetition_penalty":1.1' '"min_tokens":2' \
    '"max_tokens":-1' '"n":1.0' '"add_special_tokens":true' '"n_keep":-1' '"logit_bias":{"5":0,"7":0.0}' '"image_data":[]' '"frequency_penalty":0.0' '"metadata":{"a":"b"}' '"repeat_last_n":64' '"mirostat":0'; do
    json /v1/completions "{\"model\":\"chatty\",\"prompt\":\"w10\",\"temperature\":0,\"max_tokens\":3,$field}"
    check "OpenAI: a field that changes nothing or is supported is accepted: $field" [ "$code" = 200 ]
done
for field in '"logit_bias":{"5":1}' '"best_of":2' '"response_format":{"type":"json_object"}' '"frequency_penalty":0.1' \
    '"logprobs":1' '"suffix":"a"' '"ignore_eos":true' '"mirostat":2' '"repeat_penalty":1.1' '"grammar":"a"' '"n_predict":5' \
    '"add_special_tokens":false' '"image_data":[{"data":"a","id":1}]' '"min_tokens":2,"stop":"a"' \
    '"min_tokens":2,"stop_token_ids":[5]' '"max_tokens":4.5' '"seed":"a"' '"top_k":-2' '"min_p":2' '"stop_token_ids":[50]' '"user":7' '"stream":"yes"' '"n":17'; do
    json /v1/completions "{\"model\":\"chatty\",\"prompt\":\"w10\",\"temperature\":0,\"max_tokens\":3,$field}"
    name=$(printf '%s' "$field" | sed 's/^"\([a-z_]*\)".*/\1/')
    check "OpenAI: a value that is not supported is refused by its name: $field" [ "$code" = 400 -a \
        -n "$(grep "\"message\":\"[^\"]*$name.*\"param\":\"$name\"" out)" ]
done
for field in '"max_completion_tokens":-1' '"add_special_tokens":false' '"chat_template_kwargs":{"enable_thinking":false}'; do
    json /v1/chat/completions "{\"model\":\"chatty\",\"messages\":[{\"role\":\"user\",\"content\":\"w20\"}],\"max_tokens\":3,$field}"
    check "OpenAI: a field of chats that changes nothing is accepted: $field" [ "$code" = 200 ]
done
json /v1/completions '{"model":"chatty","prompt":"w10","max_tokens":12,"temperature":0}'
greedy=$(sed 's/.*"choices"/"choices"/' out)
for field in '"temperature":1e-300' '"temperature":1e-40' '"temperature":1e-9' '"top_p":1e-300' '"top_p":0'; do
    json /v1/completions "{\"model\":\"chatty\",\"prompt\":\"w10\",\"max_tokens\":12,\"seed\":3,$field}"
    check "OpenAI: what leaves the likeliest token alone is greedy: $field" [ "$code" = 200 -a "$(sed 's/.*"choices"/"choices"/' out)" = "$greedy" ]
done
for _ in 1 2; do
    json /v1/completions '{"model":"chatty","prompt":"w10","max_tokens":1,"ui_theme":"dark"}'
done
check "OpenAI: an unknown field is accepted" [ "$code" = 200 ]
check "and is named in the log, once" [ "$(grep -c '^tfm: /v1/completions: the field ui_theme is not known and is ignored$' log)" = 1 ]
json /v1/completions '{"model":"chatty","prompt":[10,11.0,12],"max_tokens":12,"temperature":0}'
check "OpenAI: a prompt of token ids" [ "$(sed 's/.*"choices"/"choices"/' out)" = "$(sed 's/.*"choices"/"choices"/' whole.json)" ]
first=$(sed 's/.*"text":" *\(w[0-9]*\) .*/\1/' whole.json)
json /v1/completions "{\"model\":\"chatty\",\"prompt\":\"w10 w11 w12\",\"max_tokens\":12,\"temperature\":0,\"stop_token_ids\":[${first#w}]}"
check "OpenAI: stop_token_ids end a text" says out "\"finish_reason\":\"stop\".*\"completion_tokens\":1,"
json /v1/completions '{"model":"chatty","prompt":[[10],["w11"]]}'
check "OpenAI: a prompt that mixes ids and texts is refused" [ "$code" = 400 ]
json /v1/completions '{"model":"chatty","prompt":[10,50]}'
check "OpenAI: an id that the vocabulary does not have is refused" [ "$code" = 400 -a -n "$(grep '"param":"prompt"' out)" ]
long_prompt=$(printf 'w10 %.0s' $(seq 41))
for stream in true false; do
    json /v1/completions "{\"model\":\"chatty\",\"prompt\":\"$long_prompt\",\"stream\":$stream}"
    check "OpenAI: a prompt that is too long is 400, stream: $stream" [ "$code" = 400 -a \
        -n "$(grep 'maximum context length is 40 tokens.*"param":"prompt","code":"context_length_exceeded"' out)" ]
done
json /v1/chat/completions '{"model":"chatty","messages":[{"role":"user","content":"w20"}],"max_tokens":4,"temperature":0,"stream":true,
    "stream_options":{"include_usage":true}}'
check "OpenAI: a chat's stream begins with the role and ends with the usage" python3 -c 'import json
events = [json.loads(line[6:]) for line in open("out") if line.startswith("data: {")]
assert events[0]["choices"][0]["delta"]["role"] == "assistant" and events[0]["choices"][0]["delta"]["content"] == ""
assert all(e["usage"] is None and "role" not in e["choices"][0]["delta"] for e in events[1:-1])
assert events[-1]["choices"] == [] and events[-1]["usage"]["completion_tokens"] == 4
assert events[-2]["choices"][0]["finish_reason"] == "length"'
ask "$at/v1/models/chatty"
check "OpenAI: one model" [ "$code" = 200 -a -n "$(grep '"id":"chatty","object":"model"' out)" ]
ask "$at/v1/models/nobody"
check "OpenAI: a model that is not there" [ "$code" = 404 ]
printf 'w20 w21\n' | "$tfm" embed -m chatty >want.json
json /v1/embeddings '{"model":"chatty","input":"w20 w21"}'
check "OpenAI: embeddings of a language model are tfm embed's" [ "$(sed 's/.*"embedding":\(\[[^]]*\]\).*/\1/' out)" = "$(cat want.json)" ]
printf 'w20 w21\n' | "$tfm" embed -m sentences >want.json
json /v1/embeddings '{"model":"sentences","input":"w20 w21"}'
check "OpenAI: embeddings of sentence-transformers' directory of a language model" \
    [ "$(sed 's/.*"embedding":\(\[[^]]*\]\).*/\1/' out)" = "$(cat want.json)" ]
json /v1/embeddings '{"model":"chatty","input":"w20","dimensions":24}'
check "OpenAI: the dimensions that embeddings have" [ "$code" = 200 ]
for field in '"dimensions":8' '"embd_normalize":-1' '"normalize":true' '"embed_dtype":"float16"' '"input_type":"query"'; do
    json /v1/embeddings "{\"model\":\"chatty\",\"input\":\"w20\",$field}"
    name=$(printf '%s' "$field" | sed 's/^"\([a-z_]*\)".*/\1/')
    check "OpenAI: other embeddings than the model's are refused: $field" [ "$code" = 400 -a -n "$(grep "\"param\":\"$name\"" out)" ]
done
: >other/model.safetensors # it is not loaded yet
json /v1/completions '{"model":"other","prompt":"w10","stream":true}'
check "OpenAI: a model that does not load is 500, not an event of a stream" [ "$code" = 500 ]
stop
check "and the server ends well" [ "$ended" = 0 ]

# ---- Chats: templates, and the ends of turns
mkdir chats
python3 "$root/tests/serve/make_bytes.py" chats/base
python3 "$root/tests/serve/chats.py" make chats
cd chats
names=$(ls)
cd ..
set --
for name in $names; do
    set -- "$@" -m "chats/$name"
done
start "$@"
python3 "$root/tests/serve/chats.py" test "$port" >tried 2>err
mkdir ends
cp -r chats/base ends/base
python3 "$root/tests/serve/chats.py" ends "$port" ends >>tried 2>>err
start -m ends/string -m ends/content -m ends/map
python3 "$root/tests/serve/chats.py" ended "$port" ends >>tried 2>>err
while read -r line; do
    good=1
    case $line in "ok - "*) good=0 ;; esac
    check "${line#*ok - }" [ $good = 0 ]
done <tried
check "and no chat failed otherwise" [ ! -s err ]
stop
echo '{' >chats/smollm2/tokenizer_config.json
run serve -m chats/smollm2
check "a tokenizer_config.json that is damaged is named, not taken for absent" one_sentence 1 'tokenizer_config.json is not JSON'
echo "1..$count"
