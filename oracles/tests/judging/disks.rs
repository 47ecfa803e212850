//! Shadow, node and disk.

mod fidelity {
    use crate::scenes;
    use crate::script::{Script, Subject, digest_of};
    use oracles::Property;
    use raft_async::trace::{Became, LogSummary, RoleKind};
    use sim_runtime::trace::Down;

    fn elected_with(s: &mut Script, last_index: u64, last_term: u64) {
        s.vote(1, 3, 1);
        s.say(1, Became { role: RoleKind::Leader, term: 3, last_index, last_term, commit: 0 });
    }

    scenes! {
        Subject::Property(Property::Fidelity);

        a_leader_has_another_last_entry_than_it_said |s: &mut Script| {
            s.append(1, &[(1, 0), (2, 1)]);
            elected_with(s, 2, 1);
        },
        but_it_may_have_what_is_in_no_file_yet |s: &mut Script| {
            s.append(1, &[(1, 0)]);
            s.remember(1, (2, 1));
            elected_with(s, 2, 2);
        };

        a_leader_has_another_log_than_it_said |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1)]);
            let log_digest = digest_of(&[(1, 0), (1, 2)]);
            s.say(1, LogSummary { last_index: 2, last_term: 1, log_digest });
        },
        but_it_may_have_that_one |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1)]);
            s.summarise(1);
        };

        an_entry_follows_a_hole |s: &mut Script| {
            s.append(1, &[(1, 0)]);
            s.remember_at(1, 3, (1, 1));
        },
        but_it_may_follow_a_cut |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1)]);
            s.truncate(1, 2);
            s.append(1, &[(2, 0)]);
        };

        /// A torn or old record is taken for a good one.
        a_server_recovers_what_it_never_wrote |s: &mut Script| {
            s.append(1, &[(1, 0)]);
            s.power_cycle(1, &[(1, 0), (1, 1)], 0, 0);
        },
        but_its_disk_may_bear_it_out |s: &mut Script| {
            s.append(1, &[(1, 0)]);
            s.shows(1, &[(1, 0), (1, 1)], 0, 0);
            s.power_cycle(1, &[(1, 0), (1, 1)], 0, 0);
        };

        a_durable_entry_is_missing_after_a_restart |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1)]);
            s.power_cycle(1, &[(1, 0)], 0, 0);
        },
        but_one_that_was_never_synced_may_be |s: &mut Script| {
            s.append(1, &[(1, 0)]);
            s.append_unsynced(1, &[(1, 1)]);
            s.power_cycle(1, &[(1, 0)], 0, 0);
        };

        /// Whoever is killed loses nothing that was written.
        a_killed_server_loses_a_durable_entry |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1)]);
            s.down(1, Down::Kill);
            s.power_cycle(1, &[], 0, 0);
        },
        but_a_cut_that_was_not_synced_may_come_to_nothing |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1), (1, 2)]);
            s.truncate(1, 2);
            s.append_unsynced(1, &[(2, 0)]);
            s.power_cycle(1, &[(1, 0), (1, 1), (1, 2)], 0, 0);
        };

        /// The file was cut: what is appended again is durable when it is written again.
        an_entry_that_was_written_again_is_missing |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1)]);
            s.truncate(1, 2);
            s.cut_file(1, 2);
            s.append(1, &[(1, 1)]);
            s.power_cycle(1, &[(1, 0)], 0, 0);
        },
        but_not_one_whose_old_bytes_were_cut_after_it_came_again |s: &mut Script| {
            s.append(1, &[(1, 0)]);
            s.remember(1, (1, 1));
            s.truncate(1, 2);
            s.remember(1, (1, 1));
            // The batch that was under way is of the first time.
            s.write(1, 2);
            s.sync(1, 2);
            s.cut_file(1, 2);
            s.power_cycle(1, &[(1, 0)], 0, 0);
        };

        /// A booting server cuts what is torn, which nothing durable is.
        a_durable_entry_is_cut_at_boot |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1)]);
            s.down(1, Down::PowerOff);
            s.boot(1);
            s.cut_file(1, 2);
            s.finds(1, &[(1, 0)]);
        },
        but_a_torn_one_may_be |s: &mut Script| {
            s.append(1, &[(1, 0)]);
            s.append_unsynced(1, &[(1, 1)]);
            s.down(1, Down::PowerOff);
            s.boot(1);
            s.cut_file(1, 2);
            s.finds(1, &[(1, 0)]);
        };

        the_disk_shows_another_log_than_was_recovered |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1)]);
            s.shows(1, &[(1, 0)], 0, 0);
            s.restart(1);
        },
        but_it_may_show_more |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1)]);
            s.shows(1, &[(1, 0), (1, 1), (1, 2)], 0, 0);
            s.restart(1);
        };

        the_disk_holds_another_vote_than_was_saved |s: &mut Script| {
            s.vote(1, 3, 2);
            s.holds(1, &[], 3, 0);
            s.end();
        },
        but_it_may_hold_one_that_is_on_its_way |s: &mut Script| {
            s.vote(1, 3, 2);
            s.write_vote(1, 4, 0);
            s.holds(1, &[], 4, 0);
            s.end();
        };

        a_durable_entry_is_not_on_the_platter |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1)]);
            s.holds(1, &[(1, 0)], 0, 0);
            s.down(1, Down::PowerOff);
        },
        but_one_that_is_in_the_cache_need_not_be |s: &mut Script| {
            s.append(1, &[(1, 0)]);
            s.append_unsynced(1, &[(1, 1)]);
            s.holds(1, &[(1, 0)], 0, 0);
            s.down(1, Down::PowerOff);
        };

        a_server_runs_from_a_disk_that_cannot_be_read |s: &mut Script| {
            s.is_corrupt(1);
            s.restart(1);
        },
        but_one_that_is_down_may_be_healed_first |s: &mut Script| {
            s.append(1, &[(1, 0)]);
            s.down(1, Down::Kill);
            s.boot(1);
            s.recover(1);
            s.shows(1, &[(1, 0)], 0, 0);
            s.holds(1, &[(1, 0)], 0, 0);
            s.elect(2, 1);
        };
    }

    /// Files that lose their name take their entries with them.
    #[test]
    fn what_was_in_a_removed_file_is_not_durable() {
        crate::script::is_no_violation(Subject::Property(Property::Fidelity), |s| {
            s.append(1, &[(1, 0), (1, 1)]);
            s.truncate(1, 1);
            s.remember(1, (1, 0));
            s.write(1, 1);
            s.sync(1, 1);
            s.remove_file(1);
            s.power_cycle(1, &[], 0, 0);
        });
    }
}
