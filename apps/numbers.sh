# Trains a model from scratch on German and English number words, 0 to 999,999, and translates numbers that are not in the
# training set.
#     sh apps/numbers.sh [SOURCE TARGET]      de en (default), or en de
set -eu
cd "$(dirname "$0")/.."
source=${1:-de} target=${2:-en}

# dpkg-dev sets Debian's library folder for Meson; without it libraries go to lib64, which is not searched.
sh apps/packages.sh gcc g++ dpkg-dev meson ninja-build pkg-config ocl-icd-opencl-dev opencl-headers libclblast-dev \
    libsentencepiece-dev libjansson-dev libyaml-dev libicu-dev libpcre2-dev libcairo2-dev fonts-dejavu-core pocl-opencl-icd

build=build/demo
if [ ! -f $build/build.ninja ]; then
    said=$(meson setup $build -Dtests=false --buildtype=release) || { echo "$said" >&2; exit 1; } # Meson prints errors on standard output
fi
echo "Building"
ninja -C $build --quiet

words=$build/numbers model=$build/numbers-$source-$target
rm -rf $words $model
$build/apps/example_number_words $words --train 50000 --valid 200 --test 1000
$build/apps/tfm train -o $model --src $words/train.$source --tgt $words/train.$target \
    --valid-src $words/valid.$source --valid-tgt $words/valid.$target --vocab-size 240 \
    --width 128 --heads 4 --ffn-dim 256 --encoder-layers 2 --decoder-layers 2 --dropout 0 --label-smoothing 0 \
    --batch-tokens 1024 --max-steps 600 --warmup-steps 100 --learning-rate 2e-3 --lr-scheduler-type cosine --eval-steps 100

$build/apps/tfm translate -m $model -i $words/test.$source -o $build/numbers.out
echo
paste -d '|' $words/test.$source $build/numbers.out | head -5 | sed 's/|/  ->  /'
right=$(paste -d '|' $build/numbers.out $words/test.$target | awk -F '|' '$1 == $2' | wc -l)
echo "$right of $(wc -l <$words/test.$target) numbers that it has not seen are right"
