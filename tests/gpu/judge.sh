# Compiles one recorded program for one target and reports its faults.
#     sh tests/gpu/judge.sh TARGET PROGRAM FOLDER
# Prints a line "TARGET NAME good", "TARGET NAME skipped: why" or "TARGET NAME bad: fault; fault", with the program's
# defines; leaves the machine code in FOLDER/TARGET.
set -u
here=$(dirname "$0")
. "$here/targets.sh"
target=$1 program=$2
mkdir -p "$3/$1"
out=$3/$target/$(basename "$program" .cl)
options=$(sed -n '1s,^// ,,p' "$program")
name=$(basename "$program" .cl | sed 's/-[0-9a-f]\{16\}$//')
said="$(echo "$options" | tr ' ' '\n' | grep -vE '^-cl-kernel-arg-info$|^-cl-std=CL1.2$|^-DTFM_(CLASS_GPU|WIDTH=1|CHUNK=1|FMA)$' |
    paste -sd ' ')"
missing=$("have_$target" | sort -u | paste -sd ';')
if [ "$missing" ]; then
    echo "$target $name skipped: $missing"
    exit
fi
: >"$out.local"
if "build_$target"; then
    wrong=$("wrong_$target" | sort -u)
    local_bytes=$(cat "$out.local")
    [ "${local_bytes:-0}" -le "$most_local" ] || wrong="$wrong
$local_bytes bytes of local memory, more than $most_local"
else
    wrong="does not build: $(grep -m 1 -E 'error|rror:|fatal' "$out.log" || tail -n 1 "$out.log")"
fi
wrong=$(echo "$wrong" | sed '/^$/d' | paste -sd ';')
if [ "$wrong" ]; then
    echo "$target $name bad: $wrong [$said]"
else
    echo "$target $name good"
fi
