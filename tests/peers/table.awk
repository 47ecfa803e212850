# Lines of the peers, with the number of the round before each, to a table of medians and ratios.
#   ROUND PEER WORKLOAD COUNT SECONDS RATE CHECKSUM VIRTUAL_MS, or ROUND PEER WORKLOAD - REASON

function median(values, n,    i, j, v) {
    for (i = 2; i <= n; i++) {
        v = values[i]
        for (j = i - 1; j >= 1 && values[j] > v; j--) values[j + 1] = values[j]
        values[j + 1] = v
    }
    return n % 2 ? values[(n + 1) / 2] : (values[n / 2] + values[n / 2 + 1]) / 2
}

function of_rounds(peer, workload,    r, n, values) {
    n = 0
    for (r = 1; r <= rounds; r++) if ((r, peer, workload) in rate) values[++n] = rate[r, peer, workload]
    return n ? median(values, n) : 0
}

function ratio(workload, other,    r, n, values) {
    n = 0
    for (r = 1; r <= rounds; r++)
        if ((r, other, workload) in rate) values[++n] = rate[r, "ours", workload] / rate[r, other, workload]
    return n ? sprintf("%.2f", median(values, n)) : "-"
}

function spell(number) {
    if (number == 0) return "-"
    if (number >= 1e6) return sprintf("%.2f M", number / 1e6)
    if (number >= 1e4) return sprintf("%.0f k", number / 1e3)
    return sprintf("%.0f", number)
}

{
    if ($1 > rounds) rounds = $1
    if (!($3 in seen)) { seen[$3] = 1; workloads[++count] = $3 }
}
$4 == "-" { reason = ""; for (i = 5; i <= NF; i++) reason = reason " " $i; cannot[$2, $3] = reason; next }
{
    rate[$1, $2, $3] = $6
    done[$2, $3] = $4 " " $7
    virtual[$2, $3] = $8
}

END {
    peers = split("ours madsim turmoil moonpool floor", peer, " ")
    printf "%-12s", "per second"
    for (p = 1; p <= peers; p++) printf "%11s", peer[p]
    printf "%14s%14s\n", "ours / best", "ours / floor"
    for (w = 1; w <= count; w++) {
        workload = workloads[w]
        printf "%-12s", workload
        best = 0
        best_peer = ""
        for (p = 1; p <= peers; p++) {
            speed = of_rounds(peer[p], workload)
            printf "%11s", spell(speed)
            if (peer[p] != "ours" && peer[p] != "floor" && speed > best) { best = speed; best_peer = peer[p] }
        }
        printf "%14s%14s\n", ratio(workload, best_peer), ratio(workload, "floor")
    }
    printf "\n%-12s", "virtual s"
    for (p = 1; p <= peers; p++) printf "%11s", peer[p]
    print ""
    for (w = 1; w <= count; w++) {
        printf "%-12s", workloads[w]
        for (p = 1; p <= peers; p++)
            printf "%11s", ((peer[p], workloads[w]) in virtual) ? sprintf("%.1f", virtual[peer[p], workloads[w]] / 1e3) : "-"
        print ""
    }
    print ""
    for (w = 1; w <= count; w++)
        for (p = 1; p <= peers; p++) {
            if ((peer[p], workloads[w]) in cannot) print "- " peer[p] ", " workloads[w] ":" cannot[peer[p], workloads[w]]
            else if (done[peer[p], workloads[w]] != done["floor", workloads[w]]) {
                print "! " peer[p] " did not do the same as the floor in " workloads[w] ": " \
                    done[peer[p], workloads[w]] " for " done["floor", workloads[w]]
                different = 1
            }
        }
    print "- turmoil: a tick is 1 ms for the network (its default: longer ones lengthen latencies) and 1 s elsewhere; its"
    print "  latencies are exponential, cut off, in whole ms, with the mean of the uniform ones; timers round up to 1 ms."
    print "- moonpool: driven without its orchestrator, chaos off; connections are opened one after the other, as a listener"
    print "  remembers one. madsim: default configuration, which is the workload's; its datagrams wait a little besides."
    print "- Spans of peers are compiled out (tracing's release_max_level_off). Ours: default options, trace and digests on."
    if (!different) print "- Counts and checksums of all peers are equal in every workload."
    exit different
}
