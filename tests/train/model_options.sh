# tfm train: other model and update options. With TFM_BRIEF=1 several of them in one run.
. "$(dirname "$0")/common.sh"

begin two $files --max-steps 1 --average 0
usual="$files --max-steps 4 --warmup-steps 1 --average 0 --vocab two"
# shellcheck disable=SC2086
begin usual $usual
mv usual/model.safetensors before
if brief; then
    set -- '--pre-norm --activation gelu --init gaussian --lr-scheduler-type linear --max-grad-norm 0.5' \
        '--activation gelu-tanh --save-dtype f16 --lr-scheduler-type cosine --weight-decay 0.1 --attention-dropout 0.1' \
        '--activation silu --save-dtype bf16 --init kaiming --lr-scheduler-type constant --activation-dropout 0.1 --label-smoothing 0' \
        '--beta1 0.8 --beta2 0.9 --epsilon 1e-3'
else
    set -- --pre-norm '--activation gelu' '--activation gelu-tanh' '--activation silu' '--init gaussian' '--init kaiming' \
        '--save-dtype f16' '--save-dtype bf16' '--lr-scheduler-type linear' '--lr-scheduler-type cosine' '--lr-scheduler-type constant' '--max-grad-norm 0.5' \
        '--weight-decay 0.1' '--attention-dropout 0.1' '--activation-dropout 0.1' '--label-smoothing 0' '--beta1 0.8' \
        '--beta2 0.9' '--epsilon 1e-3'
fi
for option; do
    # shellcheck disable=SC2086
    begin other $usual $option
    "$tfm" translate -m other -i valid.de >out 2>>err || code=$?
    check "train $option writes a model that translates" [ "$code" = 0 -a "$(wc -l <out)" = 10 ]
    check "train $option changes the parameters" [ "$(cmp -s other/model.safetensors before && echo same)" = "" ]
    cp other/model.safetensors before
done

echo "1..$count"
