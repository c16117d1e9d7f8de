# README and docs as they are installed: links to installed files stay; of other links only the text stays, with the
# path in the source. Links of README begin with a folder, links of docs with ../
#     sed -E -f apps/readme.sed README.md
s%\]\(apps/(docs|examples)([/)])%](\1\2%g
s%\]\(apps/demo/%](../../tfm/demo/%g
s%\]\(\.\./demo/%](../../../tfm/demo/%g
s%\]\(\.\./\.\./README\.md%](../README.md%g
s%!\[([^]]*)\]\((apps|cl|include|lib|tests|\.github)[^)]*\)%*\1*%g
s%!\[([^]]*)\]\(\.\./(\.\./(cl|include|lib|tests)|python|packages|serve)/[^)]*\)%*\1*%g
s%\[((apps|cl|include|lib|tests|\.github)[^]]*)\]\(\1[^)]*\)%\1%g
s%\[([^]]*)\]\(((apps|cl|include|lib|tests|\.github)[^)]*)\)%\1 (`\2`)%g
s%\[([^]]*)\]\(\.\./((python|packages|serve)[^)]*)\)%\1 (`apps/\2`)%g
s%\[([^]]*)\]\(\.\./\.\./((cl|include|lib|tests|\.github)[^)]*)\)%\1 (`\2`)%g
