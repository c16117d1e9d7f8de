# Shared by the scripts that test one command each: the demo model, two source sentences, and their translations.
#     sh tests/apps/SCRIPT.sh PROGRAM SOURCE_ROOT
# Each begins with
#     . "$(dirname "$0")/common.sh"
# runs in a separate folder, prints TAP, and ends with echo "1..$count".
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
demo=$root/apps/demo
. "$root/tests/checks.sh"

translate() {
    run translate -m "$demo" "$@"
}

# close_to FILE FILE COLUMN: compares a column of the first file with the first column of the second.
close_to() {
    cut -f"$3" "$1" >left
    cut -f1 "$2" | paste left - | awk '{ d = $1 - $2; if (d < -1e-3 || d > 1e-3) bad = 1 } END { exit bad || NR == 0 }'
}

# A sentence and its translation by the original framework; two lines of text.
german=$(sed -n 6p "$demo/test.de")
english=$(sed -n 6p "$demo/beam4.en")
head -n 2 "$demo/test.de" >two.de

# demo_sizes: sets $encoder_layers, $decoder_layers, $encoder_attention_heads, $decoder_attention_heads and
# $parameters to the sizes in the demo's files.
demo_sizes() {
    eval "$(python3 - "$demo" <<'END'
import json, math, struct, sys
config = json.load(open(sys.argv[1] + "/config.json"))
for name in ("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"):
    print(f"{name}={config[name]}")
with open(sys.argv[1] + "/model.safetensors", "rb") as file:
    tensors = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
fixed = ("__metadata__", "final_logits_bias", "model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
print("parameters=%d" % sum(math.prod(t["shape"]) for name, t in tensors.items() if name not in fixed))
END
)"
}
