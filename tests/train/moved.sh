# tfm train: text and vocabularies that lie elsewhere when a run goes on.
. "$(dirname "$0")/common.sh"

begin whole $files --updates 1 --average 0
mkdir moved
cp text.de text.en moved
# shellcheck disable=SC2086
begin run --src moved/text.de --tgt moved/text.en --updates 2 --vocab whole --average 0
mv moved/text.de elsewhere.de
mv whole gone
resume run --updates 3
check "lost text: which option says where it is" one_sentence 1 \
    'moved/text.de: No such file or directory; if it lies elsewhere now, say where by --src FILE'
resume run --updates 3 --src elsewhere.de
check "text that has moved: --resume" [ "$code" = 0 ]
resume run --updates 4
check "a vocabulary that is gone: --resume" [ "$code" = 0 -a "$(value run vocab)" = '"../whole"' ]
mv gone whole

echo "1..$count"
