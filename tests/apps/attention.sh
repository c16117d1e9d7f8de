# tfm attention: attention weights as JSON and as pictures.
#     sh tests/apps/attention.sh PROGRAM SOURCE_ROOT PROGRAM_WITHOUT_PICTURES
# Prints TAP.
plain=$(realpath "$3")
. "$(dirname "$0")/common.sh"

demo_sizes
# pieces TEXT: its SentencePiece pieces in one string
pieces() {
    echo "▁$1" | sed 's/ /▁/g'
}
attention() {
    run attention -m "$demo" "$@"
}
# shapes FILE: a line `layers first last heads rows columns good`; good: all rows are attention weights.
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
# picture FILE: its file type, by content
picture() {
    case $(head -c 8 "$1" | od -An -tx1 | tr -d ' \n') in
    89504e470d0a1a0a) echo png ;;
    *) grep -q '<svg ' "$1" && tail -n 1 "$1" | grep -q '^</svg>$' && echo svg ;;
    esac
}
attention "$german" --json
check "attention --json prints the attention weights of all layers and heads" [ "$code" = 0 -a "$(shapes out)" = "$((encoder_layers + 2 * decoder_layers)) encoder.1.self \
decoder.$decoder_layers.cross $decoder_attention_heads <pad>$(pieces "$english") $(pieces "$german")</s> True" ]
mv out whole.json
attention "$german" -o numbers.json
check "attention -o FILE.json writes the attention weights" both 0 cmp -s numbers.json whole.json
attention "$german" -o numbers.json --json
check "attention -o FILE.json --json writes and prints the attention weights" both 0 cmp -s numbers.json out
attention "Ich liebe dich." --json --target "I love Tom" --kind cross --layer 2 --head 3
check "attention --target --kind --layer --head selects one head of one layer" [ "$code" = 0 -a "$(shapes out)" = \
    "1 decoder.2.cross decoder.2.cross 1 <pad>▁I▁love▁Tom ▁Ich▁liebe▁dich.</s> True" ]
attention "Danke." --json --kind encoder
check "attention --kind encoder selects the encoder's layers" [ "$(shapes out | cut -d' ' -f1-3)" = \
    "$encoder_layers encoder.1.self encoder.$encoder_layers.self" ]
attention "Danke." --json --k encoder
check "attention accepts the unique beginning of an option's name" [ "$code" = 0 ]
attention "Danke." --json --h 1
check "attention rejects an ambiguous beginning of an option's name" one_sentence 2 '--h may be more than one option'
attention "Danke." -o picture.gif
check "attention rejects an unknown file extension" one_sentence 2 "'picture.gif'"
attention "Danke."
check "attention without --json or -o is a usage error" one_sentence 2 '--json'
attention --json
check "attention without a text is a usage error" one_sentence 2 'no TEXT is given'
run attention "Danke." --json
check "attention without -m is a usage error" one_sentence 2 'give -m MODEL'
attention "" --json
check "attention rejects an empty text" one_sentence 1 'no words'
attention "$(printf 'Dan\377ke.')" --json
check "attention rejects a source text with invalid UTF-8" one_sentence 1 'source text: byte 4'
attention "Danke." --target "$(printf 'Th\377anks.')" --json
check "attention rejects a target text with invalid UTF-8" one_sentence 1 'target text: byte 3'
attention "$(awk 'BEGIN { for (i = 0; i < 900; i++) printf "Haus " }')" --json
check "attention rejects a text that is too long for the model" one_sentence 1 'takes at most'
attention "Danke." --layer $((encoder_layers + 1)) --json
check "attention rejects a layer that the model does not have" one_sentence 1 "--layer is $((encoder_layers + 1))"
attention "Danke." --head $((encoder_attention_heads + 1)) --json
check "attention rejects a head that the model does not have" one_sentence 1 "--head is $((encoder_attention_heads + 1))"
mkdir damaged && cp "$demo"/*.json "$demo"/*.spm damaged && python3 - "$demo/model.safetensors" damaged/model.safetensors <<'END'
import json, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
start = 8 + struct.unpack("<Q", data[:8])[0]
at = start + json.loads(data[8:start])["model.encoder.layers.0.self_attn.q_proj.weight"]["data_offsets"][0]
data[at:at + 2] = b"\x00\x7e"  # an fp16 NaN
open(sys.argv[2], "wb").write(data)
END
run attention -m damaged "Danke." --target "Thanks." --json
check "attention reports parameters that are NaN" one_sentence 1 'are NaN or infinite'
"$plain" attention -m "$demo" "$german" --json >out 2>err
code=$?
check "attention without cairo prints the attention weights" both 0 cmp -s out whole.json
"$plain" attention -m "$demo" "Danke." -o picture.svg >out 2>err
code=$?
check "attention -o picture.svg without cairo names the package to install" one_sentence 1 'libcairo2-dev'
attention "Danke." -o picture.svg
if [ "$code" = 1 ] && grep -q 'libcairo2-dev\|fonts-dejavu-core' err; then
    skip "attention -o renders pictures" "$(cat err)"
else
    check "attention -o picture.svg writes SVG" [ "$code" = 0 -a "$(picture picture.svg)" = svg -a ! -s err ]
    cp picture.svg again.svg
    attention "Danke." -o picture.svg
    check "attention -o picture.svg writes the same bytes again" same picture.svg again.svg
    attention "Danke." --kind cross -o cross.svg
    check "attention -o cross.svg labels the rows of cross-attention with target tokens" both 0 grep -q '<title>.* looks at .*Danke: [01]\.' cross.svg
    check "attention -o cross.svg has no row for the start token" [ "$(grep -c '&lt;pad&gt;</text>' cross.svg)" = 0 ]
    check "attention -o cross.svg shows the mean of the heads" grep -q ">mean of $decoder_attention_heads heads</text>" cross.svg
    attention "$german" -o picture.PNG --json
    check "attention -o picture.PNG writes PNG" [ "$code" = 0 -a "$(picture picture.PNG)" = png ]
    check "attention -o picture.PNG --json also prints the attention weights" cmp -s out whole.json
    attention "$(sed -n '1,8p' "$demo/test.de" | tr '\n' ' ')" --kind cross -o long.png
    check "attention -o long.png renders a long text" [ "$code" = 0 -a "$(picture long.png)" = png ]
    long=$(awk 'BEGIN { for (i = 0; i < 480; i++) printf "Haus " }')
    attention "$long" --target "$long" -o huge.png
    check "attention -o huge.png rejects a picture with too many pixels for PNG" one_sentence 1 'with --kind'
    attention "Danke." -o nowhere/picture.svg
    check "attention -o in a directory that does not exist is an error" one_sentence 1 'nowhere/picture.svg'
    echo old >old.svg
    attention "$(printf 'Dan\377ke.')" -o old.svg
    check "attention -o leaves the old file after a failure" [ "$code" = 1 -a "$(cat old.svg)" = old -a "$(echo old.svg*)" = old.svg ]
    echo '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig></fontconfig>' >fonts.conf
    FONTCONFIG_FILE=$here/fonts.conf "$tfm" attention -m "$demo" "Danke." -o bare.svg >out 2>err
    code=$?
    check "attention -o bare.svg without fonts names the package to install" one_sentence 1 'fonts-dejavu-core'
    if [ -w /dev/full ]; then
        for ending in svg png; do
            ln -s /dev/full full.$ending
            attention "Danke." -o full.$ending
            check "attention -o full.$ending reports a full disk" one_sentence 1 'No space left'
        done
    fi
fi

echo "1..$count"
