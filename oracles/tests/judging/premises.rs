//! Rules whose breach does no harm by itself.

use crate::scenes;
use crate::script::{Script, Subject};
use oracles::Premise;

mod claimed_not_chosen {
    use super::*;
    scenes! {
        Subject::Premise(Premise::ClaimedNotChosen);

        a_commit_that_only_its_leader_holds |s: &mut Script| {
            s.elect(1, 2);
            s.append(1, &[(2, 0)]);
            s.commit(1, 1);
        },
        but_a_majority_may_hold_it |s: &mut Script| {
            s.elect(1, 2);
            s.adopt([2], 2);
            s.replicate(1..=2, &[(2, 0)]);
            s.commit(1, 1);
        };

        /// Figure 8: a majority holds it, in a later term.
        a_commit_by_counting_replicas_of_an_older_term |s: &mut Script| {
            s.elect(1, 2);
            s.append(1, &[(2, 0)]);
            s.elect(1, 4);
            s.adopt([2], 4);
            s.append(2, &[(2, 0)]);
            s.commit(1, 1);
        },
        but_an_entry_of_the_leaders_term_commits_it |s: &mut Script| {
            s.elect(1, 2);
            s.append(1, &[(2, 0)]);
            s.elect(1, 4);
            s.adopt([2], 4);
            s.append(2, &[(2, 0)]);
            s.replicate(1..=2, &[(4, 0)]);
            s.commit(1, 2);
        };

        a_follower_that_has_not_synced_does_not_count |s: &mut Script| {
            s.elect(1, 2);
            s.adopt([2], 2);
            s.append(1, &[(2, 0)]);
            s.append_unsynced(2, &[(2, 0)]);
            s.commit(1, 1);
        },
        but_one_that_syncs_its_folder_last_does |s: &mut Script| {
            s.elect(1, 2);
            s.adopt([2], 2);
            s.append(1, &[(2, 0)]);
            s.append_unsynced(2, &[(2, 0)]);
            s.sync_dir(2, 1);
            s.commit(1, 1);
        };

        /// accepted: "while its durable term was T".
        a_follower_whose_term_is_not_durable_does_not_count |s: &mut Script| {
            s.elect(1, 2);
            s.replicate(1..=2, &[(2, 0)]);
            s.commit(1, 1);
        },
        but_its_term_may_become_durable_last |s: &mut Script| {
            s.elect(1, 2);
            s.replicate(1..=2, &[(2, 0), (2, 1)]);
            s.adopt([2], 2);
            s.commit(1, 2);
        };
    }

    /// What survived a power loss is durable, and was accepted.
    #[test]
    fn entries_that_survive_count() {
        crate::script::is_no_violation(Subject::Premise(Premise::ClaimedNotChosen), |s| {
            s.elect(1, 2);
            s.append(1, &[(2, 0)]);
            s.adopt([2], 2);
            s.append_unsynced(2, &[(2, 0)]);
            s.power_cycle(2, &[(2, 0)], 2, 0);
            s.commit(1, 1);
        });
    }
}

mod append_answered_early {
    use super::*;
    scenes! {
        Subject::Premise(Premise::AppendAnsweredEarly);

        a_follower_vouches_for_what_it_has_not_synced |s: &mut Script| {
            s.adopt([2], 1);
            s.append(2, &[(1, 0)]);
            s.append_unsynced(2, &[(1, 1)]);
            s.answer_append(2, 1, 2);
        },
        but_it_may_for_what_it_has |s: &mut Script| {
            s.adopt([2], 1);
            s.append(2, &[(1, 0)]);
            s.append_unsynced(2, &[(1, 1)]);
            s.answer_append(2, 1, 1);
        };

        /// A sync that covers a later entry does not vouch for an earlier one.
        a_follower_vouches_across_a_gap |s: &mut Script| {
            s.adopt([2], 1);
            s.append_unsynced(2, &[(1, 0), (1, 1)]);
            s.sync(2, 2);
            s.answer_append(2, 1, 2);
        },
        but_not_once_the_gap_is_closed |s: &mut Script| {
            s.adopt([2], 1);
            s.append_unsynced(2, &[(1, 0), (1, 1)]);
            s.sync(2, 2);
            s.sync(2, 1);
            s.answer_append(2, 1, 2);
        };
    }
}

mod vote_granted_early {
    use super::*;
    scenes! {
        Subject::Premise(Premise::VoteGrantedEarly);

        a_vote_is_granted_from_memory |s: &mut Script| {
            s.vote(2, 3, 0);
            s.write_vote(2, 3, 1);
            s.answer_vote(2, 1, true);
        },
        but_a_refusal_needs_none |s: &mut Script| {
            s.vote(2, 3, 0);
            s.answer_vote(2, 1, false);
            s.vote(2, 3, 3);
            s.answer_vote(2, 3, true);
        };
    }
}

mod vote_asked_early {
    use super::*;
    scenes! {
        Subject::Premise(Premise::VoteAskedEarly);

        a_candidate_asks_before_its_own_vote_is_durable |s: &mut Script| {
            s.vote(2, 3, 0);
            s.write_vote(2, 3, 2);
            s.ask(2, 1);
        },
        but_it_may_ask_afterwards |s: &mut Script| {
            s.vote(2, 3, 2);
            s.ask(2, 1);
            s.restart(2);
            s.ask(2, 1);
        };
    }
}

mod hard_state_taken_back {
    use super::*;
    scenes! {
        Subject::Premise(Premise::HardStateTakenBack);

        /// "Increases monotonically."
        a_disk_goes_back_to_an_earlier_term |s: &mut Script| {
            s.vote(1, 3, 2);
            s.vote(1, 2, 0);
        },
        but_it_may_say_the_same_again |s: &mut Script| {
            s.vote(1, 3, 0);
            s.vote(1, 3, 2);
            s.vote(1, 3, 2);
        };

        a_vote_is_cleared_in_its_term |s: &mut Script| {
            s.vote(1, 3, 2);
            s.vote(1, 3, 0);
        },
        but_not_in_the_next |s: &mut Script| {
            s.vote(1, 3, 2);
            s.vote(1, 4, 0);
        };

        a_second_candidate_gets_a_vote |s: &mut Script| {
            s.vote(1, 3, 2);
            s.vote(1, 3, 3);
        },
        but_only_in_a_second_term |s: &mut Script| {
            s.vote(1, 3, 2);
            s.vote(1, 4, 3);
        };
    }
}

mod term_sent_early {
    use super::*;
    scenes! {
        Subject::Premise(Premise::TermSentEarly);

        a_refusal_shows_a_term_that_is_not_durable |s: &mut Script| {
            s.write_vote(2, 3, 0);
            s.answer_vote(2, 1, false);
        },
        but_messages_of_earlier_terms_may_leave_late |s: &mut Script| {
            s.elect(2, 3);
            s.write_vote(2, 4, 0);
            s.send_append(2, 1, 3);
        };
    }
}

mod vote_counted_not_cast {
    use super::*;
    scenes! {
        Subject::Premise(Premise::VoteCountedNotCast);

        /// A reply from an earlier campaign.
        a_vote_of_another_term_is_counted |s: &mut Script| {
            s.vote(2, 3, 1);
            s.vote(1, 4, 1);
            s.count_vote(1, 2);
        },
        but_the_voter_may_have_moved_on |s: &mut Script| {
            s.vote(2, 4, 1);
            s.vote(2, 5, 3);
            s.vote(1, 4, 1);
            s.count_vote(1, 2);
        };
    }
}

mod read_served_early {
    use super::*;
    scenes! {
        Subject::Premise(Premise::ReadServedEarly);

        a_read_is_answered_before_its_index_is_applied |s: &mut Script| {
            s.apply_at(1, 1, (1, 0), 0);
            s.serve_read(1, 2);
        },
        but_the_state_may_be_newer |s: &mut Script| {
            s.apply_at(1, 1, (1, 0), 0);
            s.apply_at(1, 2, (1, 1), 7);
            s.serve_read(1, 1);
        };
    }
}

mod acknowledged_early {
    use super::*;
    scenes! {
        Subject::Premise(Premise::AcknowledgedEarly);

        a_client_is_told_of_what_no_server_did |s: &mut Script| {
            s.invoke(1);
            s.told(1, 1);
        },
        but_one_server_is_enough |s: &mut Script| {
            s.append(1, &[(1, 1)]);
            s.invoke(1);
            s.apply(1);
            s.told(1, 1);
            s.invoke_read(2);
            s.told_read(2);
        };
    }
}
