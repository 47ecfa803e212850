//! Planted defects: which exist, and whether one is planted here.
//!
//! A site reads `log_is_current || planted.has(Mutant::VoteNoLogCheck)`: the right code stands first, and
//! without the cargo feature `mutants` the question is the constant false and compiles to nothing.
//!
//! Not here: what each mutant does (that is at its site), who should catch it (a report joins the names).

use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Groups of the catalogue.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// The twelve of the headline table.
    A,
    /// More mistakes of real Rafts.
    B,
    /// Async atomicity: what an `await` in the middle of a decision can do.
    C,
    /// Harmless changes: an alarm is a defect of the harness.
    Control,
    /// Proves that the pipeline can fail.
    Canary,
}

/// One row of the registry.
#[derive(Copy, Clone, Debug)]
pub struct Row {
    /// The mutant.
    pub mutant: Mutant,
    /// Its name on the command line.
    pub name: &'static str,
    /// Its group.
    pub part: Part,
    /// The defect in one sentence.
    pub sentence: &'static str,
    /// Where it was made for real.
    pub seen_in: &'static str,
    /// Outcome oracles expected to object, by the abbreviations of the catalogue.
    pub expected: &'static [&'static str],
    /// What a run needs before the defect can show.
    pub needs: &'static str,
    /// Whether the code has it; a name that is not planted must be refused, not passed.
    pub planted: bool,
}

macro_rules! registry {
    ($($mutant:ident $name:ident $part:ident $state:ident [$($oracle:ident)*] $sentence:literal
       from $seen_in:literal needs $needs:literal;)*) => {
        /// A defect that can be planted in every node of a run.
        #[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Mutant {
            $(#[doc = $sentence] $mutant,)*
        }

        const ROWS: &[Row] = &[$(Row {
            mutant: Mutant::$mutant,
            name: stringify!($name),
            part: Part::$part,
            sentence: $sentence,
            seen_in: $seen_in,
            expected: &[$(stringify!($oracle)),*],
            needs: $needs,
            planted: registry!(@$state),
        }),*];
    };
    (@planted) => { true };
    (@absent) => { false };
}

registry! {
    KvNoDedup kv_no_dedup A planted [LIN SES]
        "Applying executes every entry: the session table is neither consulted nor updated."
        from "textbook" needs "a retry through another leader, a non-idempotent operation";
    LocalRead local_read A planted [LIN]
        "A leader answers reads from its own state at once, without a quorum round."
        from "etcd before read index" needs "a deposed leader on a client's side of a partition, a late step-down";
    Figure8 figure8 A planted [LC SMS]
        "An entry of an older term is committed by counting replicas."
        from "the paper, Figure 8" needs "leader churn over three terms, one entry per append";
    UnpersistedVote unpersisted_vote A planted [ES]
        "The vote lives in memory only (the term is saved)."
        from "textbook" needs "a voter restarts after granting, while another candidate of the term solicits";
    CommitNoClamp commit_no_clamp A planted [CRASH SMS]
        "A follower's commit index is the leader's, not clamped to the last new entry."
        from "textbook" needs "a short or divergent follower";
    SingleSlot single_slot A planted [MONO ES]
        "The hard state is overwritten in one slot, and a bad slot counts as fresh."
        from "textbook" needs "a crash that shears that write";
    StaleVote stale_vote A planted [ES]
        "A granted vote is counted without comparing the reply's term."
        from "textbook" needs "delayed replies over two campaigns";
    AckBeforeFsync ack_before_fsync A planted [DUR LC SMS]
        "A follower acknowledges entries before they are durable."
        from "many" needs "power loss of several nodes at one instant";
    VoteNoLogCheck vote_no_log_check A planted [LC]
        "A vote goes to any candidate of a new term, however old its log."
        from "textbook" needs "a partition";
    BlindTruncate blind_truncate A planted [LC DUR]
        "AppendEntries always truncates behind the previous entry, even when nothing conflicts."
        from "many" needs "reordered or duplicated AppendEntries";
    AppendNoPrevCheck append_no_prev_check A planted [LM]
        "Entries are accepted without comparing the previous entry's term."
        from "textbook" needs "a partition, a divergent tail";
    HeartbeatCommitOverreach heartbeat_commit_overreach A planted [SMS]
        "A follower clamps the commit index to the end of its own log, not to what the message vouched for."
        from "scylladb#9965" needs "a divergent tail, healing, an empty heartbeat first";

    QuorumOffByOne quorum_off_by_one B planted [ES LC]
        "A majority is n/2 (at least 1)."
        from "hashicorp/raft commit 163a55f" needs "an even split";
    DoubleVote double_vote B planted [ES]
        "A second candidate of the same term gets a vote."
        from "camunda#5356" needs "two candidates of one term";
    NoStepDown no_step_down B planted [ES SMS]
        "A leader that sees a higher term adopts the term and keeps the role."
        from "textbook" needs "an election while a leader lives";
    CampaignBeforePersist campaign_before_persist B planted [ES]
        "Vote requests leave before the candidate's own term and vote are durable."
        from "sofa-jraft, braft" needs "a candidate that restarts in its campaign";
    LogCompareIndexFirst log_compare_index_first B planted [LC]
        "The up-to-date check compares the index before the term."
        from "hashicorp/raft#94" needs "a long tail of an old term";
    VoteForgottenOnRoleChange vote_forgotten_on_role_change B planted [ES]
        "Stepping down clears the vote of the current term."
        from "akka-raft#56" needs "two candidates of one term";
    KeepsConflictingTail keeps_conflicting_tail B planted [LM]
        "A conflicting entry is overwritten in place and what follows it is kept."
        from "mofa#1150" needs "a divergent tail of several entries";
    MatchFromNext match_from_next B planted [LC]
        "The match index is taken from the next index, not from what was acknowledged."
        from "adjoint-io/raft#130" needs "pipelined appends, a loss";
    EntryCacheStaleSuffix entry_cache_stale_suffix B planted [LM SMS]
        "The cache that followers are sent entries from is not truncated with the log."
        from "cockroach#63302" needs "a former leader with a divergent tail that leads again";
    LeaderCountsUnsynced leader_counts_unsynced B planted [DUR]
        "The leader counts its own tail before its own fsync."
        from "etcd#14370" needs "disk stalls, power loss";
    AckBeforeCommit ack_before_commit B planted [DUR LIN]
        "A client is told `done` when its entry reached a majority, whatever became of term and role."
        from "redpanda#3003" needs "leader churn";
    EmptyAppendAcksUnsynced empty_append_acks_unsynced B planted [DUR]
        "A heartbeat's reply reports what was received, not what is durable."
        from "yugabyte#32875" needs "power loss of several nodes";
    WalNoTailTrim wal_no_tail_trim B planted [DUR LIVE]
        "Reopening appends behind a torn tail instead of cutting it."
        from "cqlite#1390" needs "a torn write, then a second crash";
    WalNoCrc wal_no_crc B planted [SMS CRASH]
        "A torn record is taken for a good one."
        from "tendermint#573" needs "a torn write";
    WalNoChain wal_no_chain B planted [LM SMS]
        "Frames are checked alone, so old valid frames of a cut tail come back."
        from "textbook" needs "two torn writes at one place";
    TruncateFrontToBack truncate_front_to_back B planted [LM LIVE]
        "A truncation over several segments removes the front first."
        from "braft#119" needs "small segments, a divergent tail, a crash in the truncation";
    SegmentNoDirsync segment_no_dirsync B planted [DUR]
        "A new log segment's name is not made durable."
        from "etcd#6378 and kin" needs "small segments, power loss";
    DedupAtPropose dedup_at_propose B planted [SES LIN]
        "Duplicates are filtered by the leader before it appends, and nowhere else."
        from "textbook" needs "a retry through another leader";
    DedupWrongReply dedup_wrong_reply B planted [LIN]
        "An older retry is answered with the newest cached reply."
        from "textbook" needs "several operations outstanding in a session";
    DedupOneSlot dedup_one_slot B planted [SES LIN]
        "There is one session slot in all, so clients evict each other."
        from "textbook" needs "two clients, a retry";
    ReadBeforeApply read_before_apply B planted [LIN]
        "A quorum-confirmed read is served before apply catches up."
        from "redisraft#316" needs "delayed apply";
    ReadIndexNoNoop read_index_no_noop B planted [LIN]
        "A read index is served before the leader committed an entry of its own term."
        from "etcd#7331" needs "a read right after an election";
    FsyncErrorIgnored fsync_error_ignored B planted [DUR]
        "The node goes on after a failed fsync."
        from "nats-server#8290" needs "EIO";
    MetaMissingIsFresh meta_missing_is_fresh B planted [MONO ES]
        "Unreadable hard state means `term 0, no vote` though a log exists."
        from "camunda#19290" needs "a read that fails at a restart";

    ReplyRelabelled reply_relabelled C planted [LC ES]
        "A handler decides, awaits the disk, then stamps its reply with the term of now."
        from "async" needs "held-back wakes";
    LeadAfterAwait lead_after_await C planted [LC SMS]
        "The leader advances its commit index after an await without checking that it still leads."
        from "async" needs "held-back wakes";
    CancelledSave cancelled_save C planted [ES DUR]
        "A select drops a save half-way and goes on as if it were done."
        from "async" needs "slow disks";
    SplitAppend split_append C planted [LM DUR]
        "A handler remembers the last index, awaits, then writes at the remembered index."
        from "async" needs "held-back wakes";
    ReplicatorOutlivesLeader replicator_outlives_leader C planted [ES LM]
        "A replication task survives step-down and sends with the term of now."
        from "async" needs "leader churn";
    TimerOutlivesRole timer_outlives_role C planted [LIVE]
        "An election timer of an earlier role fires in the new one and disrupts it for good."
        from "async" needs "role changes";
    LostWakeup lost_wakeup C planted [LIVE]
        "A commit notification stores no permit, so a waiter that comes late sleeps for ever."
        from "async" needs "held-back wakes";
    BorrowedState borrowed_state C planted [MONO LM]
        "A handler clones term and log position before its await and writes them back after it."
        from "async" needs "held-back wakes";

    ControlExtraFsync control_extra_fsync Control planted []
        "Every sync is done twice." from "control" needs "";
    ControlRedundantTruncate control_redundant_truncate Control planted []
        "A suffix that is known to conflict is truncated twice." from "control" needs "";
    ControlSlowHeartbeat control_slow_heartbeat Control planted []
        "Heartbeats come at half the rate." from "control" needs "";
    ControlDuplicateSend control_duplicate_send Control planted []
        "Every message is sent twice." from "control" needs "";
    ControlLateReply control_late_reply Control planted []
        "A reply is held for 20 ms, or a sixth of the election timeout where that is less." from "control" needs "";
    Canary canary Canary planted [ES]
        "Each node claims leadership of term 1 at boot." from "control" needs "";
}

impl Mutant {
    /// The whole catalogue, in its order.
    pub fn rows() -> &'static [Row] {
        ROWS
    }

    /// Those that the code has.
    pub fn planted() -> impl Iterator<Item = Mutant> {
        ROWS.iter().filter(|row| row.planted).map(|row| row.mutant)
    }

    /// The mutant's row.
    pub fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The mutant's name on the command line.
    pub fn name(self) -> &'static str {
        self.row().name
    }
}

impl std::fmt::Display for Mutant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// No mutant has that name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no planted defect is called `{name}`")]
pub struct UnknownMutant {
    /// What was asked for.
    pub name: String,
}

impl FromStr for Mutant {
    type Err = UnknownMutant;

    fn from_str(name: &str) -> Result<Self, UnknownMutant> {
        ROWS.iter()
            .find(|row| row.name == name)
            .map(|row| row.mutant)
            .ok_or_else(|| UnknownMutant { name: name.to_owned() })
    }
}

/// The defect that a node carries, if any.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Planted(Option<Mutant>);

impl Planted {
    /// The code as it should be.
    pub const NONE: Self = Self(None);

    /// Plants `mutant`. Without the cargo feature `mutants` it stays without effect.
    pub const fn one(mutant: Mutant) -> Self {
        Self(Some(mutant))
    }

    /// Which one, whether or not this build can show it.
    pub const fn mutant(self) -> Option<Mutant> {
        self.0
    }

    /// Whether `mutant` is planted here.
    #[inline]
    pub fn has(self, mutant: Mutant) -> bool {
        let has = cfg!(feature = "mutants") && self.0 == Some(mutant);
        if has {
            hardly_ever();
        }
        has
    }
}

/// Has the compiler put what is done about a defect out of the way of what is done without.
#[cold]
#[inline(never)]
fn hardly_ever() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_its_name_and_serialises_as_it() {
        for row in Mutant::rows() {
            assert_eq!(row.name.parse(), Ok(row.mutant));
            assert_eq!(row.mutant.row().name, row.name);
            // `stringify!` of the variant and the serde name must agree, or timelines and flags part ways.
            let camel: String =
                row.name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
            assert_eq!(format!("{:?}", row.mutant), camel);
        }
        assert!("no_such_defect".parse::<Mutant>().is_err());
    }

    #[test]
    fn a_defect_shows_only_in_builds_that_may_have_it() {
        let planted = Planted::one(Mutant::Figure8);
        assert_eq!(planted.has(Mutant::Figure8), cfg!(feature = "mutants"));
        assert!(!planted.has(Mutant::DoubleVote));
        assert!(!Planted::NONE.has(Mutant::Figure8));
    }
}
