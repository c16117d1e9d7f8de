# Options and commands that the command line rejects, and the help of every command.
#     sh tests/apps/options.sh PROGRAM SOURCE_ROOT
# Prints TAP.
. "$(dirname "$0")/common.sh"

run --version
check "tfm --version prints the version" both 0 says out '^tfm [0-9]'
run --help
check "tfm --help lists the commands" both 0 says out 'translate'
run help --help
check "tfm help --help lists the commands" both 0 says out 'translate'
for command in devices selftest info train translate score eval attention bench quantize tune report completion generate embed kernels; do
    run $command --help
    check "tfm $command --help has examples" both 0 says out 'examples:'
    check "tfm $command --help is narrower than 80 columns" [ "$(wc -L <out)" -lt 80 ]
done
run
check "tfm without a command is a usage error" both 2 says err 'usage:'
run frobnicate
check "an unknown command is a usage error" one_sentence 2 "'frobnicate'"
run --frobnicate
check "an option before any command is a usage error" one_sentence 2 'no option --frobnicate'
run --versoin
check "a misspelled option before any command is an error that suggests --version" one_sentence 2 'did you mean --version'
translate --frobnicate
check "an unknown long option is a usage error" one_sentence 2 '--frobnicate'
translate -q
check "an unknown short option is a usage error" one_sentence 2 '-q'
run devices --json=yes
check "a value for an option that takes none is a usage error" one_sentence 2 'takes no value'
run translate -m
check "an option without its value is a usage error" one_sentence 2 '-m needs a value'
run translate
check "translate without -m is a usage error" one_sentence 2 'give -m MODEL'
for value in 0 -1 4x '' 99999999999; do
    translate --beam-size "$value"
    check "translate --beam-size '$value' is a usage error" one_sentence 2 "'$value'"
done
translate --length-penalty nan
check "translate --length-penalty nan is a usage error" one_sentence 2 "'nan'"
translate --length-penalty 99
check "translate --length-penalty above 10 is a usage error" one_sentence 2 '--length-penalty is 99: give -10 to 10'
run eval -m "$demo" --src x --ref x --length-penalty 99
check "eval --length-penalty above 10 is a usage error" one_sentence 2 '--length-penalty is 99: give -10 to 10'
run score --src x
check "score --src without --tgt is a usage error that names both" one_sentence 2 '--src x has no --tgt: give --tgt FILE'
run score --tgt x
check "score --tgt without --src is a usage error that names both" one_sentence 2 '--tgt x has no --src: give --src FILE'
run score --src x --tgt x
check "score without -m is a usage error" one_sentence 2 'give -m MODEL'
run score -m "$demo"
check "score without a text is a usage error" one_sentence 2 'there is nothing to score'
translate --length-norm long
check "translate --length-norm with an unknown value is a usage error" one_sentence 2 'paper|hf'
translate --beam-size 2 --n-best 3
check "translate with --n-best above --beam-size is a usage error" one_sentence 2 '--n-best is 3'
translate -n 5
check "translate with -n above the model's own beam size is a usage error" one_sentence 2 'give --beam-size 5'
translate --language de
check "translate --language without --split is a usage error" one_sentence 2 '--language is for --split'
translate stray
check "translate with a positional argument is a usage error" one_sentence 2 "'stray'"
translate --precision fp8 </dev/null
check "translate --precision with an unknown value is a usage error" one_sentence 2 'fp8'

echo "1..$count"
