# tfm pull, models and rm, and names of the Hugging Face hub as models: against a server that behaves like the hub.
#     sh tests/apps/pull.sh PROGRAM SOURCE_ROOT
# Prints TAP.
. "$(dirname "$0")/common.sh"
unset HF_TOKEN HF_TOKEN_PATH HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_HUB_OFFLINE TRANSFORMERS_OFFLINE XDG_CACHE_HOME
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
export HF_HOME="$here/hf" HF_HUB_DOWNLOAD_TIMEOUT=5
cache=$HF_HOME/hub
hub=$here/root

run pull acme/tiny
if grep -q 'built without libcurl' err; then
    check "pull without libcurl names another way to download" one_sentence 1 'hf download acme/tiny'
    echo "1..$count"
    exit
fi

# random FILE BYTES: a file of arbitrary, but fixed bytes
random() {
    python3 -c 'import random, sys; open(sys.argv[1], "wb").write(random.Random(sys.argv[1]).randbytes(int(sys.argv[2])))' "$1" "$2"
}
# repository NAME REVISION COMMIT FILE...: files of a repository; those with weights are random
repository() {
    folder=$hub/$1/$2
    mkdir -p "$folder"
    echo "$3" >"$folder/.commit"
    shift 3
    for file; do
        mkdir -p "$(dirname "$folder/$file")"
        case $file in
        *.json) echo '{}' >"$folder/$file" ;;
        *.safetensors | *.bin | *.gguf | *.h5) random "$folder/$file" 40000 ;;
        *) echo text >"$folder/$file" ;;
        esac
    done
}
one=1111111111111111111111111111111111111111
two=2222222222222222222222222222222222222222
repository acme/demo main $one README.md .gitattributes onnx/model.onnx
cp "$demo"/*.json "$demo"/*.spm "$demo"/model.safetensors "$hub/acme/demo/main"
repository acme/tiny main $one config.json tokenizer.json model.safetensors pytorch_model.bin tf_model.h5 model.fp16.safetensors
repository acme/tiny v2 $two config.json tokenizer.json model.safetensors
printf '{"new": 1}' >"$hub/acme/tiny/v2/config.json"
cp "$hub/acme/tiny/main/model.safetensors" "$hub/acme/tiny/v2"
repository acme/torch main $one config.json pytorch_model.bin rust_model.ot
repository acme/shards main $one config.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors \
    consolidated.safetensors
echo '{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}' \
    >"$hub/acme/shards/main/model.safetensors.index.json"
repository acme/sentences main $one config.json tokenizer.json model.safetensors 1_Pooling/config.json \
    2_Dense/config.json 2_Dense/model.safetensors 3_Other/model.safetensors config_sentence_transformers.json
echo '[{"path": "", "type": "x"}, {"path": "1_Pooling"}, {"path": "2_Dense"}, {"path": "../../x"}]' \
    >"$hub/acme/sentences/main/modules.json"
repository acme/gguf main $one config.json tiny-Q4_K_M.gguf tiny-Q8_0.gguf "tiny with blanks-IQ3_M.gguf" mmproj-F16.gguf \
    big-F16-00001-of-00002.gguf big-F16-00002-of-00002.gguf
repository acme/sizes main $one tiny-Q2_K.gguf tiny-Q8_0.gguf
repository acme/single main $one only-f32.gguf
repository acme/none main $one config.json tf_model.h5
repository gated/tiny main $one config.json model.safetensors

mkfifo control
python3 "$root/tests/support/hub_server.py" "$hub" <control >ports &
exec 9>control
while [ ! -s ports ]; do sleep 0.1; done
read -r port files_port <ports
export HF_ENDPOINT="http://127.0.0.1:$port/"

# fault KIND TIMES PATTERN [VALUE]: the next requests fail so; `fault` alone: none does
faults=0
fault() {
    faults=$((faults + 1))
    if [ $# = 0 ]; then : >"$hub/faults"; else echo "$*" >"$hub/faults"; fi
    : >"$hub/log"
}
# files NAME COMMIT: the files of a snapshot, sorted, in one line
files() {
    (cd "$cache/models--$(echo "$1" | sed 's|/|--|')/snapshots/$2" 2>/dev/null && find . ! -type d | sort | sed 's|^\./||' | tr '\n' ' ')
}
# failed TEXT: like one_sentence 1, after lines of progress
failed() {
    [ "$code" = 1 ] && [ "$(grep -vc ' of [0-9]* files, ' err)" = 1 ] && tail -n 1 err | grep -qF -- "$1"
}
requests() {
    grep -c "$1" "$hub/log"
}
forget() {
    rm -rf "$cache"
    fault
}

# ---- Names

forget
run info acme/tiny
check "info of a name that is not in the cache suggests tfm pull" one_sentence 1 'download it with `tfm pull acme/tiny`'
check "info of a name makes no request" [ ! -s "$hub/log" ]
run info ./acme/tiny
check "info of a path that does not exist suggests no download" one_sentence 1 './acme/tiny/config.json: there is no such directory'
mkdir -p acme
cp -r "$demo" acme/tiny
run info acme/tiny
check "info prefers a local directory to a name in the cache" both 0 says out '^architecture  *marian'
rm -rf acme
for name in ../x /x a/b/c a..b/c 'a b/c' a--b/c -a/b a/b.git a/ /b 'a/b@' 'a/b@../x' 'a/b@x/../y' 'a/b:../x.gguf' 'a/b:/x.gguf'; do
    run pull -- "$name"
    check "pull refuses the name $name" one_sentence 1 'is not a name of the Hugging Face hub'
done
check "pull of invalid names makes no request" [ ! -s "$hub/log" ]

# ---- Downloads

run pull acme/demo
check "pull prints the path of the snapshot" [ "$code" = 0 -a "$(cat out)" = "$cache/models--acme--demo/snapshots/$one" ]
check "pull downloads only files that tfm reads" [ "$(files acme/demo $one)" = "config.json generation_config.json \
model.safetensors source.spm target.spm tokenizer_config.json vocab.json " ]
check "pull links snapshots to blobs by relative paths" [ "$(readlink "$cache/models--acme--demo/snapshots/$one/model.safetensors")" = \
    "../../blobs/$(sha256sum <"$demo/model.safetensors" | cut -d' ' -f1)" ]
check "pull writes the commit to refs/main without a line end" [ "$(cat "$cache/models--acme--demo/refs/main")" = $one -a \
    "$(wc -c <"$cache/models--acme--demo/refs/main")" = 40 ]
check "pull without a terminal prints a line for each file" [ "$(grep -c ' of 7 files, ' err)" -ge 7 ]
check "pull leaves no unfinished file" [ -z "$(find "$cache" -name '*.incomplete' -o -name '*.unfinished' -o -name '*.tmp')" ]
run translate -m acme/demo --beam-size 1 -i two.de
mv out want
run translate -m "$demo" --beam-size 1 -i two.de
check "translate -m NAME equals translate -m DIRECTORY" same out want
run quantize acme/demo -o small
check "quantize takes a name in the cache" both 0 says out 'small: .* million parameters'
: >"$hub/log"
run pull acme/demo
check "pull of a model in the cache downloads nothing" [ "$code" = 0 -a "$(requests resolve)" = 0 ]

run pull acme/torch
check "pull falls back to pytorch_model.bin" [ "$(files acme/torch $one)" = "config.json pytorch_model.bin " ]
run pull acme/shards
check "pull downloads the shards that the index names" [ "$(files acme/shards $one)" = "config.json \
model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json " ]
run pull acme/sentences
check "pull downloads the modules of sentence-transformers" [ "$(files acme/sentences $one)" = "1_Pooling/config.json \
2_Dense/config.json 2_Dense/model.safetensors config.json config_sentence_transformers.json model.safetensors modules.json tokenizer.json " ]
check "pull links the files of subfolders with the right depth" same "$cache/models--acme--sentences/snapshots/$one/2_Dense/model.safetensors" \
    "$hub/acme/sentences/main/2_Dense/model.safetensors"
run pull acme/none
check "pull names the files of a repository without usable weights" one_sentence 1 'it has config.json, tf_model.h5'

# ---- GGUF

run pull acme/gguf
check "pull of GGUF files selects Q4_K_M" [ "$code" = 0 -a "$(files acme/gguf $one)" = "tiny-Q4_K_M.gguf " ]
check "pull of a GGUF file prints its path" [ "$(cat out)" = "$cache/models--acme--gguf/snapshots/$one/tiny-Q4_K_M.gguf" ]
run pull acme/gguf:q8_0
check "pull :TYPE selects a quantization type" [ "$(files acme/gguf $one)" = "tiny-Q4_K_M.gguf tiny-Q8_0.gguf " ]
run pull "acme/gguf:tiny with blanks-IQ3_M.gguf"
check "pull :FILE downloads a name with blanks" same "$cache/models--acme--gguf/snapshots/$one/tiny with blanks-IQ3_M.gguf" \
    "$hub/acme/gguf/main/tiny with blanks-IQ3_M.gguf"
run pull acme/gguf:F16
check "pull of a split model prints the path of its first part" [ "$(basename "$(cat out)")" = big-F16-00001-of-00002.gguf ]
check "pull of a split model downloads all parts" [ -e "$cache/models--acme--gguf/snapshots/$one/big-F16-00002-of-00002.gguf" ]
run pull acme/gguf:Q4_K
check "pull does not match a quantization type by a part of another" one_sentence 1 'no GGUF file of the name or type Q4_K: give one of'
run pull acme/sizes
check "pull lists GGUF files without Q4_K_M" one_sentence 1 'give one as acme/sizes:FILE, of tiny-Q2_K.gguf, tiny-Q8_0.gguf'
run pull acme/single
check "pull selects the only GGUF file" both 0 says out 'only-f32.gguf$'
run info acme/single:Q8_0
check "info of a GGUF file that is not in the cache suggests tfm pull" one_sentence 1 'tfm pull acme/single:Q8_0'

# ---- Revisions

forget
run pull acme/tiny --revision v2
check "pull --revision downloads a tag" [ "$(cat "$cache/models--acme--tiny/refs/v2")" = $two ]
run info acme/tiny
check "info names a revision that is not in the cache" one_sentence 1 'has acme/tiny, but not its revision main'
run pull "acme/tiny@$one"
check "pull @COMMIT writes no reference" [ "$code" = 0 -a ! -e "$cache/models--acme--tiny/refs/$one" ]
run pull acme/tiny@v2
check "pull NAME@REVISION is the same as --revision" both 0 says out "snapshots/$two\$"
run pull acme/tiny@v2 --revision main
check "pull refuses two different revisions" one_sentence 1 'v2 in the name and main in the options'
run pull acme/tiny@v3
check "pull names an unknown revision" one_sentence 1 'no such revision'
run pull acme/tiny
run models
check "models lists revisions with references" [ "$(grep -c 'acme/tiny$' out)" = 2 -a -n "$(grep '  main  .*acme/tiny' out)" ]
run models --json
check "models --json has files, bytes and path" [ "$(python3 -c '
import json
print(*((m["name"], m["revision"], m["commit"], m["files"], m["bytes"], m["path"][-40:]) for m in json.load(open("out"))))')" = \
    "('acme/tiny', 'main', '$one', 3, 40003, '$one') ('acme/tiny', 'v2', '$two', 3, 40013, '$two')" ]

# ---- Deletion

before=$(ls "$cache/models--acme--tiny/blobs" | wc -l)
run rm acme/tiny@v2 </dev/null
check "rm without a terminal needs --yes" one_sentence 1 'give --yes'
run rm --dry-run acme/tiny@v2
check "rm --dry-run deletes nothing" [ "$code" = 0 -a "$(ls "$cache/models--acme--tiny/blobs" | wc -l)" = "$before" ]
run rm --yes acme/tiny@v2
check "rm of a revision keeps blobs of others" [ "$code" = 0 -a "$(ls "$cache/models--acme--tiny/blobs" | wc -l)" = $((before - 1)) -a \
    "$(cat "$cache/models--acme--tiny/snapshots/$one/config.json")" = '{}' -a ! -e "$cache/models--acme--tiny/refs/v2" ]
echo n >in
in_terminal 80 rm acme/tiny
check "rm asks and keeps the model for another answer than y" [ -d "$cache/models--acme--tiny" ]
run rm -y acme/tiny acme/absent
check "rm reports a name that is not in the cache" one_sentence 1 'acme/absent'
check "rm deletes the whole repository" [ ! -e "$cache/models--acme--tiny" ]
run models
check "models of an empty cache says how to download" both 0 says err 'tfm pull ORG/NAME'

# ---- Access

forget
run pull gated/tiny
check "pull of a gated model without a token says to set HF_TOKEN" one_sentence 1 'set HF_TOKEN'
export HF_TOKEN=bad
run pull gated/tiny
check "pull of a gated model with a token without access is refused" one_sentence 1 'access to it is restricted (HTTP 403)'
export HF_TOKEN=good
: >"$hub/log"
run pull gated/tiny
check "pull downloads a gated model with a token" [ "$code" = 0 ]
check "pull sends the token to the hub" [ "$(requests '^hub .* token ')" -ge 3 -a "$(requests '^hub .* - -$')" = 0 ]
check "pull does not send the token to another server" [ "$(requests '^files .* token ')" = 0 -a "$(requests '^files ')" = 1 ]
unset HF_TOKEN
echo ' good ' >"$HF_HOME/token"
rm -rf "$cache"
run pull gated/tiny
check "pull reads the token from HF_HOME/token" [ "$code" = 0 ]
HF_TOKEN='a
b' run pull gated/tiny
check "pull refuses a token with a line end" one_sentence 1 'HF_TOKEN is not an access token'
rm "$HF_HOME/token"
run pull acme/absent
check "pull without a token says that a model is unknown, private or gated" one_sentence 1 'no such model, or it is private or gated (HTTP 401)'
HF_TOKEN=good run pull acme/absent
check "pull with a token says that a model is unknown" one_sentence 1 'no such model (HTTP 404)'
run pull renamed/single
check "pull follows the redirect of a renamed model" both 0 says out 'models--renamed--single/'
HF_HUB_OFFLINE=1 run pull acme/tiny
check "pull with HF_HUB_OFFLINE downloads nothing" one_sentence 1 'HF_HUB_OFFLINE is set'
HF_HUB_OFFLINE=1 run info renamed/single
check "info with HF_HUB_OFFLINE reads the cache" [ -z "$(grep 'no model of this name' err)" ]
HF_ENDPOINT=ftp://localhost run pull acme/tiny
check "pull refuses an HF_ENDPOINT other than http and https" one_sentence 1 'HF_ENDPOINT is ftp://localhost'

# ---- Failures that end

weights=$hub/acme/tiny/main/model.safetensors
sha=$(sha256sum <"$weights" | cut -d' ' -f1)
blob=$cache/models--acme--tiny/blobs/$sha
# arrived: the last run downloaded the right weights
arrived() {
    [ "$code" = 0 ] && cmp -s "$cache/models--acme--tiny/snapshots/$one/model.safetensors" "$weights"
}
forget
fault break 2 files 15000
run pull acme/tiny
check "pull resumes a broken transfer" both 0 arrived
check "pull requests only the rest of a broken transfer" [ "$(requests '^files .*bytes=15000-')" = 1 -a "$(requests '^files .*bytes=30000-')" = 1 ]
forget
fault status 2 resolve 503
run pull acme/tiny
check "pull repeats a request after HTTP 503" both 0 arrived
forget
fault wait 1 resolve 2
start=$(date +%s)
run pull acme/tiny
check "pull repeats a request after HTTP 429" both 0 arrived
check "pull waits as Retry-After says" [ $(($(date +%s) - start)) -ge 2 ]
check "pull warns before it waits for Retry-After" says err 'HTTP 429'
forget
fault wait 1 api 1
run pull acme/tiny
check "pull repeats a request to the API after HTTP 429" both 0 arrived
forget
fault wrong 1 files
run pull acme/tiny
check "pull downloads a file with a wrong SHA-256 again" both 0 arrived
forget
mkdir -p "$cache/models--acme--tiny/blobs"
random "$blob.incomplete" 20000
run pull acme/tiny
check "pull replaces a damaged part of an earlier download" both 0 arrived
forget
mkdir -p "$cache/models--acme--tiny/blobs"
head -c 20000 "$weights" >"$blob.incomplete"
run pull acme/tiny
check "pull uses a part of an earlier download" [ "$code" = 0 -a "$(requests '^files .*bytes=20000-')" = 1 ] && arrived
forget
mkdir -p "$cache/models--acme--tiny/blobs"
head -c 20000 "$weights" >"$blob.incomplete"
fault whole 1 files
run pull acme/tiny
check "pull from a server without ranges downloads from the beginning" both 0 arrived
forget
mkdir -p "$cache/models--acme--tiny/blobs"
{ cat "$weights" && echo more; } >"$blob.incomplete"
run pull acme/tiny
check "pull replaces a part that is longer than the file" both 0 arrived
forget
fault status 1 /tree/ 404
run pull acme/tiny
check "pull from a mirror without lists of files downloads the model" both 0 arrived
check "pull requests the etags that the list of files lacks" [ "$(requests '^hub HEAD .*/resolve/')" = 3 ]

# ---- Failures that stay

forget
fault wrong 9 files
run pull acme/tiny
check "pull of a file whose SHA-256 stays wrong is an error" failed 'its SHA-256 is'
check "pull gives a file with a wrong SHA-256 no name" [ ! -e "$blob" -a ! -e "$cache/models--acme--tiny/snapshots" ]
run info acme/tiny
check "pull leaves no model after a failed download" one_sentence 1 'download it with `tfm pull acme/tiny`'
forget
fault status 99 resolve 500
run pull acme/tiny
check "pull is an error if HTTP 500 repeats" failed 'answers HTTP 500'
forget
fault wait 9 resolve 100000
run pull acme/tiny
check "pull is an error if Retry-After is too long" failed 'HTTP 429 (too many requests)'
forget
fault html 1 api
run pull acme/tiny
check "pull is an error if the hub answers a web page instead of JSON" one_sentence 1 'web page instead of JSON'
for body in '{' '[]' '{"sha": "../x"}' '{"sha": 7}' '{"sha": "'$one'", "sha": 1}' '"x"' "$(printf '%9000s' '' | tr ' ' '[')"; do
    fault body 1 revision "$body"
    run pull acme/tiny
    check "pull is an error if the hub answers $(echo "$body" | head -c 30)" [ "$code" = 1 -a "$(wc -l <err)" = 1 ]
done
for body in '{}' '[{}]' '[{"path": "model.safetensors", "size": -1}]' '[{"path": "model.safetensors", "size": "x"}]' \
    '[{"path": "model.safetensors", "size": 9, "lfs": {"oid": "../../x"}}]' '[]' '[7]'; do
    fault body 1 /tree/ "$body"
    run pull acme/tiny
    check "pull is an error if the list of files is $body" [ "$code" = 1 -a "$(wc -l <err)" = 1 ]
done
fault body 1 /tree/ "[{\"path\": \"model.safetensors\", \"size\": 1000000000000000, \"lfs\": {\"oid\": \"$sha\", \"size\": 1000000000000000}}]"
run pull acme/tiny
check "pull refuses a model larger than the disk before its download" one_sentence 1 'MB free'
forget
fault body 1 /tree/ "[{\"path\": \"model.safetensors\", \"size\": 100, \"lfs\": {\"oid\": \"$sha\", \"size\": 100}}]"
run pull acme/tiny
check "pull refuses a file longer than its size" failed 'more than its 100 bytes'
forget
for path in ../../../../escaped.json /tmp/escaped.json 'a\b.json' .ssh/config.json 'x/../../config.json' ../config.json; do
    fault link 9 api "$path"
    run pull acme/tiny
    check "pull does not follow the path $path of the server" [ "$code" = 0 -a "$(files acme/tiny $one)" = \
        "config.json model.safetensors tokenizer.json " -a -z "$(find "$here" /tmp -maxdepth 1 -name 'escaped*' 2>/dev/null)" ]
done
echo '[]' >page.json
fault next 1 /tree/ "file://$here/page.json"
run pull acme/tiny
check "pull refuses a next page of a scheme other than http" one_sentence 1 'only http and https'
fault next 1 /tree/ "http://127.0.0.1:$files_port/x.json"
HF_TOKEN=good run pull acme/tiny
check "pull sends no token to the next page of another server" [ "$(requests '^files .* token ')" = 0 -a "$(requests '^files .*x.json')" -ge 1 ]
cp -r "$hub/acme/shards/main" "$hub/acme/shards/bad"
echo $two >"$hub/acme/shards/bad/.commit"
echo '{"weight_map": {"a": "../../../../x.safetensors"}}' >"$hub/acme/shards/bad/model.safetensors.index.json"
run pull acme/shards@bad
check "pull refuses an index that names a file elsewhere" failed 'which the repository does not have'
run pull acme/tiny --max-workers 1
check "pull --max-workers 1 downloads a model" [ "$code" = 0 ]
rm -rf "$cache"
(
    trap '' XFSZ
    ulimit -f 20
    run pull acme/tiny
    echo "$code" >code
)
code=$(cat code)
check "pull is an error if a write fails" failed 'cannot write'

# ---- Interruption, and several processes

forget
fault slow 9 files 20000
"$tfm" pull acme/tiny >out 2>err &
pid=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    [ "$(cat "$blob.incomplete" 2>/dev/null | wc -c)" -gt 2000 ] && break
    sleep 0.1
done
kill -TERM $pid # sh lets programs in the background ignore SIGINT
wait $pid
code=$?
check "pull says after SIGTERM that it resumes" both 1 says err 'was stopped: start it again to resume'
check "pull keeps the part of a file after SIGTERM" [ -s "$blob.incomplete" -a ! -e "$blob" ]
fault
run pull acme/tiny
check "pull resumes after an interruption" both 0 arrived
check "pull requests only the rest after an interruption" [ "$(requests '^files .*bytes=[1-9]')" = 1 ]
forget
fault slow 9 files 40000
"$tfm" pull acme/tiny >first 2>err1 &
pid=$!
run pull acme/tiny
second=$code
wait $pid
check "pull in two processes downloads the same model" [ "$?" = 0 -a "$second" = 0 ]
check "pull in two processes downloads each large file once" [ "$(requests '^files ')" = 1 ]
check "pull in two processes gives the right file" arrived
forget
fault slow 9 files 30000
# All progress lines that a terminal of 80 columns shows, one on each line.
python3 - "$tfm" pull acme/tiny <<'END' >shown
import fcntl, os, pty, struct, sys, termios
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
text = b""
try:
    while part := os.read(terminal, 4096):
        text += part
except OSError:
    pass
print("\n".join(line for line in text.decode().replace("\x1b[K", "").split("\r") if "%" in line))
END
check "pull shows a progress bar on a terminal" says shown '^tiny  \[##* *\]  *[0-9]*%  .* of 40.0 kB'
check "pull shows a progress bar of at most 79 columns" [ "$(wc -L <shown)" -le 79 ]
fault

# ---- The server

run serve -m acme/demo -p 0
check "serve without --pull downloads nothing" one_sentence 1 'download it with `tfm pull acme/demo`'
run serve --pull -m acme/absent -p 0
check "serve --pull reports a failed download" one_sentence 1 'cannot download acme/absent'
"$tfm" serve --pull -m de-en=acme/demo -p 0 >out 2>err &
pid=$!
for _ in $(seq 100); do
    grep -q 'listening\|serves\|http://' out err && break
    sleep 0.1
done
kill -TERM $pid
wait $pid
code=$?
check "serve --pull downloads a model and starts" [ "$code" = 0 -a -e "$cache/models--acme--demo/snapshots/$one/model.safetensors" ]

exec 9>&-
echo "1..$count"
