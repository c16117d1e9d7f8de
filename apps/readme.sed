# README as it is installed: of its links to files of the source those stay that are installed; of the others the words,
# with the path in the source. `sed -E -f apps/readme.sed README.md`
s%\]\(apps/examples([/)])%](examples\1%g
s%\]\(apps/demo/%](../../tfm/demo/%g
s%!\[([^]]*)\]\((apps|cl|include|lib|tests|\.github)[^)]*\)%*\1*%g
s%\[((apps|cl|include|lib|tests|\.github)[^]]*)\]\(\1[^)]*\)%\1%g
s%\[([^]]*)\]\(((apps|cl|include|lib|tests|\.github)[^)]*)\)%\1 (`\2`)%g
