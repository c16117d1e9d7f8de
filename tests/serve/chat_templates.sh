# tfm serve: chat templates and the ends of turns.
#     sh tests/serve/chat_templates.sh PROGRAM SOURCE_ROOT
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
. "$root/tests/checks.sh"
. "$root/tests/serve/common.sh"

mkdir chats
python3 "$root/tests/serve/make_bytes.py" chats/base
python3 "$root/tests/serve/chats.py" make chats
cd chats
names=$(ls)
cd ..
set --
for name in $names; do
    set -- "$@" -m "chats/$name"
done
start "$@"
python3 "$root/tests/serve/chats.py" test "$port" >tried 2>err
mkdir ends
cp -r chats/base ends/base
python3 "$root/tests/serve/chats.py" ends "$port" ends >>tried 2>>err
start -m ends/string -m ends/content -m ends/map
python3 "$root/tests/serve/chats.py" ended "$port" ends >>tried 2>>err
while read -r line; do
    good=1
    case $line in "ok - "*) good=0 ;; esac
    check "${line#*ok - }" [ $good = 0 ]
done <tried
check "the chat template client reports no other failure" [ ! -s err ]
stop
echo '{' >chats/smollm2/tokenizer_config.json
run serve -m chats/smollm2
check "serve names a damaged tokenizer_config.json instead of ignoring it" one_sentence 1 'tokenizer_config.json is not JSON'

echo "1..$count"
