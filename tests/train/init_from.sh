# tfm train --init-from: fine-tuning a model, with frozen modules.
. "$(dirname "$0")/common.sh"

plan="$files --eval-steps 4 --logging-steps 1 --warmup-steps 2 --average 2 --hold-out 0 --batch-tokens 128"

# shellcheck disable=SC2086 # words, here and below
begin base $plan --max-steps 12
for way in "" "--freeze model.encoder.*,model.shared.weight"; do
    run train -o tuned --init-from base $plan --max-steps 8 $way
    check "train --init-from${way:+ with --freeze} trains" both 0 says err '^update 8/8 '
    check "train --init-from${way:+ with --freeze} has a smaller learning rate" [ "$(value tuned learning-rate) $(value tuned dropout)" = "5e-5 0.1" ]
    run train -o tuned2 --init-from base $plan --max-steps 5 $way
    resume tuned2 --max-steps 8
    check "train --init-from${way:+ with --freeze} resumed gives the same parameters" both 0 cmp \
        tuned/snapshots/00000008.safetensors tuned2/snapshots/00000008.safetensors
    wc -c <tuned/snapshots/00000008.safetensors >>sizes
    rm -r tuned2
    [ "$way" ] || rm -r tuned
done
check "train --freeze trains fewer parameters" [ "$(head -n 1 sizes)" -gt "$(tail -n 1 sizes)" ]
sed 1q text.de >line
run translate -m tuned -i line
check "train --init-from writes a model that translates" [ "$code" = 0 ]
cp -r base sampled
echo '{"do_sample": true, "eos_token_id": 0, "unknown_key": {"a": [1]}}' >sampled/generation_config.json
run train -o kept --init-from sampled $plan --max-steps 4
check "train --init-from keeps unknown keys of generation_config.json" both 0 says kept/generation_config.json \
    '"unknown_key": {'
check "train --init-from keeps unsupported keys of generation_config.json" says kept/generation_config.json '"do_sample": true'
resume tuned --freeze 'model.*' --max-steps 9
check "train --resume --freeze is a usage error" one_sentence 2 '--freeze cannot change'
run train -o other --init-from base $files --width 64
check "train --init-from with another model size is a usage error" one_sentence 2 '--width'
run train -o other --init-from base $files --vocab base
check "train --init-from with another vocabulary is a usage error" one_sentence 2 'with its vocabulary'
run train -o other --init-from . $files
check "train --init-from names a directory without a model" one_sentence 1 'no config.json'
mkdir adapter
touch adapter/adapter_config.json
run train -o other --init-from adapter $files
check "train --init-from refuses a LoRA adapter" one_sentence 1 'adapter has an adapter (adapter_config.json), and not a model: open its base model with it (--adapter)'
run train -o other --init-from base $files --freeze 'no.such.*'
check "train --freeze names a module that the model does not have" one_sentence 1 'no parameter matches "no.such.*" in freeze'
check "train --freeze lists the modules that the model has" says err ': give patterns of names such as model\.[a-z0-9._]*$'
run train -o other --init-from base $files --freeze '*'
check "train --freeze of the whole model is an error" one_sentence 1 'leaves no parameter'
run train -o other --init-from base $files --max-length 600
check "train --init-from rejects lines that are too long for the model" one_sentence 1 'takes up to 512 tokens'
check "train --init-from that is rejected leaves no run" [ ! -e other/recipe.json ]

echo "1..$count"
