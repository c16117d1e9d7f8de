# tfm train: what a run says, and what it leaves.
. "$(dirname "$0")/common.sh"

begin run $files --updates 6 --valid-every 3 --report-every 2
check "a run: one line of result" [ "$code" = 0 -a "$(wc -l <out)" = 1 ]
check "a run: it says what it is" says err '^run: [0-9]* parameters, vocabulary of [0-9]*, 12 pairs for validation$'
check "a run: it says how much memory it takes, and where" says err '^about [0-9]* MB of memory on .'
check "a run: it says once how many pairs there are" [ "$(grep -c '^228 pairs for training$' err) $(grep -v '^warning:' err | grep -c ' pairs ')" = "1 2" ]
check "a run: it says how it goes" says err \
    '^update 4/6  epoch 1  loss [0-9.]*  ppl [0-9.]*  |g| [0-9.]*  rate [0-9.e-]*  [0-9]* tokens/s  ETA [0-9:]*$'
check "a run: it says how good it is" says err '^update 3  valid  ppl [0-9.]*  BLEU [0-9.]*  chrF2 [0-9.]*  best so far$'
check "a run: no control characters where nobody watches" [ "$(tr -d '\n\040-\176' <err | wc -c)" = 0 ]
check "a run: the result" says out '^run: 6 updates; best on validation: BLEU [0-9.]*, ppl [0-9.]*$'
check "a run: nothing is left lying about" tidy run
check "a run: recipe.json" json_file run/recipe.json
for name in $(options | sed 's/^--//' | grep -vxE 'out|resume|recompute|shard|workers'); do
    value run "$name" >found
    [ -s found ] || echo "$name"
done >missing
check "a run: recipe.json has every option but those of where it runs, and on what" [ ! -s missing ]
check "a run: and what came of it" [ "$(value run src) $(value run width) $(value run dropout) $(value run warmup)" = \
    '"../text.de" 32 0.2 1' ]
check "a run: train.jsonl" json_lines run/train.jsonl
check "a run: its reports" [ "$(reports start run) $(reports train run) $(reports valid run) $(reports average run) $(reports end run)" = \
    "1 4 2 1 1" ]
check "a run: and its pairs" \
    grep -qx '{"type":"data","update":1,"pairs":228,"empty":0,"long":0,"invalid":0,"unpaired":0}' run/train.jsonl
check "a run: the keys of a report" [ "$(grep -c '^{"type":"train","update":4,"epoch":1,"loss":.*,"nll":.*,"ppl":.*,"gradient_norm":.*,"rate":.*,"tokens_per_s":.*,"seconds":[0-9.]*}$' run/train.jsonl)" = 1 ]
drawn=
draws run && drawn=yes
if [ "$drawn" ]; then
    check "a run: curves" grep -q '</svg>' run/curves.svg
else
    skip "a run: curves" "$(cat err)"
fi
run translate -m run -i valid.de
check "a run: tfm translate opens it" [ "$code" = 0 -a "$(wc -l <out)" = 10 ]
run eval -m run --src valid.de --ref valid.en
check "a run: tfm eval opens it" both 0 says out '^BLEU = '
run info run
check "a run: tfm info opens it" [ "$code" = 0 ]
cp -r run again
begin run $files --updates 6 --valid-every 3 --report-every 2
check "the same run again: the same bits" alike run again
begin run $files --updates 6 --valid-every 3 --report-every 2 --seed 2
check "another seed: others" [ "$code" = 0 -a "$(alike run again || echo others)" = others ]
mv again run2
rm run2/curves.svg
resume run2
check "--resume of a run that is over: the end once more" [ "$code" = 0 -a "$(wc -l <out)" = 1 -a "$(reports end run2)" = 1 ]
if [ "$drawn" ]; then
    check "--resume: the curves are drawn again" [ -s run2/curves.svg ]
else
    skip "--resume: the curves are drawn again" "nothing draws here"
fi

echo "1..$count"
