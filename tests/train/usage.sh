# tfm train: usage errors; help and manual page have the same options.
. "$(dirname "$0")/common.sh"

run train
check "train without a text is a usage error" one_sentence 2 '-o DIR'
run train -o '' --src text.de --tgt text.en
check "train without -o is a usage error" one_sentence 2 '-o DIR'
run train -o run --src text.de
check "train --src without --tgt is a usage error that names both" one_sentence 2 '--src text.de has no --tgt: give --tgt FILE'
run train -o run --tgt text.en
check "train --tgt without --src is a usage error that names both" one_sentence 2 '--tgt text.en has no --src: give --src FILE'
run train -o run --src text.de --tgt text.en --tsv text.tsv
check "train with two kinds of text is a usage error" one_sentence 2 'not both'
run train -o run $files --valid-src valid.de
check "train --valid-src without --valid-tgt is a usage error" one_sentence 2 '--valid-tgt'
run train -o run --resume run
check "train --resume with options of a new run is a usage error" one_sentence 2 '--resume'
run train -o run $files stray
check "train with a positional argument is a usage error" one_sentence 2 "'stray'"
for wrong in 'width 0' 'max-steps x' 'preset huge' 'activation tanh' 'lr-scheduler-type step' 'init zero' 'save-dtype f64' 'comm-dtype f64' 'learning-rate nan' \
    'dropout 1' 'label-smoothing -0.1' 'beta2 1' 'beta1 0' 'beta2 0' 'source-lang d.e' 'target-lang d/e' 'learning-rate 0' 'learning-rate -1' 'epsilon 0' 'epsilon 1e-300' 'max-grad-norm -1' 'weight-decay -1' 'character-coverage 0.5' 'subword-alpha 1' 'subword-alpha 0.99999999' \
    'heads 3' 'max-length 513' 'valid-beam-size 33' 'vocab-size -1' 'seed -1' 'frobnicate 1'; do
    # shellcheck disable=SC2086
    begin wrong $files --${wrong% *} "${wrong#* }"
    check "train --$wrong is a usage error" both 2 says err "--${wrong% *}"
done
check "train with a usage error makes no directory" [ ! -e wrong ]
run train --help
sed -n 's/^ *\(-., \)*\(--[a-z0-9-]*\).*/\2/p' out | sort -u >help.names
options | sort >page.names
check "train --help and the manual page have the same options" [ "$(wc -l <page.names)" -gt 50 -a \
    "$(sort help.names | grep -vxE -- '--(help|device)' | diff - page.names)" = "" ]

echo "1..$count"
