# The command line's behaviour, as a stranger meets it: output, exit codes, bad input, pipes, disks, caches.
#     sh tests/apps/cli.sh PROGRAM SOURCE_ROOT PROGRAM_WITHOUT_PICTURES
# Prints TAP. With TFM_BRIEF=1 fewer variants are timed, and tests/apps/device_report.sh alone has the self-test.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
plain=$(realpath "$3")
demo=$root/apps/demo
. "$root/tests/checks.sh"
export TFM_CACHE_DIR="$here/cache" # cold

translate() {
    run translate -m "$demo" "$@"
}

# close_to FILE FILE COLUMN: a column of the first, the first of the second.
close_to() {
    cut -f"$3" "$1" >left
    cut -f1 "$2" | paste left - | awk '{ d = $1 - $2; if (d < -1e-3 || d > 1e-3) bad = 1 } END { exit bad || NR == 0 }'
}

# A sentence, and what the original framework makes of it; with blanks as pieces have them.
german=$(sed -n 6p "$demo/test.de")
english=$(sed -n 6p "$demo/beam4.en")
pieces() {
    echo "▁$1" | sed 's/ /▁/g'
}
# The demo's sizes, as its files say them.
eval "$(python3 - "$demo" <<'END'
import json, math, struct, sys
config = json.load(open(sys.argv[1] + "/config.json"))
for name in ("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"):
    print(f"{name}={config[name]}")
with open(sys.argv[1] + "/model.safetensors", "rb") as file:
    tensors = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
fixed = ("__metadata__", "final_logits_bias", "model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
print("parameters=%d" % sum(math.prod(t["shape"]) for name, t in tensors.items() if name not in fixed))
END
)"

# ---- Usage
run --version
check "version" both 0 says out '^tfm [0-9]'
run --help
check "help" both 0 says out 'translate'
run help --help
check "help of help" both 0 says out 'translate'
for command in devices selftest info train translate score eval attend bench quantize tune report completion generate embed kernels; do
    run $command --help
    check "$command --help has examples" both 0 says out 'examples:'
    check "$command --help fits a terminal" [ "$(wc -L <out)" -lt 80 ]
done
run
check "no command is a usage error" both 2 says err 'usage:'
run frobnicate
check "an unknown command is one" one_sentence 2 "'frobnicate'"
run --frobnicate
check "an option that is before any command is one" one_sentence 2 'no option --frobnicate'
run --versoin
check "and what it may mean is said" one_sentence 2 'did you mean --version'
translate --frobnicate
check "an unknown option is one" one_sentence 2 '--frobnicate'
translate -q
check "an unknown letter is one" one_sentence 2 '-q'
run devices --json=yes
check "a value where none goes is one" one_sentence 2 'takes no value'
run translate -m
check "a missing value is one" one_sentence 2 '-m needs a value'
run translate
check "a missing model is one" one_sentence 2 '-m DIR'
for value in 0 -1 4x '' 99999999999; do
    translate --beam "$value"
    check "--beam '$value' is one" one_sentence 2 "'$value'"
done
translate --alpha nan
check "--alpha nan is one" one_sentence 2 "'nan'"
translate --length-penalty long
check "an unknown penalty is one" one_sentence 2 'paper|hf'
translate --beam 2 --n-best 3
check "more hypotheses than beams is one" one_sentence 2 '--n-best is 3'
translate -n 5
check "more than the model's own beam is one" one_sentence 2 'give --beam 5'
translate --language de
check "--language without --split is one" one_sentence 2 '--language is for --split'
translate stray
check "a stray operand is one" one_sentence 2 "'stray'"
translate --precision fp8 </dev/null
check "a precision that is not there" one_sentence 2 'fp8'

# ---- Translations
translate --beam 1 -i "$demo/test.de"
check "greedy as the original framework" same out "$demo/greedy.en"
translate --beam 4 --alpha 0.6 -i "$demo/test.de"
check "beam 4 as the original framework" same out "$demo/beam4.en"
translate --beam 4 --alpha 0.6 --scores <"$demo/test.de"
check "scores as the original framework's" close_to out "$demo/beam4.scores" 2
check "scores come after a tab" [ "$(cut -f1 out | cmp - "$demo/beam4.en" && echo same)" = same ]
translate --batch-tokens 16 --stats <"$demo/test.de"
check "small batches, the same text" same out "$demo/beam4.en"
check "stats are the last line" [ "$(tail -n 1 err | sed 's/:[0-9.]*/:N/g')" = \
    'stats {"sentences":N,"source_tokens":N,"target_tokens":N,"load_seconds":N,"build_seconds":N,"seconds":N,"sentences_per_s":N,"tokens_per_s":N}' ]
check "stats count" says err '"sentences":20,'
translate --beam 4 --n-best 3 <"$demo/test.de"
check "n-best: three a line" [ "$(grep -cE '^[0-9]+ \|\|\| .* \|\|\| -?[0-9.]+$' out)" = 60 ]
check "n-best: from 0 to 19" [ "$(head -n 1 out | cut -d' ' -f1) $(tail -n 1 out | cut -d' ' -f1)" = "0 19" ]
sed -n '1~3s/^[0-9]* ||| \(.*\) ||| .*$/\1/p' out >best
check "n-best: the best first" cmp -s best "$demo/beam4.en"
head -n 2 "$demo/test.de" >two.de
printf 'The\n\n' >two.prefix
translate --prefix-file two.prefix -i two.de
check "a forced beginning" both 0 says out '^The'
check "none where its line is empty" [ "$(sed -n 2p out)" = "$(sed -n 2p "$demo/beam4.en")" ]
translate --prefix-file two.prefix -i "$demo/test.de"
check "too few prefixes" one_sentence 1 'two.prefix has 2 lines'
translate -i two.de
cp out plain
printf '\n\n\n' >three.prefix
translate --prefix-file three.prefix -i two.de -o result
check "too many prefixes" one_sentence 1 'three.prefix has 3 lines, two.de 2'
check "too many prefixes: the translations are there" cmp -s result plain
rm -f result
{ yes 'I do not know' | head -n 40 | tr '\n' ' ' && echo && echo The; } >long.prefix
translate --prefix-file long.prefix -i two.de
check "a beginning that does not fit is rejected" both 1 says err 'line 1: its prefix: it has [0-9]* tokens and its translation may have '
check "its line is empty, and the rest goes on" [ "$(sed -n 1p out)$(sed -n 2p out | cut -c1-3)" = The ]
translate --prefix-file - <two.de
check "lines and beginnings from one input" one_sentence 2 'only one of the files can be standard input'

# Directories as others make them: <unk> banned; padding that is what ends a sentence.
cp -r "$demo" unknown && sed 's/5000 *$/1/' "$demo/generation_config.json" >unknown/generation_config.json
printf '☃ I\n\n' >two.prefix
run translate -m unknown --prefix-file two.prefix -i two.de
check "a beginning that the model never writes" both 1 says err 'line 1: its prefix: it holds token 1, which this model never writes'
check "the others go on" [ "$(sed -n 2p out)" = "$(sed -n 2p "$demo/beam4.en")" ]
printf 'Guten Morgen.\n' >one.de
printf 'Good morning ☃.\n' >one.en
run score -m "$demo" --src one.de --tgt one.en
cp out plain
run score -m unknown --src one.de --tgt one.en
check "what search never writes is scored all the same" same out plain
cp -r "$demo" padless && python3 - padless <<'END'
import json, sys
for name in "config.json", "generation_config.json", "vocab.json":
    path = sys.argv[1] + "/" + name
    values = json.load(open(path))
    values.pop("<pad>", None)
    values.pop("bad_words_ids", None)
    if name != "vocab.json":
        values["pad_token_id"] = values["eos_token_id"]
    json.dump(values, open(path, "w"))
END
run translate -m padless -i two.de
head -n 2 "$demo/beam4.en" >want
check "padding that is the end" same out want
translate --length-penalty hf --alpha 1 --scores -i two.de
check "the penalty of Hugging Face" both 0 says out '	-0\.'
translate --max-length 2 -i two.de
check "a maximum length" [ "$(wc -w <out)" -le 4 ]

# ---- Placeholders
printf '%s\n' 'Hallo %1$s, guten Morgen!' 'Ich bin in ${city}.' 'Danke.' '%s: %d' 'Sie haben %d neue Nachrichten 😀.' >placed
translate -i placed
check "placeholders are in their translations" eval '[ "$(cut -d, -f1 out | head -1)" = "Hello %1\$s" ] &&
    [ "$(sed -n 2p out)" = "I'"'"'m in \${city}." ] && sed -n 5p out | grep -q " %d .* 😀"'
check "a line of placeholders alone is copied" [ "$(sed -n 4p out)" = '%s: %d' ]
translate --n-best 2 -i placed
check "placeholders are in all of the n best" [ "$(grep -c '[{]city}' out) $(grep -c '%1.s' out)" = '2 2' ]
translate --json --alignments -i placed
check "a placeholder is a token that is aligned with itself" python3 -c 'import json
found = json.loads(open("out").readlines()[1])
row = [t["piece"] for t in found["tokens"]].index("▁${city}")
assert found["tokens"][row]["id"] == -1
assert found["alignment"][row] == [float(s["piece"] == "▁${city}") if isinstance(s, dict) else float(s == "▁${city}") for s in found["source"]]'
echo 'Ich bin in ACME.' | "$tfm" translate -m "$demo" --keep 'AC\w+' --keep b+ >out 2>err
check "--keep adds patterns" grep -q ' ACME\.$' out
translate --no-keep -i placed
check "--no-keep gives them to the model" [ "$(grep -c '[{]city}' out)" = 0 ]
translate --keep '(' -i placed
check "a pattern that is no regular expression" one_sentence 1 'missing closing parenthesis'
translate --keep 'x*' -i placed
check "a pattern that matches nothing at all" one_sentence 1 'matches the empty text'
printf '%s\n' "$german" >lines
translate -i lines
cp out with
translate --no-keep -i lines
check "lines without placeholders are translated as without --keep" cmp -s out with

# ---- Lines
printf '%s\n\n%s' "$german" "$german" >lines
translate -i lines
printf '%s\n\n%s\n' "$english" "$english" >want
check "an empty line, a last line without an end" same out want
printf '\357\273\277%s\r\n\r\n%s\r\n' "$german" "$german" >lines
translate -i lines
check "a byte order mark and CR LF" same out want
printf '%s\r\n\r\n%s\r' "$german" "$german" >lines
translate -i lines
check "a last CR without LF" same out want
printf '%s\n \t\n\n' "$german" >lines
translate --scores -i lines
check "an empty line has no score, nor has one of blanks" [ "$(sed -n '2,$p' out | wc -c)" = 2 ]
printf '%s\n\343\200\200\n%s\n' "$german" "$german" >lines
translate --n-best 2 -i lines
check "nor has one of other blanks" [ "$(sed -n 3p out)" = "1 |||  ||| " -a "$(wc -l <out)" = 5 ]
printf '' >lines
translate -i lines
check "no lines at all" [ "$code" = 0 -a ! -s out ]
printf '%s\nDan\377ke.\nDan\000ke.\n%s\n' "$german" "$german" >lines
translate -i lines
printf '%s\n\n\n%s\n' "$english" "$english" >want
check "bad lines: the rest goes on" cmp -s out want
check "bad lines: exit code 1" [ "$code" = 1 ]
check "bad lines: named" [ "$(grep -c 'line [23]:' err)" = 2 ]
translate --n-best 2 -i lines
check "bad lines in n-best keep the count" both 1 grep -qF "3 ||| $english ||| " out
awk 'BEGIN { for (i = 0; i < 900; i++) printf "Haus "; print "" }' >lines
echo "$german" >>lines
cp lines lines.long
translate -i lines
printf '\n%s\n' "$english" >want
check "a line too long: refused by number" both 1 says err 'line 1: the line has [0-9]* tokens, and the model takes at most [0-9]*: '
check "a line too long: the rest goes on" cmp -s out want
translate --truncate -i lines
grep -v 'building kernels for this device' err >complaints # which a busy machine may have to be told here
check "a line too long: cut" [ "$code" = 0 -a "$(wc -l <out)" = 2 -a ! -s complaints ]
translate -i nowhere
check "no such input" one_sentence 1 'nowhere'
translate -i .
check "a folder as input" one_sentence 1 'directory'
run translate -m nowhere <two.de
check "no such model" one_sentence 1 'nowhere'

# ---- Output
translate -i "$demo/test.de" -o result
check "-o" same result "$demo/beam4.en"
echo old >result
chmod 640 result
translate --prefix-file two.prefix -i "$demo/test.de" -o result
check "-o: a failure leaves the old file" [ "$code" = 1 -a "$(cat result)" = old ]
check "-o: and nothing beside it" [ "$(echo result*)" = result ]
translate -i "$demo/test.de" -o result
check "-o: a success replaces it, access as before" [ "$(wc -l <result)" = 20 -a "$(stat -c %a result)" = 640 ]
{
    echo first
    echo "$german" | "$tfm" translate -m "$demo" -o /dev/stdout
    echo "$german" | "$tfm" translate -m "$demo" -o /dev/fd/5 5>&1
    echo last
} >shared 2>err
check "-o: a name of the system's for a descriptor is gone on with" [ "$(cat shared)" = "first
$english
$english
last" ]
translate -i two.de -o nowhere/result
check "-o: no such folder" one_sentence 1 'nowhere/result'
if [ -w /dev/full ]; then
    translate -i two.de -o /dev/full
    check "-o on a full disk" one_sentence 1 'No space left'
    "$tfm" translate -m "$demo" -i two.de >/dev/full 2>err
    code=$?
    check "standard output on a full disk" one_sentence 1 'No space left'
    "$tfm" --help >/dev/full 2>err
    code=$?
    check "help on a full disk" one_sentence 1 'No space left'
else
    skip "full disks" "there is no /dev/full"
fi
{
    "$tfm" translate -m "$demo" -i "$demo/test.de" 2>err
    echo $? >code
} | :
code=$(cat code)
check "a reader that has seen enough: the program ends quietly, by SIGPIPE" [ "$code" = 141 -a ! -s err ]
"$tfm" translate -m "$demo" -i two.de >&- 2>err
code=$?
check "no standard output" one_sentence 1 'standard output'

# ---- Streaming: what is there is translated before the writer goes on
wait_for() { # a line count in `out`, for a minute
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
check "a slow writer's first line comes out" wait_for 1
printf 'Dan\377ke.\nDanke' >&3
check "its second, bad" wait_for 2
printf '.\nDanke.' >&3
check "a line in two pieces" wait_for 3
exec 3>&-
wait $child
code=$?
check "its end" [ "$code" = 1 -a "$(wc -l <out)" = 4 ]
check "lines are counted over the whole input" says err 'line 2:'
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
check "-o: stopped by a signal before a line is done, nothing stays" [ "$(echo killed*)" = 'killed*' ]
check "-o: which is said" says err 'tfm: stopped before anything was finished that could be kept$'
"$tfm" translate -m "$demo" -o killed <slow >out 2>err &
child=$!
exec 3>slow
printf 'Danke.\n\nDan' >&3
wait_for_lines() { # PATH COUNT: in the unfinished file of this name; signals wait while it is written and counted
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
check "-o: stopped by a signal, the finished lines stay" [ "$code" = 143 -a "$(echo killed*)" = killed.partial -a \
    "$(wc -l <killed.partial)" = 2 ]
check "-o: and a sentence says how many" one_sentence 143 'the first 2 lines are in killed.partial'
translate -i two.de -o killed
check "-o: the partial file of an earlier run goes when all is done" [ "$code" = 0 -a "$(echo killed*)" = killed ]
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
check "-o: through a link, the sentence names the file that there is" one_sentence 143 'real/result.partial'
check "-o: beside what the link names" [ "$(echo real/* link*)" = 'real/result real/result.partial link' ]
"$tfm" translate -m "$demo" -o killed <slow >out 2>err &
child=$!
exec 3>slow
echo 'Danke.' >&3
wait_for_lines killed 1
mkdir killed
exec 3>&-
wait $child
code=$?
check "-o: a name that cannot be had at the end: the lines stay" [ "$code" = 1 -a "$(echo killed*)" = 'killed killed.partial' ]
check "-o: and a sentence says where" says err 'the first 1 line is in killed.partial'
rm -r killed*

# ---- Sentences and tokens
two="$german  $german"
echo "$two" >lines
translate --split --language de -i lines
echo "$english  $english" >want
check "--split: sentences one by one, their blanks kept" both 0 cmp -s out want
check "--split: no hint" [ ! -s err ]
printf 'Wo ist mein Au\302\255to?\nWo ist mein Au\342\200\213to?\nWo ist mein Au\342\201\240to\357\273\277?\n' >unseen
translate -i unseen
check "soft hyphens and zero-width spaces in words are left out before translation" both 0 [ "$(grep -c "^Where's my car?$" out)" = 3 ]
translate -i lines
check "without: one hint" both 0 one_sentence 0 'line 1 of lines has 2 sentences'
translate --n-best 2 -i lines
check "with --n-best, the hint says that both do not go together" both 0 one_sentence 0 'which goes without --n-best'
translate --split --n-best 2 -i lines
check "--split and --n-best is a usage error" one_sentence 2 '--split'
translate --alignments -i lines
check "--alignments without --json is one" one_sentence 2 '--json'
printf '%s\n\n%s\n' "$german" "$two" >lines
translate --beam 4 --json --alignments --split --language de -i lines
check "--json: log probabilities add up, a row of an alignment too" both 0 python3 -c '
import json, sys
rows = [json.loads(line) for line in open("out", encoding="utf-8")]
assert [r["index"] for r in rows] == [0, 1, 2] and [r["rank"] for r in rows] == [0, 0, 0], rows
assert rows[0]["text"] == sys.argv[1] and rows[2]["text"] == sys.argv[1] + "  " + sys.argv[1], rows
assert rows[1]["text"] == "" and rows[1]["score"] is None and rows[1]["tokens"] == []
for r in rows[0], rows[2]:
    assert abs(sum(t["log_prob"] for t in r["tokens"]) - r["log_prob"]) < 1e-4
    assert len(r["alignment"]) == len(r["tokens"])
    assert all(len(a) == len(r["source"]) and abs(sum(a) - 1) < 1e-4 for a in r["alignment"])
assert abs(rows[2]["score"] - 2 * rows[0]["score"]) < 1e-3
assert "".join(t["piece"] for t in rows[0]["tokens"][:-1]).replace("\u2581", " ").strip() == sys.argv[1]' "$english"
translate --alignments --alignment-layer 99 --json --split -i lines
check "a layer that is not there" one_sentence 1 'layer of alignments is 99'
corpus=$root/../shared/data/tatoeba-deu-eng/demo
if [ -f "$corpus/test.de" ]; then
    # Real sentences that the model did not learn, four and four on a line: the score is that of the same sentences one a
    # line. (Of a line that the model has learned as two sentences it knows the whole better than the parts.)
    head -n 400 "$corpus/test.de" >single.de
    head -n 400 "$corpus/test.en" >single.en
    paste -d' ' - - - - <single.de >joined.de
    paste -d' ' - - - - <single.en >joined.en
    translate --beam 1 -i single.de
    paste -d' ' - - - - <out >joined.single
    translate --beam 1 --split --language de -i joined.de
    mv out joined.split
    for name in single split; do
        run eval --hyp joined.$name --ref joined.en
        sed -n 's/^BLEU = \([0-9.]*\) .*/\1/p' out >bleu.$name
    done
    check "--split: BLEU of joined lines within 0.5 of that of single ones" [ "$(paste bleu.single bleu.split |
        awk '{ d = $1 - $2; print ($1 > 10 && d <= 0.5 && d >= -0.5) }')" = 1 ]
    echo "# BLEU of single lines $(cat bleu.single), of joined ones split again $(cat bleu.split)"
else
    skip "--split: BLEU of joined lines" "there is no ../shared/data"
fi

# ---- Devices
run devices
check "devices: a star at the one that is taken" [ "$code" = 0 -a "$(grep -c '^\*' out)" = 1 ]
check "devices: platforms without devices have no rows" [ "$(grep -c ' none (' out)" = 0 ]
run devices --verbose
grep -c ' none (' out >empty
run devices --json
check "devices --verbose: platforms without devices have rows" [ "$(python3 -c 'import json
print(sum(row["device_index"] < 0 for row in json.load(open("out"))))')" = "$(cat empty)" ]
run devices --json
check "devices --json" [ "$(python3 -c 'import json, sys
rows = json.load(open("out"))
fields = """index platform_index device_index platform name vendor type driver opencl compute_units memory_bytes
max_alloc_bytes fp16 compiler chosen""".split()
print(all(f in r for r in rows for f in fields), sum(r["chosen"] for r in rows))')" = "True 1" ]
TFM_DEVICE=nonesuch "$tfm" devices >out 2>err
code=$?
check "devices: a TFM_DEVICE that fits none is said" [ "$code" = 0 -a "$(grep -c '^\*' out)" = 0 ]
check "devices: and by its name" one_sentence 0 'TFM_DEVICE is "nonesuch"'
TFM_LOG=bogus "$tfm" devices >out 2>err
code=$?
check "a level of the log that is none is said, once" both 0 one_sentence 0 'TFM_LOG is "bogus"'
translate --device nonesuch -i two.de
check "a device that is not there" both 1 says err 'nonesuch'
mkdir vendors
OCL_ICD_VENDORS=$here/vendors "$tfm" translate -m "$demo" -i two.de >out 2>err
code=$?
check "no platform: the package is named" one_sentence 1 'pocl-opencl-icd'
export TFM_CACHE_DIR=off # PoCL compiles again to give a binary out, and here are kernels that no other check needs
brief || self_test # tests/apps/device_report.sh has it, too, where its report has had the same programs compiled

# ---- Timings
hasty run bench gemm --json --runs 2 --variant wide-16,scalar --provider small,packed,plain,openblas 5x65x33 33x20x7tn
check "bench: a line a provider" [ "$code" = 0 -a "$(grep -c 'plain","precision"' out)" = 4 ]
check "bench: another variant's providers are called by it" [ "$(grep -c '"provider":"scalar plain"' out)" = 2 ]
check "bench: the keys" says out '^{"bench":"gemm","shape":"5x65x33","provider":".*","precision":"fp32","runs":2,"median_s":[0-9].*,"min_s":.*,"gflops":[0-9.e-]*}$'
check "bench: who declines says why" says out '"shape":"33x20x7tn",.*"gflops":null,"declined":"it is for'
hasty run bench gemm --json --runs 2 --precision int8 --variant scalar 5x65x33
check "bench: int8 beside fp32" [ "$code" = 0 -a "$(grep -c '"precision":"int8"' out)" = 1 ]
hasty run bench gemm --json --runs 2 --precision bf16 --variant scalar 5x65x33
check "bench: bf16 beside fp32" [ "$code" = 0 -a "$(grep -c '"precision":"bf16"' out)" = 1 ]
run bench gemm --precision int8 3x3x3nt
check "bench: int8 knows no transposes" one_sentence 2 'MxNxK alone'
hasty run bench gemm --json --runs 2 --variant scalar --provider plain 3x3x3
check "bench: even if it is the only one" says out '"provider":"scalar plain"'
hasty run bench norm --runs 2 --variant scalar 17x65
check "bench: a table with ratios" both 0 says out '^norm softmax 17x65 .*of copy'
# The device's own variant has kernels that other tests compile, and is quick at the large product that is the measure.
scalar="--variant scalar" provider=scalar
brief && scalar="" provider="[^\"]*"
# shellcheck disable=SC2086 # words
run bench attention --json --runs 2 $scalar --causal 1x2x9x16
check "bench: attention" both 0 says out "\"attention\",\"shape\":\"1x2x9x9x16 causal\",\"provider\":\"$provider\""
# shellcheck disable=SC2086
run bench attention --json --runs 2 $scalar --backward 1x2x9x16
check "bench: attention and its backward pass" both 0 says out "\"attention\",\"shape\":\"1x2x9x9x16 backward\",\"provider\":\"$provider\""
# shellcheck disable=SC2086
run bench translate --json --runs 1 $scalar -m "$demo" -i two.de
check "bench: translation" both 0 says out '"bench":"translate",.*"per_s":[0-9]'
run bench norm --json --runs 1 3x5
check "bench: the device's own variant alone" [ "$code" = 0 -a "$(sed 's/.*"provider":"\([^"]*\)".*/\1/' out | sort -u | wc -l)" = 1 ]
if ! brief; then # it compiles for each
    run bench norm --json --runs 1 --variant all 3x5
    check "bench --variant all: others too" both 0 says out '"provider":"scalar"'
fi
if command -v taskset >/dev/null && [ "$(nproc)" -gt 1 ]; then
    # The last core alone: where threads are bound to other ones they run there. What a process may use is in its status.
    last=$(taskset -cp $$ | sed 's/.*[^0-9]//')
    taskset -c "$last" "$tfm" bench norm --json --runs 2000000000 3x5 >/dev/null 2>&1 &
    child=$!
    tries=0
    until [ "$(ls /proc/$child/task 2>/dev/null | wc -l)" -gt 1 ] || [ $tries -ge 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    sleep 0.5 # threads that bind themselves do so when they begin
    cat /proc/$child/task/*/status 2>/dev/null | grep '^Cpus_allowed_list' | sort -u >cores
    kill $child 2>/dev/null
    wait $child 2>/dev/null
    check "bench: what taskset says holds for all threads" [ "$(cut -f2 cores)" = "$last" ]
else
    skip "bench: what taskset says holds for all threads" "there is no taskset, or one core only"
fi
run bench translate
check "bench: translation needs a model" one_sentence 2 '-m DIR'
run bench
check "bench: of what?" one_sentence 2 'an argument is missing'
for wrong in 'frob' 'gemm 1x2' 'gemm 1x2x3q' 'gemm 0x2x3' 'norm 3x4x5' 'attention 1x2x3' 'gemm --variant frob' \
    'gemm --provider frob' 'translate stray' 'gemm 99999999999x1x1'; do
    # shellcheck disable=SC2086 # words
    run bench $wrong
    check "bench $wrong is a usage error" one_sentence 2 "$(echo "$wrong" | sed 's/.* //')"
done
for other in 'attention 1x1x1x1 --precision fp16' 'attention 1x1x1x1 --accumulate' 'norm 3x5 --provider plain' \
    'gemm 1x1x1 --causal' 'norm 3x5 --backward' 'gemm 1x1x1 -m model' 'norm 3x5 -i lines'; do
    # shellcheck disable=SC2086 # words
    run bench $other
    check "bench $other is a usage error" one_sentence 2 ", and this is ${other%% *}"
done
for list in variant provider; do
    run bench attention 1x2x3x4 --$list ''
    check "bench: an empty list of a $list is a usage error" one_sentence 2 "--$list names none"
done
export TFM_CACHE_DIR="$here/cache"

# ---- Info and score
run info "$demo"
check "info" both 0 says out "parameters *$parameters "
check "info: what takes it" says out '^commands  *translate, score, eval, attend, train --from$'
run info --json "$demo"
check "info --json" [ "$(python3 -c 'import json; print(json.load(open("out"))["parameters"])')" = "$parameters" ]
check "info: half precision, and at most 12 MB with all that goes with it" [ "$(cat "$demo"/*.json "$demo"/*.spm \
    "$demo"/*.safetensors | wc -c)" -le 12000000 ]
run info nowhere
check "info: no such model" one_sentence 1 'nowhere'
# unprivileged ARGUMENT...: a run without root's permission to read everything
unprivileged() {
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/nonexistent TFM_CACHE_DIR=off "$tfm" "$@" >out 2>err
    else
        "$tfm" "$@" >out 2>err
    fi
    code=$?
}
chmod 755 .
if unprivileged --version && [ "$code" = 0 ]; then
    mkdir -p denied/below
    for place in below/model folder config weights; do
        cp -r "$demo" denied/$place
    done
    chmod 700 denied/below denied/folder
    chmod 600 denied/config/config.json denied/weights/model.safetensors
    [ "$(id -u)" = 0 ] || chmod 000 denied/below denied/folder denied/config/config.json denied/weights/model.safetensors
    mkdir -m 777 open
    for place in below/model folder config weights; do
        unprivileged info denied/$place
        check "info: permission denied is the reason given for $place" one_sentence 1 'Permission denied'
        unprivileged train --from denied/$place --src "$demo/test.de" --tgt "$demo/greedy.en" -o open/run
        check "train --from: permission denied is the reason given for $place" both 1 says err 'Permission denied'
    done
    chmod -R u+rwx denied
else
    skip "info: permission denied" "the program cannot be run without root's permissions here"
fi
# ---- Smaller numbers
run quantize "$demo"
check "quantize: nowhere to write is a usage error" one_sentence 2 '-o is needed'
run quantize "$demo" -o "$demo"
check "quantize: the model's own directory" one_sentence 1 'own directory'
run quantize "$demo" -o bytes
check "quantize" both 0 says out '^bytes: .* million parameters, I8;'
check "quantize: at most 6 MB of bytes" [ "$(wc -c <bytes/model.safetensors)" -le 6000000 ]
check "quantize: the tokenizer is copied" same bytes/source.spm "$demo/source.spm"
run quantize "$demo" -o bytes
check "quantize: a model that is there is not written over" one_sentence 1 'bytes holds a model already (config.json)'
cp -r "$demo" ran
touch ran/checkpoint.safetensors ran/train.jsonl ran/recipe.json
mkdir ran/snapshots
touch ran/snapshots/1.safetensors
run quantize ran -o of-a-run
check "quantize: what is of a training run stays there" [ "$code" = 0 -a -f of-a-run/source.spm -a \
    -z "$(ls of-a-run | grep -E 'checkpoint|train.jsonl|recipe|snapshots')" ]
rm -rf ran of-a-run
run info bytes
check "info: bytes do not learn" says out '^commands  *translate, score, eval, attend$'
run info "$demo/config.json"
check "info: a file in the place of its folder" one_sentence 1 'config.json is a file: give the folder that it is in'
printf '\377\376D\000a\000\n\000' >wide
run translate -m "$demo" -i wide
check "translate: UTF-16 is named as such" one_sentence 1 'wide is in UTF-16: make it UTF-8, with `iconv -f UTF-16 -t UTF-8`'
run quantize bytes -o again
check "quantize: bytes of bytes" one_sentence 1 'quantised already'
unkept run translate -m "$demo" --precision int8 --beam 1 -i "$demo/test.de"
mv out want
check "int8: a line a line" [ "$(wc -l <want)" = 20 ]
unkept run translate -m bytes --beam 1 -i "$demo/test.de"
check "int8: a directory of bytes writes what the model does with --precision int8" same out want
unkept run score -m bytes --src "$demo/test.de" --tgt "$demo/greedy.en"
mv out want
unkept run score -m "$demo" --precision int8 --src "$demo/test.de" --tgt "$demo/greedy.en"
check "int8: the same scores" same out want
unkept run eval -m bytes --src "$demo/test.de" --ref "$demo/greedy.en" --beam 1
check "int8: near fp32" [ "$(sed -n 's/^BLEU = \([0-9]*\).*/\1/p' out)" -ge 80 ]
# Halves: the demo's are fp16, so nothing is lost; bf16 has fewer digits.
unkept run translate -m "$demo" --precision fp16 --beam 1 -i "$demo/test.de"
check "fp16: as the original framework" same out "$demo/greedy.en"
unkept run eval -m "$demo" --precision bf16 --src "$demo/test.de" --ref "$demo/greedy.en" --beam 1
check "bf16: near fp32" [ "$(sed -n 's/^BLEU = \([0-9]*\).*/\1/p' out)" -ge 90 ]
run train -o more --from bytes --src "$demo/test.de" --tgt "$demo/greedy.en"
check "int8: bytes do not learn" one_sentence 1 'bytes'
for broken in source.spm vocab.json model.safetensors; do
    rm -rf broken
    mkdir broken
    cp "$demo"/*.json "$demo"/*.spm "$demo"/*.safetensors broken
    echo '<!DOCTYPE html>' >broken/$broken
    run translate -m broken -i "$demo/test.de"
    cp err translate.err
    run info broken
    check "info: $broken is a web page, in the words of translate" one_sentence 1 "broken/$broken"
    check "info: the same sentence" [ "$(sed 's/^tfm translate/tfm info/' translate.err)" = "$(cat err)" ]
done
rm -rf broken
mkdir broken
cp "$demo"/*.json "$demo"/*.safetensors broken
run info broken
check "info: a model without a tokenizer is described" both 1 says out "parameters *$parameters "
check "info: and that it has none is said" says out 'tokenizer *none that runs.*broken/source.spm'
check "info: no command takes it, in the words of translate" one_sentence 1 'broken/source.spm'
run info --json broken
check "info --json: the same" both 1 python3 -c 'import json; j = json.load(open("out"))
exit(j["runs"] or j["commands"] or "source.spm" not in j["no_tokenizer"] or j["kind"] != "encoder-decoder")'
echo '{"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "max_length": 1000000000000000019884624838656}' >broken/config.json
run info broken
check "info: a family that is not run, and its key" one_sentence 1 'broken/config.json: `model_type` is "mixtral"'
check "info: what it is" says out 'architecture *mixtral, MixtralForCausalLM'
run info --json broken
check "info --json: it does not run" both 1 python3 -c 'import json; j = json.load(open("out"))
exit(j["runs"] or "mixtral" not in j["reason"])'
echo '{"model_type": "llama", "rope_scaling": {"rope_type": "proportional"}}' >broken/config.json
run info broken
check "info: a key of a known family" one_sentence 1 '`rope_type` of the rotation is "proportional"'
rm -rf broken
mkdir broken
touch broken/adapter_config.json broken/adapter_model.safetensors
run info broken
check "info: an adapter, and what to do" one_sentence 1 'broken has an adapter (adapter_config.json), such as'
mv broken/adapter_config.json broken/adapter.Q4_K.gguf
run info broken
check "info: GGUF" one_sentence 1 'broken has its weights in adapter.Q4_K.gguf'
cp "$demo"/*.json "$demo"/*.spm broken
rm broken/adapter*
touch broken/model-00001-of-00002.safetensors
run info broken
check "info: parts without their index" one_sentence 1 'broken has model-00001-of-00002.safetensors, and no model.safetensors.index.json'
run score -m "$demo" --src "$demo/test.de" --tgt "$demo/beam4.en"
check "score: a line a pair" [ "$code" = 0 -a "$(grep -cE '^-[0-9.]+	[0-9]+	-[0-9.]+$' out)" = 20 ]
awk '{ printf "%.6f\n", $1 / ((5 + $2) / 6) ^ 0.6 }' out >scores
check "score: as the search's" close_to scores "$demo/beam4.scores" 1
run score -m "$demo" --src "$demo/test.de" --tgt two.de
check "score: unequal counts" one_sentence 1 'has 20 lines'
check "score: both are named" says err 'two.de 2'
printf 'Danke.\nDanke.\nDanke.\n' >source
printf 'Thank you.\nTh\000ank.\nTh\377ank.\n' >target
run score -m "$demo" --src source --tgt target
check "score: bad lines" [ "$code" = 1 -a "$(grep -c 'target, line [23]' err)" = 2 -a "$(grep -c '^$' out)" = 2 ]

# ---- Eval
cat >want <<EOF
BLEU = 20.54 77.8/42.9/10.0/8.3 (BP = 0.895 ratio = 0.900 hyp_len = 9 ref_len = 10)
chrF2 = 41.9
signature = nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:tfm-$("$tfm" --version | cut -d' ' -f2)
EOF
printf 'The cat, sat down.\n\303\204pfel & \303\226l\n' >hyp
printf 'The cat sat down there.\n\303\244pfel &amp; \303\226l.\n' >ref
run eval --hyp hyp --ref ref
check "eval: two files" same out want
sed 's/$/\r/' hyp >hyp.crlf
run eval --hyp - --ref ref <hyp.crlf
check "eval: a pipe, CR LF" same out want
run eval --hyp hyp --ref ref --lowercase --tokenize char
check "eval: --lowercase, --tokenize" both 0 says out '|case:lc|eff:no|tok:char|'
check "eval: in their own way" says out '^BLEU = 50.52 95.7/'
run eval --hyp hyp --ref hyp --json
check "eval --json" [ "$(python3 -c 'import json; r = json.load(open("out")); print(round(r["bleu"], 6), r["chrf2"], r["hyp_len"], r["ref_len"], r["lines"], "ppl" in r)')" = \
    "100.0 100.0 9 9 2 False" ]
echo more >>ref
run eval --hyp hyp --ref ref
check "eval: unequal counts" one_sentence 1 'hyp has 2 lines, ref 3'
run eval --hyp ref --ref hyp
check "eval: unequal counts the other way" one_sentence 1 'ref has 3 lines, hyp 2'
run eval -m "$demo" --src hyp --ref ref
check "eval: unequal counts with a model" one_sentence 1 'hyp has 2 lines, ref 3'
check "eval: and no score" [ ! -s out ]
run eval --hyp /dev/null --ref /dev/null
check "eval: no lines at all" one_sentence 1 'nothing to evaluate'
printf 'Danke.\nDan\377ke.\n' >bad
run eval --hyp bad --ref hyp
check "eval: a bad line" one_sentence 1 'bad, line 2: byte 4'
run eval --hyp hyp --ref bad
check "eval: a bad reference" one_sentence 1 'bad, line 2: byte 4'
run eval -m "$demo" --src hyp --ref bad
check "eval: a bad reference with a model" one_sentence 1 'bad, line 2: byte 4'
run eval --hyp nowhere --ref hyp
check "eval: no such file" one_sentence 1 'nowhere'
run eval --hyp hyp
check "eval: no references is a usage error" one_sentence 2 '--ref'
run eval --ref hyp
check "eval: nothing to evaluate is one" one_sentence 2 '--hyp'
run eval -m "$demo" --hyp hyp --ref hyp
check "eval: a model and translations is one" one_sentence 2 '--hyp'
for option in 'beam 4' 'alpha 0.6' 'length-penalty paper' 'max-length 9' 'batch-tokens 9' truncate 'precision fp32' 'device cpu'; do
    # shellcheck disable=SC2086 # words
    run eval --hyp hyp --ref hyp --$option
    check "eval: translations and --${option% *} is one" one_sentence 2 "--${option% *} is for a model"
done
run eval --hyp - --ref -
check "eval: two standard inputs is one" one_sentence 2 'standard input'
run eval --hyp hyp --ref hyp --tokenize intl
check "eval: an unknown tokenizer is one" one_sentence 2 '13a|none|char'
run eval -m "$demo" --src "$demo/test.de" --ref "$demo/beam4.en" --beam 4 --alpha 0.6
check "eval: a model translates as translate does" both 0 says out '^BLEU = 100.00 '
check "eval: and has a perplexity" [ "$(sed -n '4s/^ppl = [0-9.]*$/ppl/p' out)" = ppl ]
run eval -m "$demo" --src "$demo/test.de" --ref "$demo/beam4.en" --beam 1 --json
"$tfm" eval --hyp "$demo/greedy.en" --ref "$demo/beam4.en" --json >files
"$tfm" score -m "$demo" --src "$demo/test.de" --tgt "$demo/beam4.en" >scores
check "eval: greedy as the files say, perplexity as score says" python3 -c '
import json, math
model, files = json.load(open("out")), json.load(open("files"))
scores = [line.split("\t") for line in open("scores")]
ppl = math.exp(-sum(float(s[0]) for s in scores) / sum(int(s[1]) for s in scores))
assert abs(model.pop("ppl") / ppl - 1) < 1e-5 and model == files, (model, files, ppl)'
printf '%s\nDan\377ke.\n%s\n' "$german" "$german" >source
printf '%s\n%s\n%s\n' "$english" "$english" "$english" >target
run eval -m "$demo" --src source --ref target
check "eval: a bad source line is named once" one_sentence 1 'line 2 of source and target'
check "eval: and counts as nothing" [ \
    "$(sed -n 's/^BLEU .* hyp_len = \([1-9][0-9]*\) ref_len = \([0-9]*\))$/\1 \2/p' out | awk '{ print 3 * $1 == 2 * $2 }')" = 1 ]
check "eval: the perplexity is that of the others" says out '^ppl = [1-9]'

# ---- Attend
attend() {
    run attend -m "$demo" "$@"
}
# shapes FILE: what the numbers are, and whether they are attention: a line `layers first last heads rows columns good`.
shapes() {
    python3 - "$1" <<'END'
import json, sys
layers = json.load(open(sys.argv[1]))["layers"]
good = True
for l in layers:
    w = l["weights"]
    good &= sorted(l) == ["columns", "heads", "name", "rows", "weights"] and len(w) == l["heads"]
    for head in w:
        good &= len(head) == len(l["rows"])
        for i, row in enumerate(head):
            good &= len(row) == len(l["columns"]) and abs(sum(row) - 1) < 1e-5 and min(row) >= 0
            good &= "decoder" not in l["name"] or "self" not in l["name"] or all(x == 0 for x in row[i + 1:])
print(len(layers), layers[0]["name"], layers[-1]["name"], layers[-1]["heads"], "".join(layers[-1]["rows"]),
      "".join(layers[-1]["columns"]), good)
END
}
# picture FILE: what it is by its content
picture() {
    case $(head -c 8 "$1" | od -An -tx1 | tr -d ' \n') in
    89504e470d0a1a0a) echo png ;;
    *) grep -q '<svg ' "$1" && tail -n 1 "$1" | grep -q '^</svg>$' && echo svg ;;
    esac
}
attend "$german" --json
check "attend --json" [ "$code" = 0 -a "$(shapes out)" = "$((encoder_layers + 2 * decoder_layers)) encoder.1.self \
decoder.$decoder_layers.cross $decoder_attention_heads <pad>$(pieces "$english") $(pieces "$german")</s> True" ]
mv out whole.json
attend "$german" -o numbers.json
check "attend -o .json" both 0 cmp -s numbers.json whole.json
attend "$german" -o numbers.json --json
check "attend -o .json --json: both" both 0 cmp -s numbers.json out
attend "Ich liebe dich." --json --target "I love Tom" --kind cross --layer 2 --head 3
check "attend --target, and a choice" [ "$code" = 0 -a "$(shapes out)" = \
    "1 decoder.2.cross decoder.2.cross 1 <pad>▁I▁love▁Tom ▁Ich▁liebe▁dich.</s> True" ]
attend "Danke." --json --kind encoder
check "attend --kind" [ "$(shapes out | cut -d' ' -f1-3)" = \
    "$encoder_layers encoder.1.self encoder.$encoder_layers.self" ]
attend "Danke." --json --k encoder
check "a beginning of an option's name is enough" [ "$code" = 0 ]
attend "Danke." --json --h 1
check "but not one of several" one_sentence 2 '--h may be more than one option'
attend "Danke." -o picture.gif
check "attend: an unknown ending" one_sentence 2 "'picture.gif'"
attend "Danke."
check "attend: nowhere to write to" one_sentence 2 '--json'
attend --json
check "attend: no text" one_sentence 2 'missing'
run attend "Danke." --json
check "attend: no model" one_sentence 2 '-m DIR'
attend "" --json
check "attend: an empty text" one_sentence 1 'no words'
attend "$(printf 'Dan\377ke.')" --json
check "attend: a text that is no UTF-8" one_sentence 1 'source text: byte 4'
attend "Danke." --target "$(printf 'Th\377anks.')" --json
check "attend: a target that is none" one_sentence 1 'target text: byte 3'
attend "$(head -n 1 lines.long)" --json
check "attend: a text too long" one_sentence 1 'takes at most'
attend "Danke." --layer $((encoder_layers + 1)) --json
check "attend: a layer that is not there" one_sentence 1 "--layer is $((encoder_layers + 1))"
attend "Danke." --head $((encoder_attention_heads + 1)) --json
check "attend: a head that is not there" one_sentence 1 "--head is $((encoder_attention_heads + 1))"
mkdir damaged && cp "$demo"/*.json "$demo"/*.spm damaged && python3 - "$demo/model.safetensors" damaged/model.safetensors <<'END'
import json, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
start = 8 + struct.unpack("<Q", data[:8])[0]
at = start + json.loads(data[8:start])["model.encoder.layers.0.self_attn.q_proj.weight"]["data_offsets"][0]
data[at:at + 2] = b"\x00\x7e"  # a NaN of half precision
open(sys.argv[2], "wb").write(data)
END
run attend -m damaged "Danke." --target "Thanks." --json
check "attend: parameters that are no numbers" one_sentence 1 'are no numbers'
"$plain" attend -m "$demo" "$german" --json >out 2>err
code=$?
check "attend without cairo: numbers" both 0 cmp -s out whole.json
"$plain" attend -m "$demo" "Danke." -o picture.svg >out 2>err
code=$?
check "attend without cairo: the package is named" one_sentence 1 'libcairo2-dev'
attend "Danke." -o picture.svg
if [ "$code" = 1 ] && grep -q 'libcairo2-dev\|fonts-dejavu-core' err; then
    skip "attend: pictures" "$(cat err)"
else
    check "attend -o .svg" [ "$code" = 0 -a "$(picture picture.svg)" = svg -a ! -s err ]
    cp picture.svg again.svg
    attend "Danke." -o picture.svg
    check "attend: the same picture again" same picture.svg again.svg
    attend "Danke." --kind cross -o cross.svg
    check "attend: rows of cross-attention are what is written" both 0 grep -q '<title>.* looks at .*Danke: [01]\.' cross.svg
    check "attend: none of them is the start" [ "$(grep -c '&lt;pad&gt;</text>' cross.svg)" = 0 ]
    check "attend: the mean of the heads" grep -q ">mean of $decoder_attention_heads heads</text>" cross.svg
    attend "$german" -o picture.PNG --json
    check "attend -o .PNG" [ "$code" = 0 -a "$(picture picture.PNG)" = png ]
    check "attend: numbers beside the picture" cmp -s out whole.json
    attend "$(sed -n '1,8p' "$demo/test.de" | tr '\n' ' ')" --kind cross -o long.png
    check "attend: a long text" [ "$code" = 0 -a "$(picture long.png)" = png ]
    long=$(awk 'BEGIN { for (i = 0; i < 480; i++) printf "Haus " }')
    attend "$long" --target "$long" -o huge.png
    check "attend: more pixels than a PNG may have" one_sentence 1 'with --kind'
    attend "Danke." -o nowhere/picture.svg
    check "attend: no such folder" one_sentence 1 'nowhere/picture.svg'
    echo old >old.svg
    attend "$(printf 'Dan\377ke.')" -o old.svg
    check "attend: a failure leaves the old file" [ "$code" = 1 -a "$(cat old.svg)" = old -a "$(echo old.svg*)" = old.svg ]
    echo '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig></fontconfig>' >fonts.conf
    FONTCONFIG_FILE=$here/fonts.conf "$tfm" attend -m "$demo" "Danke." -o bare.svg >out 2>err
    code=$?
    check "attend without fonts: the package is named" one_sentence 1 'fonts-dejavu-core'
    if [ -w /dev/full ]; then
        for ending in svg png; do
            ln -s /dev/full full.$ending
            attend "Danke." -o full.$ending
            check "attend: a full disk, .$ending" one_sentence 1 'No space left'
        done
    fi
fi

# ---- Caches and kernel texts
echo "$english" >want
echo "$german" >line
: >file
export TFM_CACHE_DIR="$here/file/cache"
translate -i line
check "a cache that cannot be written: one warning" [ "$(grep -c 'warning' err)" = 1 ]
check "and on without" same out want
export TFM_CACHE_DIR="$here/damaged"
translate -i line
for damage in 'head -c 40' 'sed s/e/E/g' 'head -c 0'; do
    for entry in damaged/*; do
        [ -f "$entry" ] || continue
        $damage "$entry" >cut
        cp cut "$entry"
    done
    translate -i line
    check "damaged cache entries ($damage) are made again" same out want
done
export TFM_CACHE_DIR="$here/cache"
mkdir kernels
cp "$root/cl/norm/layernorm.cl" kernels
number=$(($(wc -l <kernels/layernorm.cl) + 1))
echo "this is no OpenCL" >>kernels/layernorm.cl
TFM_CL_DIR=$here/kernels "$tfm" translate -m "$demo" -i line >out 2>err
code=$?
check "a kernel text that does not build: file and line" both 1 says err "layernorm\.cl:$number:"
cp "$root/cl/norm/layernorm.cl" kernels
TFM_CL_DIR=$here/kernels "$tfm" translate -m "$demo" -i line >out 2>err
code=$?
check "one that builds is used" same out want

# ---- An id that vocab.json does not name
mkdir nameless
for file in "$demo"/*; do [ -f "$file" ] && ln -s "$file" nameless; done
rm nameless/vocab.json
python3 -c '
import json, sys
ids = json.load(open(sys.argv[1]))
json.dump({piece: i for piece, i in ids.items() if i not in (300, 301)}, open("nameless/vocab.json", "w"))' "$demo/vocab.json"
"$tfm" translate -m nameless -i line >out 2>err
code=$?
check "ids without a token: a warning says how many" both 0 says err \
    "warning: nameless: 2 of the model's 5001 ids have no token in the vocabulary, the first is 300: "
"$tfm" translate -m "$demo" -i line >out 2>err
code=$?
check "a vocabulary that names all ids: no warning" [ "$(grep -c 'have no token' err)" = 0 ]

echo "1..$count"
