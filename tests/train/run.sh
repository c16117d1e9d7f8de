# tfm train: reports and output files of a run.
. "$(dirname "$0")/common.sh"

begin run $files --max-steps 6 --eval-steps 3 --logging-steps 2
check "train prints one line of result" [ "$code" = 0 -a "$(wc -l <out)" = 1 ]
check "train prints parameters and vocabulary" says err '^run: [0-9]* parameters, vocabulary of [0-9]*, 12 pairs for validation$'
check "train prints how much memory it takes on which device" says err '^about [0-9]* MB of memory on .'
check "train prints once how many pairs there are" [ "$(grep -c '^228 pairs for training$' err) $(grep -v '^warning:' err | grep -c ' pairs ')" = "1 2" ]
check "train prints progress" says err \
    '^update 4/6  epoch 1  loss [0-9.]*  ppl [0-9.]*  |g| [0-9.]*  rate [0-9.e-]*  [0-9]* tokens/s  ETA [0-9:]*$'
check "train prints validation results" says err '^update 3  valid  ppl [0-9.]*  BLEU [0-9.]*  chrF2 [0-9.]*  best so far$'
check "train prints no control characters to a file" [ "$(tr -d '\n\040-\176' <err | wc -c)" = 0 ]
check "train's result has the best validation" says out '^run: 6 updates; best on validation: BLEU [0-9.]*, ppl [0-9.]*$'
check "train leaves no temporary file" tidy run
check "train writes recipe.json" json_file run/recipe.json
for name in $(options | sed 's/^--//' | grep -vxE 'out|resume|gradient-checkpointing|shard-optimizer|workers'); do
    value run "$name" >found
    [ -s found ] || echo "$name"
done >missing
check "train writes all options but those of device and place into recipe.json" [ ! -s missing ]
check "train writes the results into recipe.json" [ "$(value run src) $(value run width) $(value run dropout) $(value run warmup-steps)" = \
    '"../text.de" 32 0.2 1' ]
check "train writes JSON lines into train.jsonl" json_lines run/train.jsonl
check "train writes its reports into train.jsonl" [ "$(reports start run) $(reports train run) $(reports valid run) $(reports average run) $(reports end run)" = \
    "1 4 2 1 1" ]
check "train writes the number of pairs into train.jsonl" \
    grep -qx '{"type":"data","update":1,"pairs":228,"empty":0,"long":0,"invalid":0,"unpaired":0}' run/train.jsonl
check "train writes reports with all keys" [ "$(grep -c '^{"type":"train","update":4,"epoch":1,"loss":.*,"nll":.*,"ppl":.*,"grad_norm":.*,"learning_rate":.*,"tokens_per_s":.*,"seconds":[0-9.]*}$' run/train.jsonl)" = 1 ]
rendered=
renders && rendered=yes
if [ "$rendered" ]; then
    check "train renders loss curves" grep -q '</svg>' run/curves.svg
else
    skip "train renders loss curves" "$(cat err)"
fi
run translate -m run -i valid.de
check "translate opens the model of train" [ "$code" = 0 -a "$(wc -l <out)" = 10 ]
run eval -m run --src valid.de --ref valid.en
check "eval opens the model of train" both 0 says out '^BLEU = '
run info run
check "info opens the model of train" [ "$code" = 0 ]
cp -r run again
begin run $files --max-steps 6 --eval-steps 3 --logging-steps 2
check "train repeated gives the same parameters" alike run again
begin run $files --max-steps 6 --eval-steps 3 --logging-steps 2 --seed 2
check "train --seed changes the parameters" [ "$code" = 0 -a "$(alike run again || echo others)" = others ]
mv again run2
rm run2/curves.svg
resume run2
check "train --resume of a finished run prints its result" [ "$code" = 0 -a "$(wc -l <out)" = 1 -a "$(reports end run2)" = 1 ]
if [ "$rendered" ]; then
    check "train --resume renders the loss curves again" [ -s run2/curves.svg ]
else
    skip "train --resume renders the loss curves again" "cannot render pictures"
fi

echo "1..$count"
