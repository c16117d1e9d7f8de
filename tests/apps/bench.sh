# tfm bench. With TFM_BRIEF=1 fewer variants are measured.
#     sh tests/apps/bench.sh PROGRAM SOURCE_ROOT
# Prints TAP.
. "$(dirname "$0")/common.sh"

export TFM_CACHE_DIR=off # PoCL recompiles to return binaries, and no other test needs these kernels
hasty run bench gemm --json --runs 2 --variant cpu-512,scalar --provider cpu-skinny,cpu-packed,reference,openblas 5x65x33 33x20x7tn
check "bench gemm prints a line for each provider" [ "$code" = 0 -a "$(grep -c 'reference","precision"' out)" = 4 ]
check "bench gemm prefixes the providers of another variant with its name" [ "$(grep -c '"provider":"scalar reference"' out)" = 2 ]
check "bench gemm --json has all keys" says out '^{"bench":"gemm","shape":"5x65x33","provider":".*","precision":"fp32","runs":2,"median_s":[0-9].*,"min_s":.*,"gflops":[0-9.e-]*}$'
check "bench gemm --json says why a provider declines a shape" says out '"shape":"33x20x7tn",.*"gflops":null,"declined":"it is for'
hasty run bench gemm --json --runs 2 --precision int8 --variant scalar 5x65x33
check "bench gemm --precision int8 prints an int8 line next to fp32" [ "$code" = 0 -a "$(grep -c '"precision":"int8"' out)" = 1 ]
hasty run bench gemm --json --runs 2 --precision bf16 --variant scalar 5x65x33
check "bench gemm --precision bf16 prints a bf16 line next to fp32" [ "$code" = 0 -a "$(grep -c '"precision":"bf16"' out)" = 1 ]
run bench gemm --precision int8 3x3x3nt
check "bench gemm --precision int8 rejects transposed shapes" one_sentence 2 'with --precision give MxNxK'
hasty run bench gemm --json --runs 2 --variant scalar --provider reference 3x3x3
check "bench gemm with one provider of another variant keeps the variant's name" says out '"provider":"scalar reference"'
hasty run bench norm --runs 2 --variant scalar 17x65
check "bench norm prints a table with ratios to a copy" both 0 says out '^norm softmax 17x65 .*of copy'
# The device's own variant has kernels that other tests compile, and is fast at the large reference GEMM.
scalar="--variant scalar" provider=scalar
brief && scalar="" provider="[^\"]*"
# shellcheck disable=SC2086 # words
hasty run bench attention --json --runs 2 $scalar --causal 1x2x9x16
check "bench attention measures the causal forward pass" both 0 says out "\"attention\",\"shape\":\"1x2x9x9x16 causal\",\"provider\":\"$provider\""
# shellcheck disable=SC2086
hasty run bench attention --json --runs 2 $scalar --backward 1x2x9x16
check "bench attention --backward measures forward and backward pass" both 0 says out "\"attention\",\"shape\":\"1x2x9x9x16 backward\",\"provider\":\"$provider\""
# shellcheck disable=SC2086
run bench translate --json --runs 1 $scalar -m "$demo" -i two.de
check "bench translate measures a model's translation" both 0 says out '"bench":"translate",.*"per_s":[0-9]'
llama=$root/tests/golden/families/llama-base-narrow-f16
# shellcheck disable=SC2086
hasty run bench generate --json --runs 1 $scalar -m "$llama" --prompt-tokens 5 --max-new-tokens 4 --batch-size 2
check "bench generate measures prefill and decode of a decoder-only model" [ "$code" = 0 -a \
    "$(grep -cE '^\{"bench":"generate","shape":"(prefill 5|decode 4), batch 2","provider":"[a-z0-9-]*","precision":"fp32","runs":1,"median_s":[0-9].*,"min_s":.*,"per_s":[0-9.e+]*\}$' out)" = 2 ]
check "bench generate counts the tokens of all prompts" python3 -c '
import json
a, b = map(json.loads, open("out"))
assert abs(a["per_s"] * a["median_s"] - 10) < 1e-3 and abs(b["per_s"] * b["median_s"] - 8) < 1e-3, (a, b)'
# shellcheck disable=SC2086
hasty run bench generate --json --runs 1 $scalar -m "$llama" --prompt-tokens 5 --max-new-tokens 4 --precision int8
check "bench generate --precision int8 quantizes the weights" [ "$code" = 0 -a "$(grep -c '"precision":"int8"' out)" = 2 ]
hasty run bench generate --json --runs 1 $scalar -m "$llama" --prompt-tokens 5 --max-new-tokens 4 --depth 30
check "bench generate --depth measures after tokens in the KV cache" [ "$code" = 0 -a "$(grep -c ', depth 30"' out)" = 2 ]
hasty run bench generate --json --runs 1 $scalar -m "$llama" --prompt-tokens 5 --max-new-tokens 4 --depth 0
check "bench generate accepts a depth of 0" [ "$code" = 0 -a "$(grep -c 'depth' out)" = 0 ]
run bench generate -m "$llama" --depth 30 --batch-size 2
check "bench generate --depth --batch-size is a usage error" one_sentence 2 'do not go together'
run bench generate -m "$llama" --depth 1024
check "bench generate rejects a depth that is too large for the model" one_sentence 1 'takes up to 1024 tokens: give less'
run bench generate -m "$demo"
check "bench generate refuses a translation model" one_sentence 1 'of the family marian, does not generate text'
run bench generate -m "$llama" --prompt-tokens 99999
check "bench generate rejects a prompt that is too long for the model" one_sentence 1 '--prompt-tokens 1024, or less'
run bench generate -m "$llama" --max-new-tokens 1024
check "bench generate rejects more new tokens than the model has positions" one_sentence 1 '--max-new-tokens 1023, or less'
hasty run bench norm --json --runs 1 3x5
check "bench norm measures only the device's own variant by default" [ "$code" = 0 -a "$(sed 's/.*"provider":"\([^"]*\)".*/\1/' out | sort -u | wc -l)" = 1 ]
if ! brief; then # compiles kernels for each
    run bench norm --json --runs 1 --variant all 3x5
    check "bench norm --variant all measures the other variants too" both 0 says out '"provider":"scalar"'
fi
if command -v taskset >/dev/null && [ "$(nproc)" -gt 1 ]; then
    # The last core alone: threads bound to other cores would run there. The process status lists the allowed cores.
    last=$(taskset -cp $$ | sed 's/.*[^0-9]//')
    taskset -c "$last" "$tfm" bench norm --json --runs 2000000000 3x5 >/dev/null 2>&1 &
    child=$!
    tries=0
    until [ "$(ls /proc/$child/task 2>/dev/null | wc -l)" -gt 1 ] || [ $tries -ge 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    sleep 0.5 # threads set their affinity when they start
    cat /proc/$child/task/*/status 2>/dev/null | grep '^Cpus_allowed_list' | sort -u >cores
    kill $child 2>/dev/null
    wait $child 2>/dev/null
    check "bench keeps all threads on the cores that taskset allows" [ "$(cut -f2 cores)" = "$last" ]
else
    skip "bench keeps all threads on the cores that taskset allows" "there is no taskset, or one core only"
fi
run bench translate
check "bench translate without -m is a usage error" one_sentence 2 'give -m MODEL'
run bench generate
check "bench generate without -m is a usage error" one_sentence 2 'give -m MODEL'
run bench
check "bench without an operation is a usage error" one_sentence 2 'give one of gemm|attention|norm|translate|generate;'
for wrong in 'frob' 'gemm 1x2' 'gemm 1x2x3q' 'gemm 0x2x3' 'norm 3x4x5' 'attention 1x2x3' 'gemm --variant frob' \
    'gemm --provider frob' 'translate stray' 'generate stray' 'gemm 99999999999x1x1'; do
    # shellcheck disable=SC2086 # words
    run bench $wrong
    check "bench $wrong is a usage error" one_sentence 2 "$(echo "$wrong" | sed 's/.* //')"
done
for other in 'attention 1x1x1x1 --precision fp16' 'attention 1x1x1x1 --accumulate' 'norm 3x5 --provider reference' \
    'gemm 1x1x1 --causal' 'norm 3x5 --backward' 'gemm 1x1x1 -m model' 'norm 3x5 -i lines' 'translate --batch-size 2' \
    'attention 1x1x1x1 --prompt-tokens 2' 'gemm 1x1x1 --max-new-tokens 2'; do
    # shellcheck disable=SC2086 # words
    run bench $other
    check "bench $other is a usage error" one_sentence 2 ", and this is ${other%% *}"
done
for list in variant provider; do
    run bench attention 1x2x3x4 --$list ''
    check "bench with an empty --$list list is a usage error" one_sentence 2 "--$list names none"
done

echo "1..$count"
