# Summarizes judge.sh's verdicts for check.sh; known.txt comes first in the input. `targets`: the checked targets.
# `few`: only some tests ran, so failures marked `nightly` may be missing; `capped`: only some variants of a program
# were checked, so any known failure may be missing.
function has(list, word) {
    return index(" " list " ", " " word " ") > 0
}

# Whether a line of known.txt matches this verdict: target, name, and all defines of the line.
function covers(line, target, name, verdict,    words, n, i) {
    n = split(known[line], words, " ")
    if (words[1] != name || !has(known[line], target))
        return 0
    sub(/.*\[/, "", verdict)
    sub(/\]$/, "", verdict)
    for (i = 3; i <= n; i++)
        if (words[i] ~ /^-D/ && !has(verdict, words[i]))
            return 0
    return 1
}

FNR == NR {
    if ($0 !~ /^#/ && NF > 0)
        known[++lines] = $0
    next
}
$3 == "good" {
    good[$1]++
}
$3 == "skipped:" {
    example[$1] = $0
    skipped[$1]++
}
$3 == "bad:" {
    excused = 0
    for (line = 1; line <= lines; line++)
        if (covers(line, $1, $2, $0))
            excused = seen[line, $1] = 1
    if (excused) {
        as_known[$1]++
    } else {
        print
        failed++
    }
}
END {
    count = split(targets, list, " ")
    for (i = 1; i <= count; i++) {
        target = list[i]
        printf "%s: %d programs are good, %d fail as listed in known.txt", target, good[target], as_known[target]
        print skipped[target] ? ", " skipped[target] " are skipped, for example: " example[target] : ""
        passed += good[target]
        unjudged += skipped[target]
        for (line = 1; line <= lines; line++)
            if (!capped && has(known[line], target) && !(few && has(known[line], "nightly")) && good[target] && !((line, target) in seen)) {
                print target ": no program fails as listed any more, remove it from known.txt: " known[line]
                failed++
            }
    }
    printf "%d passed, %d failed, %d skipped\n", passed, failed, unjudged
    exit failed > 0 || passed == 0
}
