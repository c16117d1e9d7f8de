# tfm train: the progress line, on terminals of several widths, and its loss.
. "$(dirname "$0")/common.sh"

# on_terminal COLUMNS ARGUMENT...: runs `tfm train` on a terminal; its output goes to `screen`, one line
# per state of the progress line.
on_terminal() {
    python3 - "$@" >screen <<END
import fcntl, os, pty, re, struct, sys, termios
child, terminal = pty.fork()
if child == 0:
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
    os.execv("$tfm", ["$tfm", "train"] + sys.argv[2:])
text = b""
try:
    while True:
        piece = os.read(terminal, 65536)
        if not piece:
            break
        text += piece
except OSError:
    pass
os.waitpid(child, 0)
for line in re.split("\r\033\\\\[K|\r\n", text.decode()):
    print(line)
END
}
# states: from the third update on, since these have an ETA
states() {
    grep -E '^([3-9]|[1-9][0-9]+)/' screen
}
fits() { # COLUMNS
    states | awk -v most="$1" 'length($0) >= most { wide = 1 } END { exit wide }'
}
all_have() { # PATTERN
    [ "$(states | wc -l)" -ge 8 ] && ! states | grep -qvE -e "$1"
}
some_have() {
    states | grep -qE -e "$1"
}
shape="--width 32 --heads 2 --ffn-dim 64 --encoder-layers 1 --decoder-layers 1 --batch-tokens 128 --eval-steps 5"

# shellcheck disable=SC2086
on_terminal 80 -o long $shape $files --max-steps 12 --patience 1
check "train's progress line fits 80 columns" fits 80
check "train --patience marks the ETA as an upper bound" some_have ' ETA at most [0-9]+:[0-9][0-9]:[0-9][0-9]$'
check "train without --patience does not mark the ETA" some_have ' ETA [0-9]+:[0-9][0-9]:[0-9][0-9]$'
check "train's progress line has an ETA" all_have ' ETA (at most )?[0-9]+:[0-9][0-9]:[0-9][0-9]$'
check "train's progress line has a loss" all_have '^[0-9]+/12 +loss [0-9.]+ +ppl [0-9.]+ '
# shellcheck disable=SC2086
on_terminal 36 -o narrow $shape $files --max-steps 12 --patience 1
check "train's progress line fits 36 columns" fits 36
check "train's progress line in 36 columns has update and ETA" all_have '^[0-9]+/12 .*ETA (at most )?[0-9]+:[0-9][0-9]:[0-9][0-9]$'
check "train's progress line in 36 columns has only whole fields" all_have '^[0-9]+/12( +loss [0-9.]+)?( +[0-9]+ tokens/s)? +ETA [a-z0-9: ]*$'
check "train's progress line in 36 columns leaves fields out" [ "$(states | grep -c 'ppl')" = 0 ]
# shellcheck disable=SC2086
on_terminal 200 -o wide $shape $files --max-steps 12 --patience 0
check "train's progress line in 200 columns has all fields" all_have '^[0-9]+/12  epoch [0-9]+  loss [0-9.]+  ppl [0-9.]+  \|g\| [0-9.]+  rate [0-9.e-]+  [0-9]+ tokens/s  ETA [0-9:]+$'

# On this small text the loss falls from 4 to nearly 0 within few updates; the progress line must not lag behind.
begin late $files --max-steps 60 --warmup-steps 1 --learning-rate 0.02 --dropout 0 --label-smoothing 0 --logging-steps 60 --eval-steps 60 --hold-out 0
shown=$(sed -n 's|^update 60/60 .* loss \([0-9.]*\) .*|\1|p' err)
mean=$(sed -n 's|^{"type":"train","update":60,.*"loss":\([0-9.]*\),.*|\1|p' late/train.jsonl)
check "train's progress line shows the loss of the last updates" \
    awk -v shown="$shown" -v mean="$mean" 'BEGIN { exit !(shown > 0 && mean > 0 && shown < 0.9 * mean) }'
echo "1..$count"
