//! Elections, logs, commitment (§5.2-§5.4).

mod election_safety {
    use crate::scenes;
    use crate::script::{Script, Subject};
    use oracles::Property;
    use raft_async::trace::RoleKind;

    scenes! {
        Subject::Property(Property::ElectionSafety);

        /// "At most one leader can be elected in a given term."
        two_servers_win_one_term |s: &mut Script| {
            s.elect(1, 2);
            s.elect(2, 2);
        },
        but_two_servers_may_win_two_terms |s: &mut Script| {
            s.elect(1, 2);
            s.elect(2, 3);
            s.elect(1, 4);
        };

        /// A server that forgot its vote is two servers.
        two_lives_of_a_server_win_one_term |s: &mut Script| {
            s.elect(1, 2);
            s.power_cycle(1, &[], 2, 1);
            s.elect(1, 2);
        },
        but_one_life_may_say_so_twice |s: &mut Script| {
            s.elect(1, 2);
            s.become_role(1, RoleKind::Leader);
        };

        /// Whoever sends AppendEntries acts as leader, whatever it calls itself.
        a_leader_goes_on_in_a_term_that_another_won |s: &mut Script| {
            s.elect(1, 2);
            s.elect(2, 3);
            s.send_append(1, 3, 3);
        },
        but_a_deposed_leader_may_send_its_own_term |s: &mut Script| {
            s.elect(1, 2);
            s.elect(2, 3);
            s.send_append(2, 3, 3);
            s.send_append(1, 3, 2);
            s.send_append(2, 3, 3);
        };
    }
}

mod leader_append_only {
    use crate::scenes;
    use crate::script::{Script, Subject};
    use oracles::Property;
    use raft_async::trace::RoleKind;

    scenes! {
        Subject::Property(Property::LeaderAppendOnly);

        /// "A leader never overwrites or deletes entries in its log."
        a_leader_removes_its_last_entry |s: &mut Script| {
            s.elect(1, 2);
            s.append(1, &[(2, 0), (2, 1)]);
            s.truncate(1, 2);
        },
        but_a_deposed_one_may |s: &mut Script| {
            s.elect(1, 2);
            s.append(1, &[(2, 0), (2, 1)]);
            s.vote(1, 3, 0);
            s.become_role(1, RoleKind::Follower);
            s.truncate(1, 2);
        };

        a_leader_overwrites_an_entry |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1)]);
            s.elect(1, 2);
            s.remember_at(1, 2, (2, 2));
        },
        but_it_may_repeat_one_and_cut_behind_the_end |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1)]);
            s.elect(1, 2);
            s.remember_at(1, 2, (1, 1));
            s.truncate(1, 3);
        };
    }
}

mod log_matching {
    use crate::scenes;
    use crate::script::{Script, Subject};
    use oracles::Property;

    scenes! {
        Subject::Property(Property::LogMatching);

        /// "If two entries in different logs have the same index and term, then they store the same command."
        one_index_and_term_two_commands |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1)]);
            s.append(2, &[(1, 0), (1, 2)]);
        },
        but_two_terms_may_have_two_commands |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1)]);
            s.append(2, &[(1, 0), (2, 2)]);
        };

        /// "If two entries in different logs have the same index and term, then the logs are identical in all
        /// preceding entries."
        one_entry_two_pasts |s: &mut Script| {
            s.append(1, &[(1, 0), (3, 0)]);
            s.append(2, &[(2, 0), (3, 0)]);
        },
        but_divergent_tails_may_be_replaced |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1), (3, 0)]);
            s.append(2, &[(1, 0), (2, 1), (2, 2)]);
            s.truncate(2, 2);
            s.append(2, &[(1, 1), (3, 0)]);
        };

        /// A conflicting entry is overwritten, and what follows it is kept.
        a_tail_outlives_what_it_followed |s: &mut Script| {
            s.append(1, &[(1, 0), (2, 1), (2, 2)]);
            s.remember_at(1, 2, (3, 0));
        },
        but_it_may_go |s: &mut Script| {
            s.append(1, &[(1, 0), (2, 1), (2, 2)]);
            s.truncate(1, 2);
            s.append(1, &[(3, 0)]);
        };

        /// A disk may hold what nobody saw being written; it is a log like any other.
        a_recovered_log_contradicts_another |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1)]);
            s.shows(2, &[(1, 0), (1, 2)], 0, 0);
            s.power_cycle(2, &[(1, 0), (1, 2)], 0, 0);
        },
        but_it_may_agree_with_it |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1)]);
            s.shows(2, &[(1, 0), (1, 1), (1, 2)], 0, 0);
            s.power_cycle(2, &[(1, 0), (1, 1), (1, 2)], 0, 0);
        };
    }
}

mod leader_completeness {
    use crate::scenes;
    use crate::script::{Script, Subject};
    use oracles::Property;

    scenes! {
        Subject::Property(Property::LeaderCompleteness);

        /// "If a log entry is committed in a given term, then that entry will be present in the logs of the leaders
        /// for all higher-numbered terms."
        a_later_leader_lacks_a_committed_entry |s: &mut Script| {
            s.elect(1, 2);
            s.replicate(1..=2, &[(2, 0), (2, 1)]);
            s.commit(1, 2);
            s.append(3, &[(2, 0)]);
            s.elect(3, 3);
        },
        but_it_may_lack_one_that_is_not_committed |s: &mut Script| {
            s.elect(1, 2);
            s.replicate(1..=2, &[(2, 0), (2, 1)]);
            s.append(1, &[(2, 2)]);
            s.commit(1, 2);
            s.elect(2, 3);
        };

        /// Figure 8: the old leader commits an entry of an older term, long after its successor was elected.
        a_deposed_leader_commits_what_its_successor_lacks |s: &mut Script| {
            s.append(1, &[(1, 0), (2, 1)]);
            s.append(2, &[(1, 0)]);
            s.elect(1, 4);
            s.elect(2, 5);
            s.append(3, &[(1, 0), (2, 1)]);
            s.commit(1, 2);
        },
        but_it_may_commit_what_its_successor_has |s: &mut Script| {
            s.append(1, &[(1, 0), (2, 1)]);
            s.append(2, &[(1, 0)]);
            s.elect(1, 4);
            s.elect(2, 5);
            s.commit(1, 1);
        };

        an_applied_entry_is_a_claim |s: &mut Script| {
            s.adopt([1], 2);
            s.append(1, &[(2, 0)]);
            s.apply(1);
            s.elect(3, 3);
        },
        but_not_for_leaders_of_that_term_or_before |s: &mut Script| {
            s.adopt([1], 4);
            s.append(1, &[(2, 0)]);
            s.apply(1);
            s.elect(3, 3);
            s.elect(2, 4);
        };

        /// An entry is committed in its own term at the earliest, whatever the server believes.
        a_claim_is_no_older_than_its_entry |s: &mut Script| {
            s.append(1, &[(4, 0)]);
            s.apply(1);
            s.elect(3, 5);
        },
        but_it_does_not_bind_the_leader_of_that_term |s: &mut Script| {
            s.append(1, &[(4, 0)]);
            s.apply(1);
            s.elect(3, 4);
        };

        an_acknowledged_entry_is_a_claim |s: &mut Script| {
            s.elect(1, 2);
            s.append(1, &[(2, 0), (2, 1)]);
            s.acknowledge(1, 2);
            s.append(2, &[(2, 0)]);
            s.elect(2, 3);
        },
        but_what_follows_it_is_not |s: &mut Script| {
            s.elect(1, 2);
            s.append(1, &[(2, 0), (2, 1)]);
            s.acknowledge(1, 1);
            s.append(2, &[(2, 0)]);
            s.elect(2, 3);
        };

        /// A commit index beyond the log claims what comes there.
        an_entry_that_comes_below_the_commit_index_is_a_claim |s: &mut Script| {
            s.adopt([1], 2);
            s.commit(1, 2);
            s.elect(2, 3);
            s.append(1, &[(1, 0)]);
        },
        but_not_one_above_it |s: &mut Script| {
            s.append(2, &[(1, 0), (1, 1)]);
            s.append(1, &[(1, 0)]);
            s.adopt([1], 2);
            s.commit(1, 1);
            s.elect(2, 3);
            s.append(1, &[(1, 2)].map(|(_, number)| (2, number)));
        };

        /// Claims of several terms: none of them may be forgotten for a later one.
        an_older_claim_on_another_branch_still_counts |s: &mut Script| {
            s.adopt([1, 2], 2);
            s.append(1, &[(1, 0), (1, 1)]);
            s.commit(1, 2);
            s.adopt([2], 3);
            s.append(2, &[(1, 0), (2, 1)]);
            s.commit(2, 2);
            s.elect(2, 4);
        },
        but_a_log_with_all_of_them_is_complete |s: &mut Script| {
            s.adopt([1, 2], 2);
            s.append(1, &[(1, 0), (1, 1)]);
            s.commit(1, 2);
            s.adopt([2], 3);
            s.append(2, &[(1, 0), (1, 1), (2, 1)]);
            s.commit(2, 3);
            s.elect(2, 4);
        };
    }
}

mod state_machine_safety {
    use crate::scenes;
    use crate::script::{Script, Subject};
    use oracles::Property;

    scenes! {
        Subject::Property(Property::StateMachineSafety);

        /// "No other server will ever apply a different log entry for the same index."
        two_commands_at_one_index |s: &mut Script| {
            s.apply_at(1, 1, (1, 1), 7);
            s.apply_at(2, 1, (1, 2), 7);
        },
        but_one_command_at_one_index_is_right |s: &mut Script| {
            s.apply_at(1, 1, (1, 1), 7);
            s.apply_at(2, 1, (1, 1), 7);
            s.apply_at(2, 2, (1, 2), 7);
        };

        /// No-ops of two leaders do the same and are different entries.
        two_noops_of_different_terms_at_one_index |s: &mut Script| {
            s.apply_at(1, 1, (1, 0), 0);
            s.apply_at(2, 1, (2, 0), 0);
        },
        but_one_noop_may_be_applied_again_after_a_restart |s: &mut Script| {
            s.append(1, &[(1, 0)]);
            s.apply(1);
            s.restart(1);
            s.apply(1);
        };

        one_command_two_replies |s: &mut Script| {
            s.apply_at(1, 1, (1, 1), 7);
            s.apply_at(2, 1, (1, 1), 8);
        },
        but_a_retry_is_another_entry |s: &mut Script| {
            s.apply_at(1, 1, (1, 1), 7);
            s.apply_at(1, 2, (1, 1), 1);
            s.apply_at(2, 1, (1, 1), 7);
            s.apply_at(2, 2, (1, 1), 1);
        };
    }
}
