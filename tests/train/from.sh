# tfm train: going on from a model that is there, with parts of it frozen.
. "$(dirname "$0")/common.sh"

plan="$files --valid-every 4 --report-every 1 --warmup 2 --average 2 --hold-out 0 --batch-tokens 128"

# shellcheck disable=SC2086 # words, here and below
begin base $plan --updates 12
for way in "" "--freeze model.encoder.*,model.shared.weight"; do
    run train -o tuned --from base $plan --updates 8 $way
    check "--from${way:+ with --freeze}: it trains" both 0 says err '^update 8/8 '
    check "--from${way:+ with --freeze}: by smaller steps" [ "$(value tuned rate) $(value tuned dropout)" = "5e-5 0.1" ]
    run train -o tuned2 --from base $plan --updates 5 $way
    resume tuned2 --updates 8
    check "--from${way:+ with --freeze}: the same parameters where the run was cut" both 0 cmp \
        tuned/snapshots/00000008.safetensors tuned2/snapshots/00000008.safetensors
    wc -c <tuned/snapshots/00000008.safetensors >>sizes
    rm -r tuned2
    [ "$way" ] || rm -r tuned
done
check "--freeze: fewer numbers are learned" [ "$(head -n 1 sizes)" -gt "$(tail -n 1 sizes)" ]
sed 1q text.de >line
run translate -m tuned -i line
check "--from: the model translates" [ "$code" = 0 ]
cp -r base sampled
echo '{"do_sample": true, "eos_token_id": 0, "unknown_key": {"a": [1]}}' >sampled/generation_config.json
run train -o kept --from sampled $plan --updates 4
check "--from: keys of generation_config.json that tfm does not know are kept" both 0 says kept/generation_config.json \
    '"unknown_key": {'
check "--from: and those that it does not obey" says kept/generation_config.json '"do_sample": true'
resume tuned --freeze 'model.*' --updates 9
check "--resume: what is frozen is chosen when a run begins" one_sentence 2 '--freeze was chosen'
run train -o other --from base $files --width 64
check "--from: a size of another model" one_sentence 2 '--width'
run train -o other --from base $files --vocab base
check "--from: a vocabulary of another" one_sentence 2 'with its vocabulary'
run train -o other --from . $files
check "--from: a folder without a model" one_sentence 1 'no config.json'
mkdir adapter
touch adapter/adapter_config.json
run train -o other --from adapter $files
check "--from: an adapter" one_sentence 1 'adapter has an adapter (adapter_config.json), such as'
run train -o other --from base $files --freeze 'no.such.*'
check "--freeze: what the model does not have" one_sentence 1 'no parameter has a name'
check "--freeze: and it names one that the model has" says err '; there is model\.[a-z0-9._]*, for example$'
run train -o other --from base $files --freeze '*'
check "--freeze: all of it" one_sentence 1 'leaves no parameter'
run train -o other --from base $files --max-length 600
check "--from: lines that are too long for it" one_sentence 1 'takes up to 512 tokens'
check "and none of these leaves a run" [ ! -e other/recipe.json ]

echo "1..$count"
