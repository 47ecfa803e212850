//! The safety decisions of the protocol, as functions of their arguments, with the paper's sentence beside them.
//!
//! The role loops order effects (save, then answer; write, sync, then acknowledge); what they may do is
//! decided here. So this file is what a reviewer reads against the paper, and where most planted defects sit.
//! A *planted defect* is a mistake that can be switched on to see whether it is found; none is unless somebody asks.
//! Everywhere the rule comes first, under the paper's name; what stands behind `|| planted.has(..)`, or is returned
//! from an `if planted.has(..)`, is wrong.
//!
//! Not here: anything that waits, sends, or writes.

use crate::entries::Entries;
use crate::mutant::{Mutant, Planted};
use crate::types::{Entry, Index, LastEntry, ServerId, Term};
use crate::wire::{AppendReply, ConflictHint, VoteReply, VoteRequest};
use std::time::Duration;

/// What a server decides votes by.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Voter {
    /// Its current term.
    pub term: Term,
    /// Whom it voted for in that term.
    pub voted_for: Option<ServerId>,
    /// Where its log ends.
    pub last: LastEntry,
}

/// The size of a majority: any two of them share a server.
pub fn majority(servers: usize, planted: Planted) -> usize {
    let majority = servers / 2 + 1;
    if planted.has(Mutant::QuorumOffByOne) {
        return (majority - 1).max(1);
    }
    majority
}

/// "If RPC request or response contains term T > currentTerm: set currentTerm = T, convert to follower"
/// (Figure 2, Rules for Servers).
pub fn must_adopt(current: Term, heard: Term) -> bool {
    heard > current
}

/// "If votedFor is null or candidateId, and candidate's log is at least as up-to-date as receiver's log,
/// grant vote" (Figure 2, RequestVote RPC). The voter has adopted the request's term already, if it was newer.
pub fn may_grant_vote(me: &Voter, ask: &VoteRequest, planted: Planted) -> bool {
    let free_to_vote = me.voted_for.is_none_or(|voted| voted == ask.candidate);
    let mut log_is_current = (ask.last.term, ask.last.index) >= (me.last.term, me.last.index);
    if planted.has(Mutant::LogCompareIndexFirst) {
        log_is_current = (ask.last.index, ask.last.term) >= (me.last.index, me.last.term);
    }

    ask.term == me.term
        && (free_to_vote || planted.has(Mutant::DoubleVote))
        && (log_is_current || planted.has(Mutant::VoteNoLogCheck))
}

/// A vote counts for the election that it was cast in: "A candidate wins an election if it receives votes from
/// a majority of the servers in the full cluster for the same term" (§5.2).
pub fn counts_as_vote(campaign: Term, reply: &VoteReply, planted: Planted) -> bool {
    reply.granted && (reply.term == campaign || planted.has(Mutant::StaleVote))
}

/// "Reply false if log doesn't contain an entry at prevLogIndex whose term matches prevLogTerm" (Figure 2,
/// AppendEntries RPC, step 2).
pub fn holds_previous(log: &Entries, prev: LastEntry, planted: Planted) -> bool {
    let term = log.term_at(prev.index);
    term == Some(prev.term) || planted.has(Mutant::AppendNoPrevCheck) && term.is_some()
}

/// What becomes of a follower's log when a leader's entries arrive.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Reconciliation {
    /// Everything from here on conflicts and goes.
    pub cut_from: Option<Index>,
    /// So many of the arriving entries are in the log already; those after them are appended.
    pub known: usize,
}

/// "If an existing entry conflicts with a new one (same index but different terms), delete the existing entry
/// and all that follow it. Append any new entries not already in the log" (Figure 2, AppendEntries RPC, steps
/// 3 and 4). Without a conflict nothing is deleted: the message may be an old one, overtaken by a longer one.
pub fn reconcile(
    log: &Entries,
    prev: Index,
    arriving: impl Iterator<Item = Entry>,
    planted: Planted,
) -> Reconciliation {
    if planted.has(Mutant::BlindTruncate) {
        return cut_blindly(log, prev);
    }
    let mut index = prev;
    for (known, entry) in arriving.enumerate() {
        index = index.next();
        match log.term_at(index) {
            Some(term) if term == entry.term => {}
            Some(_) => return Reconciliation { cut_from: Some(index), known },
            None => return Reconciliation { cut_from: None, known },
        }
    }
    Reconciliation { cut_from: None, known: (index.0 - prev.0) as usize }
}

/// [`Mutant::BlindTruncate`]: everything after `prev` goes, conflicting or not.
fn cut_blindly(log: &Entries, prev: Index) -> Reconciliation {
    let cut_from = (log.last().index > prev).then_some(prev.next());
    Reconciliation { cut_from, known: 0 }
}

/// "If leaderCommit > commitIndex, set commitIndex = min(leaderCommit, index of last new entry)" (Figure 2,
/// AppendEntries RPC, step 5). `verified` is the last index at which this message showed the follower's log to
/// equal the leader's: the last new entry, or the previous one of a heartbeat. What lies beyond it may differ.
/// (The end of the log is no bound: it is here for a planted defect.)
pub fn follower_commit(
    mine: Index,
    leaders: Index,
    verified: Index,
    end_of_log: Index,
    planted: Planted,
) -> Index {
    let commit = mine.max(leaders.min(verified));
    if planted.has(Mutant::HeartbeatCommitOverreach) {
        return mine.max(leaders.min(end_of_log));
    }
    if planted.has(Mutant::CommitNoClamp) {
        return mine.max(leaders);
    }
    commit
}

/// What a follower may vouch for: its state is "updated on stable storage before responding to RPCs" (Figure 2,
/// persistent state), so the shorter of what was verified against the leader's log and what its disk holds.
/// The reply to a heartbeat is no exception. (Whether it is one is asked for a planted defect.)
pub fn vouched(verified: Index, durable: Index, heartbeat: bool, planted: Planted) -> Index {
    let vouched = verified.min(durable);
    if planted.has(Mutant::AckBeforeFsync) || planted.has(Mutant::EmptyAppendAcksUnsynced) && heartbeat {
        return verified;
    }
    vouched
}

/// How far a leader's own log counts towards a majority: the disk write runs beside the replication, so only
/// what is synced does (thesis, §10.2.1).
pub fn leaders_own_match(end_of_log: Index, durable: Index, planted: Planted) -> Index {
    let synced = durable.min(end_of_log);
    if planted.has(Mutant::LeaderCountsUnsynced) {
        return end_of_log;
    }
    synced
}

/// How far the log is on a majority of servers. `matched` has one element for each server, the leader among
/// them, and is reordered.
pub fn replicated(matched: &mut [Index], planted: Planted) -> Index {
    matched.sort_unstable();
    matched[matched.len() - majority(matched.len(), planted)]
}

/// "If there exists an N such that N > commitIndex, a majority of `matchIndex[i]` >= N, and `log[N]`.term ==
/// currentTerm: set commitIndex = N" (Figure 2, Rules for Leaders). An entry of an older term may be on a
/// majority and still be overwritten (Figure 8); it is committed with the first entry of this term after it. Terms
/// never fall along a log, so no other N than the greatest on a majority has to be asked for.
pub fn leader_commit(log: &Entries, replicated: Index, term: Term, commit: Index, planted: Planted) -> Index {
    let of_this_term = log.term_at(replicated) == Some(term);
    if replicated > commit && (of_this_term || planted.has(Mutant::Figure8)) { replicated } else { commit }
}

/// What a follower tells a leader whose previous entry it lacks: "the follower can include the term of the
/// conflicting entry and the first index it stores for that term" (§5.3). Where its entry is of a later term than the
/// leader's, so are all that follow it, and no entry of the leader's up to there can be one of those: it is as if its log
/// ended before them.
pub fn conflict_hint(log: &Entries, prev: LastEntry) -> ConflictHint {
    match log.term_at(prev.index) {
        Some(term) if term < prev.term => ConflictHint { term, first: log.first_of_term_at(prev.index) },
        _ => ConflictHint { term: Term(0), first: log.last_up_to_term(prev.term).next() },
    }
}

/// Where a leader looks next: "the leader can decrement nextIndex to bypass all of the conflicting entries in
/// that term" (§5.3), and all of its own that are of a later one, which the follower has not up to there. Where the leader
/// has that term too, the logs can only part after its last entry of it.
/// Never forward of the refused position, never into what was acknowledged.
pub fn next_after_conflict(log: &Entries, refused: Index, hint: ConflictHint, matched: Index) -> Index {
    let mut next = hint.first;
    if hint.term != Term(0) {
        let last = log.last_up_to_term(hint.term);
        let has_that_term = log.term_at(last) == Some(hint.term);
        next = if has_that_term { last.next() } else { last.next().min(hint.first) };
    }
    next.min(refused).max(matched.next())
}

/// Whether a reply to AppendEntries speaks of this leadership: it may be one to an earlier, of another term.
pub fn answers_this_term(term: Term, reply: &AppendReply) -> bool {
    reply.term == term
}

/// A leader takes the commit index for a read only after it has committed an entry of its own term: before,
/// it "may not know which" entries "are committed" (§8).
pub fn may_take_read_index(log: &Entries, commit: Index, term: Term, planted: Planted) -> bool {
    log.term_at(commit) == Some(term) || planted.has(Mutant::ReadIndexNoNoop)
}

/// The latest round that a majority has answered: `rounds` has one element for each server, the leader's own
/// being its latest, and is reordered. "A leader must check whether it has been deposed before processing a read-only
/// request" (§8).
pub fn confirmed_round(rounds: &mut [u64], planted: Planted) -> u64 {
    rounds.sort_unstable();
    rounds[rounds.len() - majority(rounds.len(), planted)]
}

/// Whether a leader has heard from a majority lately; "a leader in Raft steps down if an election timeout elapses
/// without a successful round of heartbeats to a majority of its cluster" (thesis, §6.2). `silences` has one
/// element for each server, the leader's own being zero, and is reordered.
pub fn quorum_in_reach(silences: &mut [Duration], limit: Duration, planted: Planted) -> bool {
    silences.sort_unstable();
    silences[majority(silences.len(), planted) - 1] <= limit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::fixtures::log;
    use crate::wire::AppendOutcome;

    const SOUND: Planted = Planted::NONE;

    fn last(term: u64, index: u64) -> LastEntry {
        LastEntry { term: Term(term), index: Index(index) }
    }

    fn voter(voted_for: Option<u16>) -> Voter {
        Voter { term: Term(5), voted_for: voted_for.map(ServerId), last: last(4, 10) }
    }

    fn ask(candidate: u16) -> VoteRequest {
        VoteRequest { term: Term(5), candidate: ServerId(candidate), last: last(4, 10) }
    }

    fn entries(terms: &[u64]) -> impl Iterator<Item = Entry> {
        let log = log(terms);
        (1..=terms.len() as u64).map(move |i| *log.get(Index(i)).expect("it is that long"))
    }

    /// "Each server will vote for at most one candidate in a given term, on a first-come-first-served basis"
    /// (§5.2).
    #[test]
    fn a_vote_is_given_once_a_term_but_repeated_to_its_owner() {
        assert!(may_grant_vote(&voter(None), &ask(2), SOUND));
        assert!(!may_grant_vote(&voter(Some(3)), &ask(2), SOUND));
        assert!(may_grant_vote(&voter(Some(2)), &ask(2), SOUND));
    }

    /// "Reply false if term < currentTerm" (Figure 2).
    #[test]
    fn a_candidate_of_an_old_term_gets_no_vote() {
        assert!(!may_grant_vote(&voter(None), &VoteRequest { term: Term(4), ..ask(2) }, SOUND));
    }

    /// "The voter denies its vote if its own log is more up-to-date than that of the candidate" (§5.4.1).
    #[test]
    fn a_voter_denies_a_candidate_with_an_older_log() {
        let with = |last| may_grant_vote(&voter(None), &VoteRequest { last, ..ask(2) }, SOUND);
        assert!(with(last(4, 10)));
        assert!(with(last(4, 11)));
        assert!(with(last(5, 1)));
        assert!(!with(last(4, 9)));
        assert!(!with(last(3, 99)));
    }

    /// "votes from a majority of the servers in the full cluster for the same term" (§5.2).
    #[test]
    fn a_vote_of_an_earlier_campaign_does_not_count() {
        let reply = VoteReply { term: Term(5), voter: ServerId(2), granted: true };
        assert!(counts_as_vote(Term(5), &reply, SOUND));
        assert!(!counts_as_vote(Term(6), &reply, SOUND));
        assert!(!counts_as_vote(Term(5), &VoteReply { granted: false, ..reply }, SOUND));
    }

    #[test]
    fn two_majorities_always_meet() {
        for servers in 1..20 {
            assert!(2 * majority(servers, SOUND) > servers);
            assert!(majority(servers, SOUND) <= servers);
        }
    }

    /// "Reply false if log doesn't contain an entry at prevLogIndex whose term matches prevLogTerm".
    #[test]
    fn entries_are_accepted_only_after_an_equal_one() {
        let log = log(&[1, 1, 2]);
        assert!(holds_previous(&log, last(0, 0), SOUND));
        assert!(holds_previous(&log, last(2, 3), SOUND));
        assert!(!holds_previous(&log, last(1, 3), SOUND));
        assert!(!holds_previous(&log, last(2, 4), SOUND));
    }

    /// "If an existing entry conflicts with a new one (same index but different terms), delete the existing
    /// entry and all that follow it".
    #[test]
    fn the_first_conflicting_entry_and_what_follows_goes() {
        let mine = log(&[1, 1, 2, 2]);
        assert_eq!(
            reconcile(&mine, Index(1), entries(&[1, 3, 3]), SOUND),
            Reconciliation { cut_from: Some(Index(3)), known: 1 }
        );
    }

    /// "Append any new entries not already in the log": a message that was overtaken deletes nothing.
    #[test]
    fn an_overtaken_message_deletes_nothing() {
        let mine = log(&[1, 1, 2, 2]);
        for count in 0..=3 {
            assert_eq!(
                reconcile(&mine, Index(1), entries(&[1, 2, 2][..count]), SOUND),
                Reconciliation { cut_from: None, known: count }
            );
        }
        assert_eq!(
            reconcile(&mine, Index(2), entries(&[2, 2, 2]), SOUND),
            Reconciliation { cut_from: None, known: 2 }
        );
    }

    /// "set commitIndex = min(leaderCommit, index of last new entry)".
    #[test]
    fn a_follower_commits_no_further_than_the_message_vouched() {
        let commit = |mine, leaders, verified| {
            follower_commit(Index(mine), Index(leaders), Index(verified), Index(9), SOUND)
        };
        assert_eq!(commit(1, 5, 7), Index(5));
        assert_eq!(commit(1, 7, 5), Index(5));
        // The follower's own log is longer than what a heartbeat vouched for, and may differ there.
        assert_eq!(commit(1, 7, 1), Index(1));
        // Commitment is never taken back.
        assert_eq!(commit(6, 2, 7), Index(6));
    }

    #[test]
    fn nothing_is_vouched_for_before_it_is_durable() {
        assert_eq!(vouched(Index(5), Index(3), false, SOUND), Index(3));
        assert_eq!(vouched(Index(5), Index(3), true, SOUND), Index(3));
        assert_eq!(vouched(Index(3), Index(5), true, SOUND), Index(3));
        assert_eq!(leaders_own_match(Index(5), Index(3), SOUND), Index(3));
    }

    /// Figure 8: "only log entries from the leader's current term are committed by counting replicas" (§5.4.2).
    #[test]
    fn an_entry_of_an_older_term_is_not_committed_by_counting() {
        // Figure 8 (c): S1 leads term 4; entry 2 of term 2 is on S1, S2 and S3.
        let s1 = log(&[1, 2, 4]);
        let commit = |matched: [u64; 5]| {
            leader_commit(&s1, replicated(&mut matched.map(Index), SOUND), Term(4), Index(1), SOUND)
        };
        assert_eq!(commit([3, 2, 2, 1, 1]), Index(1));
        // Figure 8 (e): entry 3 of term 4 reaches a majority, and entry 2 is committed with it.
        assert_eq!(commit([3, 3, 3, 1, 1]), Index(3));
        assert_eq!(commit([3, 3, 2, 1, 1]), Index(1));
    }

    /// Figure 7: each of the followers (a) to (f) is found by a leader of term 8 in at most two steps a term.
    #[test]
    fn conflict_hints_find_every_follower_of_figure_7() {
        let leader = log(&[1, 1, 1, 4, 4, 5, 5, 6, 6, 6]);
        let followers: [&[u64]; 6] = [
            &[1, 1, 1, 4, 4, 5, 5, 6, 6],
            &[1, 1, 1, 4],
            &[1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6],
            &[1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7],
            &[1, 1, 1, 4, 4, 4, 4],
            &[1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3],
        ];
        for terms in followers {
            let refusals = refusals(&leader, &log(terms));
            assert!(refusals <= 2, "{terms:?} took {refusals}");
        }
    }

    /// How often a follower refuses a new leader before it is found where their logs agree.
    fn refusals(leader: &Entries, follower: &Entries) -> usize {
        let mut next = leader.last().index.next();
        let mut refusals = 0;
        loop {
            let prev = leader.ending_at(next.prev()).expect("next is within the leader's log");
            if holds_previous(follower, prev, SOUND) {
                return refusals;
            }
            let hint = conflict_hint(follower, prev);
            let earlier = next_after_conflict(leader, prev.index, hint, Index(0));
            assert!(earlier < next, "a refusal must lead somewhere else");
            next = earlier;
            refusals += 1;
        }
    }

    /// Leaders that came and went, each with an entry or two that nobody else got: a step for each of their terms is too
    /// many.
    #[test]
    fn tails_of_many_terms_are_skipped_at_once_on_either_side() {
        let tail = |terms: std::ops::Range<u64>| log(&[1, 1].into_iter().chain(terms).collect::<Vec<_>>());
        for (leader, follower) in
            [(200..300, 2..100), (2..100, 200..300), (200..250, 2..100), (2..100, 200..220)]
        {
            let refusals = refusals(&tail(leader.clone()), &tail(follower.clone()));
            assert!(refusals <= 2, "{leader:?} and {follower:?} took {refusals}");
        }
    }

    /// Whatever the logs are, the place where they agree is not skipped.
    #[test]
    fn hints_never_lead_below_where_logs_agree() {
        let mut stream = sim_runtime::rng::Stream::derive(1, "two logs");
        for _ in 0..2_000 {
            let agree = stream.below(6);
            let mut terms = |from: u64| {
                let mut term = from;
                (0..stream.below(12))
                    .map(|_| {
                        term += stream.below(3);
                        term
                    })
                    .collect::<Vec<_>>()
            };
            let common = vec![1; agree as usize];
            // No two leaders write in one term: odd terms are one's, even terms the other's.
            let leader: Vec<u64> =
                common.iter().copied().chain(terms(1).iter().map(|term| 2 * term + 1)).collect();
            let follower: Vec<u64> =
                common.iter().copied().chain(terms(1).iter().map(|term| 2 * term)).collect();
            let (leader, follower) = (log(&leader), log(&follower));
            let mut next = leader.last().index.next();
            while let Some(prev) = leader.ending_at(next.prev())
                && !holds_previous(&follower, prev, SOUND)
            {
                next = next_after_conflict(&leader, prev.index, conflict_hint(&follower, prev), Index(0));
            }
            assert_eq!(next, Index(agree).next(), "{leader:?} and {follower:?}");
        }
    }

    #[test]
    fn a_conflict_never_reaches_into_what_was_acknowledged() {
        let leader = log(&[1, 1, 2, 2]);
        let hint = ConflictHint { term: Term(0), first: Index(1) };
        assert_eq!(next_after_conflict(&leader, Index(4), hint, Index(2)), Index(3));
    }

    #[test]
    fn replies_of_another_term_are_told_apart() {
        let reply = AppendReply {
            term: Term(3),
            follower: ServerId(2),
            round: 0,
            outcome: AppendOutcome::Matched(Index(1)),
        };
        assert!(answers_this_term(Term(3), &reply));
        assert!(!answers_this_term(Term(4), &reply));
    }

    /// "a leader must have the latest information on which entries are committed [...] it needs to commit an
    /// entry from its term" (§8).
    #[test]
    fn reads_wait_for_an_entry_of_the_leaders_own_term() {
        let log = log(&[1, 1, 3]);
        assert!(!may_take_read_index(&log, Index(2), Term(3), SOUND));
        assert!(may_take_read_index(&log, Index(3), Term(3), SOUND));
        assert!(!may_take_read_index(&log, Index(0), Term(3), SOUND));
    }

    #[test]
    fn a_round_is_confirmed_by_a_majority() {
        assert_eq!(confirmed_round(&mut [9, 7, 5, 1, 1], SOUND), 5);
        assert_eq!(confirmed_round(&mut [9, 0, 0], SOUND), 0);
        assert_eq!(confirmed_round(&mut [9], SOUND), 9);
    }

    /// "a leader [...] steps down if an election timeout elapses without" hearing from a majority.
    #[test]
    fn a_leader_needs_a_majority_in_reach() {
        let within_40_ms = |silences: [u64; 3]| {
            let limit = Duration::from_millis(40);
            quorum_in_reach(&mut silences.map(Duration::from_millis), limit, SOUND)
        };
        assert!(within_40_ms([0, 40, 999]));
        assert!(!within_40_ms([0, 41, 999]));
    }
}
