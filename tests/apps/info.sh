# tfm info: supported, unsupported and damaged model directories.
#     sh tests/apps/info.sh PROGRAM SOURCE_ROOT
# Prints TAP.
. "$(dirname "$0")/common.sh"

demo_sizes
run info "$demo"
check "info prints the number of parameters" both 0 says out "parameters *$parameters "
check "info lists the commands that accept a translation model" says out '^commands  *translate, score, eval, attention, train --init-from$'
run info --json "$demo"
check "info --json has the number of parameters" [ "$(python3 -c 'import json; print(json.load(open("out"))["parameters"])')" = "$parameters" ]
check "the demo model takes at most 12 MB on disk" [ "$(cat "$demo"/*.json "$demo"/*.spm \
    "$demo"/*.safetensors | wc -c)" -le 12000000 ]
run info --json --ctx-size 100 "$demo"
cp out exact
run info --json --ctx-size 100 --kv-precision int8 "$demo"
check "info --kv-precision int8 shows a KV cache of little more than a quarter" both 0 python3 -c '
import json
a, b = (json.load(open(name)) for name in ("exact", "out"))
assert (a["kv_precision"], b["kv_precision"]) == ("fp32", "int8")
assert 0.25 * a["kv_cache_bytes"] < b["kv_cache_bytes"] < 0.3 * a["kv_cache_bytes"], (a, b)'
run info --ctx-size 100 --kv-precision int8 "$demo"
check "info names the precision of the KV cache" both 0 says out 'for a sequence of 100 tokens, in int8$'
run info --kv-precision int8 "$root/tests/golden/embedder"
check "info refuses a precision of the KV cache for an encoder" one_sentence 1 'is an encoder and has no KV cache'
run info --ctx-size 100000 "$demo"
check "info refuses a context longer than the model's positions" one_sentence 1 'a context of 100000 tokens, and the model has'
run info --help
check "info --help says that the default precision of the KV cache is fp32" says out '(default auto: fp32)'
run info nowhere
check "info names a model directory that does not exist" one_sentence 1 'nowhere'
# unprivileged ARGUMENT...: a run without root's permissions
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
        check "info reports permission denied for an unreadable model ($place)" one_sentence 1 'Permission denied'
        unprivileged train --init-from denied/$place --src "$demo/test.de" --tgt "$demo/greedy.en" -o open/run
        check "train --init-from reports permission denied for an unreadable model ($place)" both 1 says err 'Permission denied'
    done
    chmod -R u+rwx denied
else
    skip "info and train --init-from report permission denied for an unreadable model" "the program cannot be run without root's permissions here"
fi
run info "$demo/config.json"
check "info of a file instead of a directory says what to give" one_sentence 1 'config.json is a file: pass its folder'
for broken in source.spm vocab.json model.safetensors; do
    rm -rf broken
    mkdir broken
    cp "$demo"/*.json "$demo"/*.spm "$demo"/*.safetensors broken
    echo '<!DOCTYPE html>' >broken/$broken
    run translate -m broken -i "$demo/test.de"
    cp err translate.err
    run info broken
    check "info names $broken that is a web page" one_sentence 1 "broken/$broken"
    check "info and translate print the same error for $broken that is a web page" [ "$(sed 's/^tfm translate/tfm info/' translate.err)" = "$(cat err)" ]
done
rm -rf broken
mkdir broken
cp "$demo"/*.json "$demo"/*.safetensors broken
run info broken
check "info describes a model without a tokenizer and exits with 1" both 1 says out "parameters *$parameters "
check "info says that the tokenizer is missing" says out 'tokenizer *unavailable.*broken/source.spm'
check "info of a model without a tokenizer names the missing file on stderr" one_sentence 1 'broken/source.spm'
run info --json broken
check "info --json of a model without a tokenizer has no commands" both 1 python3 -c 'import json; j = json.load(open("out"))
exit(j["runs"] or j["commands"] or "source.spm" not in j["no_tokenizer"] or j["kind"] != "encoder-decoder")'
echo '{"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "max_length": 1000000000000000019884624838656}' >broken/config.json
run info broken
check "info names the model_type of an unsupported architecture" one_sentence 1 'broken/config.json: `model_type` is "mixtral"'
check "info prints the unsupported architecture" says out 'architecture *mixtral, MixtralForCausalLM'
run info --json broken
check "info --json says why an unsupported architecture does not run" both 1 python3 -c 'import json; j = json.load(open("out"))
exit(j["runs"] or "mixtral" not in j["reason"])'
echo '{"model_type": "llama", "rope_scaling": {"rope_type": "proportional"}}' >broken/config.json
run info broken
check "info names an unsupported rope_type of a supported architecture" one_sentence 1 'RoPE `rope_type` is "proportional"'
rm -rf broken
mkdir broken
touch broken/adapter_config.json broken/adapter_model.safetensors
run info broken
check "info recognizes a LoRA adapter and says what to do" one_sentence 1 'broken has an adapter (adapter_config.json), and not a model: open its base model with it (--adapter)'
mv broken/adapter_config.json broken/adapter.Q4_K.gguf
run info broken
check "info opens the only GGUF file of a folder" one_sentence 1 'broken/adapter.Q4_K.gguf is not a GGUF file'
cp "$demo"/*.json "$demo"/*.spm broken
rm broken/adapter*
touch broken/model-00001-of-00002.safetensors
run info broken
check "info recognizes sharded weights without their index" one_sentence 1 'broken has model-00001-of-00002.safetensors, but no model.safetensors.index.json'

echo "1..$count"
