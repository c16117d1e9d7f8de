# tfm train --resume: text and vocabularies at other paths.
. "$(dirname "$0")/common.sh"

begin whole $files --max-steps 1 --average 0
mkdir moved
cp text.de text.en moved
# shellcheck disable=SC2086
begin run --src moved/text.de --tgt moved/text.en --max-steps 2 --vocab whole --average 0
mv moved/text.de elsewhere.de
mv whole gone
resume run --max-steps 3
check "train --resume names the option for a text that has moved" one_sentence 1 \
    'moved/text.de: No such file or directory; if it was moved, give its new name by --src FILE'
resume run --max-steps 3 --src elsewhere.de
check "train --resume accepts a text at another path" [ "$code" = 0 ]
resume run --max-steps 4
check "train --resume works without the vocabulary file" [ "$code" = 0 -a "$(value run vocab)" = '"../whole"' ]
mv gone whole

echo "1..$count"
