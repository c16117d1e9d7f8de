# tfm serve: help, and options that it rejects before it listens.
#     sh tests/serve/options.sh PROGRAM SOURCE_ROOT
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
. "$root/tests/checks.sh"
. "$root/tests/serve/common.sh"

run serve --help
check "serve --help has examples" both 0 says out 'examples:'
check "serve --help prints nothing on stderr" [ ! -s err ]
check "serve --help is narrower than 80 columns" [ "$(wc -L <out)" -lt 80 ]
run serve
check "serve without --model is a usage error that says what to give" one_sentence 2 'no model is given: give --model'
run serve -m "$demo" -m "$demo"
check "serve rejects two models with the same name" one_sentence 1 'two models have the name de-en'
run serve -m x=$demo
check "serve rejects a translation model whose name is not a language pair" one_sentence 1 'its name is two languages, as in de-en='
run serve -m nowhere
check "serve names a model directory that does not exist" one_sentence 1 'nowhere'
run serve -m "$demo" --port 0 -d nowhere
check "serve names a device selector that matches no device" one_sentence 1 'nowhere'
run serve -m "$demo" --port 0 -d 0,nowhere
check "serve names the selector of a device list that matches no device" one_sentence 1 '"nowhere" matches no device'
run serve -m "$demo" --api-key short
check "serve rejects an API key that is too short" one_sentence 1 'give 8 to 255'
run serve -m "$demo" --ctx-size 9
check "serve rejects --ctx-size without a decoder-only model" one_sentence 1 '--ctx-size is for decoder-only models, and none is served'
run serve -m "$root/tests/golden/embedder" --kv-precision int8
check "serve rejects --kv-precision without a KV cache" one_sentence 1 '--kv-precision is for models with a KV cache, and none is served'
run serve -m "$demo" --memory-limit 1
check "serve rejects a --memory-limit too small for the model" one_sentence 1 'more than --memory-limit 1'
run serve -m "$demo" --memory-limit 1000 --preload
check "serve rejects --preload with --memory-limit" one_sentence 2 '--preload and --memory-limit do not go together'
run serve -m "$demo" --host 256.1.1.1
check "serve rejects an invalid --host address" one_sentence 1 'cannot listen on --host 256.1.1.1: '
run serve -m "$demo" --host 192.0.2.1 # reserved for documentation, an address of no machine
check "serve rejects a --host address of another machine" one_sentence 1 'give an address of this machine'
run serve -m "$demo" --api-keys nowhere
check "serve names an --api-keys file that does not exist" one_sentence 1 'cannot read --api-keys nowhere: No such file'
printf '0123456789abcdef 60\nfedcba9876543210 60 a\n' >keys
run serve -m "$demo" --api-keys keys
check "serve names the line of --api-keys with an invalid limit" one_sentence 1 'keys, line 2: the limits of a key are numbers from 1 on'
for limits in 0 -1 1.5 '1 0' '1 2 3' 99999999999; do
    echo "0123456789abcdef $limits" >keys
    run serve -m "$demo" --api-keys keys
    check "serve rejects the limits of a key: $limits" one_sentence 1 'keys, line 1: the limits of a key'
done
: >keys
run serve -m "$demo" --api-keys keys
check "serve rejects an empty --api-keys file" one_sentence 1 'keys has no key: put one on each line'
run serve -m "$demo" --keep '['
check "serve rejects --keep with an invalid regular expression" one_sentence 2 '--keep: the regular expression "["'
printf 'A+\nx*\n' >patterns
run serve -m "$demo" --keep-file patterns
check "serve --keep-file names the file and the line of an invalid pattern" one_sentence 2 '--keep-file patterns, line 2: the pattern "x*" matches the empty text'
run serve -m "$demo" --keep-file nowhere
check "serve names a --keep-file that does not exist" one_sentence 1 '--keep-file nowhere: No such file'
for model in a= =a; do
    run serve -m $model
    check "serve -m $model is a usage error" one_sentence 2 "-m is '$model': give NAME=MODEL"
done

echo "1..$count"
