# What check.sh says of judge.sh's verdicts, given known.txt before them: see there. `targets` are those that were asked, and
# `few` says that not all tests were, so that what only they ask for need not fail; `capped`, that not all variants of a
# program were, so that nothing need.
function has(list, word) {
    return index(" " list " ", " " word " ") > 0
}

# Whether the line of known.txt is about this verdict: its target and name, and all defines that the line has.
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
        printf "%s: %d programs are good, %d fail as known.txt says", target, good[target], as_known[target]
        print skipped[target] ? ", " skipped[target] " are skipped, as in: " example[target] : ""
        passed += good[target]
        unjudged += skipped[target]
        for (line = 1; line <= lines; line++)
            if (!capped && has(known[line], target) && !(few && has(known[line], "nightly")) && good[target] && !((line, target) in seen)) {
                print target ": no program fails any more as known.txt has it, take it out: " known[line]
                failed++
            }
    }
    printf "%d passed, %d failed, %d skipped\n", passed, failed, unjudged
    exit failed > 0 || passed == 0
}
