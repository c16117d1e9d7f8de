# tfm train: bad pairs of lines, skipped and counted, or rejected by --strict.
. "$(dirname "$0")/common.sh"

begin run $files --max-steps 1 --average 0
bad() { # LINE SOURCE TARGET: the text with this pair in place of the line
    { head -n $(($1 - 1)) text.de && printf "$2\n" && tail -n +$(($1 + 1)) text.de; } >bad.de
    { head -n $(($1 - 1)) text.en && printf "$3\n" && tail -n +$(($1 + 1)) text.en; } >bad.en
    paste bad.de bad.en >bad.tsv
}
many=$(awk 'BEGIN { for (i = 0; i < 80; i++) printf "eins " }')
quick="--max-steps 1 --average 0 --vocab run"
for kind in "empty::zero:the source is empty:1 with an empty side" "empty:eins:  :the target is empty:1 with an empty side" \
    "long:$many:one:the source has [0-9]* tokens, and max_length is 40:1 too long" "invalid:ei\\377ns:one:byte 3:1 invalid" "invalid:eins:o\\000ne:byte 2:1 invalid"; do
    IFS=: read -r name source target why said <<END
$kind
END
    bad 33 "$source" "$target"
    # shellcheck disable=SC2086
    begin bad --src bad.de --tgt bad.en $quick --max-length 40
    check "train skips and counts pairs: $name" both 0 says err "^227 pairs for training; left out: .*$said"
    # shellcheck disable=SC2086
    begin bad --src bad.de --tgt bad.en $quick --max-length 40 --strict
    check "train --strict names the line: $name" both 1 says err "^tfm: bad.de and bad.en, line 33: .*$why"
    check "train --strict leaves the directory free: $name" [ "$(ls bad)" = "" ]
done
sed '33s/\t/ /' text.tsv >bad.tsv
# shellcheck disable=SC2086
begin bad --tsv bad.tsv $quick
check "train --tsv skips and counts lines without a tab" both 0 says err "^227 pairs for training; left out: .* 1 invalid"
# shellcheck disable=SC2086
begin bad --tsv bad.tsv $quick --strict
check "train --tsv --strict names a line without a tab" both 1 says err "^tfm: bad.tsv, line 33: there is no tab"
check "train --strict before there is a recipe suggests to fix the text or omit --strict" says err "; fix the pair, or leave --strict out"
sed '3s/\t/ /' valid.tsv >bad.tsv
# shellcheck disable=SC2086
begin bad --tsv text.tsv --valid-tsv bad.tsv $quick --strict
check "train --tsv skips and counts validation lines without a tab" one_sentence 1 'bad.tsv, line 3: there is no tab in it'
head -n 236 text.en >bad.en
# shellcheck disable=SC2086
begin bad --src text.de --tgt bad.en $quick
check "train counts pairs of files with different numbers of lines" both 0 says err "225 pairs for training; left out: .* 4 without a partner"
check "train warns of files with different numbers of lines" says err '^warning: text.de has 240 lines and bad.en 236:'
check "train warns of few validation pairs" says err '^warning: with only [0-9]* pairs for validation'
# shellcheck disable=SC2086
resume bad --max-steps 5
check "train --resume does not repeat the warnings" both 0 [ "$(grep -c '^warning:' err)" = 0 ]
# shellcheck disable=SC2086
begin bad --src text.de --tgt bad.en $quick --strict
check "train --strict names the line after the end of the shorter file" both 1 says err "text.de has more lines .* after line 236"
# shellcheck disable=SC2086
begin bad $files --valid-src valid.de --valid-tgt text.en $quick
check "train rejects validation files with different numbers of lines" one_sentence 1 'valid.de and text.en have different numbers of lines'
for side in de en; do
    sed "3s/\$/$(seq -s ' ' 50)/" valid.$side >long.$side
done
# shellcheck disable=SC2086
begin bad $files --valid-src long.de --valid-tgt valid.en $quick --max-positions 40 --max-length 40
check "train says that long validation lines are skipped" both 0 says err '^validation: 1 pairs have a side of more than 40 tokens, which is truncated'
# shellcheck disable=SC2086
begin bad $files --valid-src valid.de --valid-tgt long.en $quick --max-positions 40 --max-length 40
check "train says that long target lines of validation are skipped" both 0 says err '^validation: 1 pairs have a side of more than 40 tokens'
for what in 'zero:tr e \0' 'bytes:tr e \377'; do
    sed -n 3p valid.en | ${what#*:} >third
    { head -n 2 valid.en; cat third; tail -n +4 valid.en; } >bad.en
    # shellcheck disable=SC2086
    begin bad $files --valid-src valid.de --valid-tgt bad.en $quick --strict
    check "train names the side of validation text with ${what%:*}" one_sentence 1 'valid.de and bad.en, line 3: the target: '
done
printf '\0\0\n' >third
{ head -n 2 valid.en; cat third; tail -n +4 valid.en; } >bad.en
# shellcheck disable=SC2086
begin bad $files --valid-src valid.de --valid-tgt bad.en $quick --strict
check "train accepts validation text of NULs" one_sentence 1 'line 3: the target: byte 1 of the line is NUL'
sed '20s/.*//; 40s/.*//' text.de >bad.de
# shellcheck disable=SC2086
begin bad --src bad.de --tgt text.en $quick
check "train counts skipped pairs of held-out lines once" [ "$code" = 0 -a \
    "$(grep 'bad pairs' err)" = "validation: 2 bad pairs of bad.de are skipped" ]
# shellcheck disable=SC2086
begin bad --src bad.de --tgt text.en $quick --strict
check "train --strict rejects skipped pairs of held-out lines" one_sentence 1 'bad.de and text.en, line 20: the source is empty'

bad 33 "" zero
small_buffers="--src bad.de --tgt bad.en --hold-out 0 --buffer-size 60 --average 0 --vocab run"
# shellcheck disable=SC2086
begin bad $small_buffers --max-steps 9 --eval-steps 3
check "train reports skipped pairs before the pass ends" both 0 says err '^[1-9][0-9]* pairs so far; left out: 1 with'
resume bad --max-steps 30
check "train --resume within a pass counts skipped pairs of the next pass only" both 0 [ "$(grep ' pairs ' err | grep -v validation)" = \
    "239 pairs for training; left out: 1 with an empty side, 0 too long, 0 invalid, 0 without a partner" ]
bad 200 "" zero
# shellcheck disable=SC2086
begin bad $small_buffers --max-steps 1000 --eval-steps 2 --strict
check "train --strict in a later pass leaves the last checkpoint" one_last 1 \
    'bad.de and bad.en, line 200: .*; the last good checkpoint is bad/checkpoint.safetensors, of update [1-9]'

echo "1..$count"
