# Several ranks, and two workers, against one device with all batches: the preset tiny on Multi30k, for 200 updates.
#     sh tests/train/ranks_data.sh PROGRAM SOURCE_ROOT FAULT_LAYER
# Rounding errors grow with each update, faster if Adam divides by tiny numbers and at kinks of ReLU: so the run uses an
# epsilon, GELU, and a learning rate for which they stay small.
. "$(dirname "$0")/ranks_common.sh"
data=$root/shared/data/multi30k
[ -d "$data" ] || data=$root/../shared/data/multi30k
if [ ! -d "$data" ]; then
    skip "train on Multi30k" "there is no shared/data/multi30k"
    echo "1..$count"
    exit
fi
if unlaunched; then
    echo "1..$count"
    exit
fi
plan="--src $data/train.en --tgt $data/train.de --valid-src valid.en --valid-tgt valid.de --preset tiny --batch-tokens 128
    --gradient-accumulation-steps 4 --max-steps 200 --eval-steps 200 --logging-steps 1 --patience 0 --lr-scheduler-type constant --warmup-steps 100
    --learning-rate 5e-4 --dropout 0.1 --epsilon 1e-4 --activation gelu"
head -n 100 "$data/val.en" >valid.en
head -n 100 "$data/val.de" >valid.de
small=
# shellcheck disable=SC2086 # words
begin one $plan --vocab-size 4000
check "train on one device for 200 updates of four micro-batches" [ "$code" = 0 ]
for world in 2 4; do
    # shellcheck disable=SC2086
    fresh $world whole $plan --vocab one
    check "train on $world ranks has the losses of one device" both 0 near one whole
    paste losses-one losses-whole | awk '{ d = ($2 - $5) ^ 2; if (d > most) most = d } END { print "# losses differ by up to " sqrt(most) }'
    # shellcheck disable=SC2086
    fresh $world shards $plan --vocab one --shard-optimizer
    check "train on $world ranks with sharded optimizer state gives the same parameters" both 0 alike whole shards
    if [ $world = 2 ]; then
        # shellcheck disable=SC2086
        begin workers $plan --vocab one --workers 2
        check "train with two workers gives the parameters of two ranks" both 0 alike whole workers
    fi
    rm -rf whole shards workers
done
echo "1..$count"
