# tfm serve: metrics of each model.
#     sh tests/serve/metrics.sh PROGRAM SOURCE_ROOT MAKE_DECODER
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
make_decoder=$(realpath "$3")
. "$root/tests/checks.sh"
. "$root/tests/serve/common.sh"

cat >metrics.py <<'END'
import re
import sys
values, types = {}, {}
for line in open("out", encoding="utf-8"):
    if line.startswith("# TYPE "):
        _, _, name, kind = line.split()
        assert name not in types, "a second TYPE of " + name
        types[name] = kind
    elif not line.startswith("#"):
        found = re.fullmatch(r'(tfm_[a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)+)\})? ([-+.e0-9]+)\n', line)
        assert found, line
        key = found[1] + ("{%s}" % found[2] if found[2] else "")
        assert key not in values, "twice: " + key
        values[key] = float(found[3])


def value(name, model, more=""):
    return values['tfm_%s{model="%s"%s}' % (name, model, more)]


def count(name, model):
    """The number of observations of a histogram, of which the buckets must be cumulative."""
    of = [v for k, v in values.items() if k.startswith('tfm_%s_bucket{model="%s",le=' % (name, model))]
    assert len(of) == 15 and of == sorted(of) and of[-1] == value(name + "_count", model), of
    assert types["tfm_" + name] == "histogram" and (value(name + "_sum", model) > 0) == (of[-1] > 0)
    return of[-1]


exec(sys.argv[1])
END
# metric NAME PYTHON: a check of the metrics in `out`
metric() {
    check "$1" python3 metrics.py "$2"
}
mkdir chatty
"$make_decoder" chatty
python3 "$root/tests/serve/make_words.py" chatty
cp -r chatty 'a"b\c'

start -m "$demo" -m "fr-en=$demo" -m chatty -m 'a"b\c' --workers 1 --timeout 600
ask "$at/metrics"
metric "metrics of a model that has not been used are 0" 'assert value("target_tokens_total", "de-en") == 0 and value("decode_steps_total", "chatty") == 0'
metric "a model name is escaped in labels" 'assert value("queue_lines", r"a\"b\\c") == 0'
form -d "q=$line"
ask "$at/metrics"
metric "tokens are counted for the model that translated" 'assert value("source_tokens_total", "de-en") > 4 and value("target_tokens_total", "de-en") > 4 and value("target_tokens_total", "fr-en") == 0'
prompt=$(seq -s ' ' -f 'w%g' 10 25)
for _ in 1 2; do
    json /v1/completions "{\"model\":\"chatty\",\"prompt\":\"$prompt\",\"max_tokens\":8,\"min_tokens\":8,\"n\":2,\"seed\":1}"
done
ask "$at/metrics"
metric "time to first token has an observation for each text" 'assert count("time_to_first_token_seconds", "chatty") == 4'
metric "inter-token latency has an observation for each further token" 'assert count("inter_token_latency_seconds", "chatty") == 4 * 7'
metric "prompt and completion tokens of a language model are counted" 'assert value("source_tokens_total", "chatty") == 2 * 16 and value("target_tokens_total", "chatty") == 4 * 8'
metric "prompt tokens in the KV cache are counted" 'assert 0 < value("cached_tokens_total", "chatty") < 16'
metric "two texts of a request share decoding steps" 'assert 4 * 7 <= value("decode_step_texts_total", "chatty") <= 4 * 8 and 14 <= value("decode_steps_total", "chatty") <= 18'
repeats='"model":"chatty","prompt":"w10 w11","max_tokens":30,"temperature":0,"logit_bias":{"17":100}'
json /v1/completions "{$repeats}"
ask "$at/metrics"
metric "a request without prompt_lookup_num_tokens has no drafts" 'assert value("spec_decode_num_draft_tokens_total", "chatty") == 0'
cp out before
json /v1/completions "{$repeats}"
sed 's/.*"choices"/"choices"/; s/"prompt_tokens_details.*//' out >plain
json /v1/completions "{$repeats,\"prompt_lookup_num_tokens\":3}"
check "a completion with prompt_lookup_num_tokens has the same text" [ "$(sed 's/.*"choices"/"choices"/; s/"prompt_tokens_details.*//' out)" = "$(cat plain)" ]
json /v1/completions "{$repeats,\"prompt_lookup_num_tokens\":16}"
check "prompt_lookup_num_tokens above 15 is 400 and named" [ "$code" = 400 -a -n "$(grep '"param":"prompt_lookup_num_tokens"' out)" ]
ask "$at/metrics"
metric "draft tokens, and accepted ones, are counted" 'drafts, accepted = (value("spec_decode_num_%s_tokens_total" % of, "chatty") for of in ("draft", "accepted"))
assert 12 <= accepted <= drafts <= 30, (accepted, drafts)'
metric "drafts do not count as texts of a decoding step" 'before = [float(line.rpartition(" ")[2]) for line in open("before") if "decode_step_texts_total{model=\"chatty" in line]
assert 29 + 9 <= value("decode_step_texts_total", "chatty") - before[0] <= 30 + 18'
metric "translations have no latency of tokens" 'assert not any("first_token" in k and "de-en" in k for k in values)'

# ---- Waiting lines
for _ in $(seq 24); do
    tr '\n' ' ' <"$demo/test.de"
done >long.de
curl -s "$at/translate" --data-urlencode "q@long.de" -d source=de -d target=en >long &
long=$!
sleep 0.5 # it runs
curl -s "$at/translate" -d 'q=Ja. Nein. Danke.' -d source=fr -d target=en -d alternatives=1 >short & # of another model
short=$!
for _ in $(seq 100); do
    ask "$at/metrics"
    grep -q '^tfm_queue_lines{model="fr-en"} 3' out && break
    sleep 0.02
done
metric "waiting sentences are counted for their model" 'assert value("queue_lines", "fr-en") == 3 and value("queue_lines", "de-en") == 0'
wait $long $short
ask "$at/metrics"
metric "no line waits after all answers" 'assert value("queue_lines", "fr-en") == 0'
stop

echo "1..$count"
