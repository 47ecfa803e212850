//! What must not go back (Figure 2).

mod monotonicity {
    use crate::scenes;
    use crate::script::{Script, Subject};
    use oracles::Property;

    scenes! {
        Subject::Property(Property::Monotonicity);

        /// "Persistent state on all servers."
        a_durable_term_is_forgotten |s: &mut Script| {
            s.vote(1, 3, 0);
            s.power_cycle(1, &[], 2, 0);
        },
        but_one_that_was_never_synced_may_be |s: &mut Script| {
            s.vote(1, 2, 0);
            s.write_vote(1, 3, 0);
            s.power_cycle(1, &[], 2, 0);
        };

        a_durable_vote_is_forgotten |s: &mut Script| {
            s.vote(1, 3, 2);
            s.power_cycle(1, &[], 3, 0);
        },
        but_not_when_the_term_has_passed |s: &mut Script| {
            s.vote(1, 3, 2);
            s.vote(1, 4, 0);
            s.power_cycle(1, &[], 4, 0);
        };

        /// What others were told binds, whatever became of the disk.
        a_vote_that_was_sent_is_forgotten |s: &mut Script| {
            s.write_vote(1, 3, 2);
            s.answer_vote(1, 2, true);
            s.power_cycle(1, &[], 3, 0);
        },
        but_a_refusal_binds_only_to_the_term |s: &mut Script| {
            s.write_vote(1, 3, 0);
            s.answer_vote(1, 2, false);
            s.power_cycle(1, &[], 3, 3);
        };

        a_candidacy_is_forgotten |s: &mut Script| {
            s.write_vote(1, 3, 1);
            s.ask(1, 2);
            s.power_cycle(1, &[], 2, 0);
        },
        but_one_that_nobody_heard_of_may_be |s: &mut Script| {
            s.write_vote(1, 3, 1);
            s.power_cycle(1, &[], 0, 0);
        };

        a_term_that_was_acknowledged_is_forgotten |s: &mut Script| {
            s.write_vote(1, 3, 0);
            s.answer_append(1, 2, 0);
            s.power_cycle(1, &[], 2, 0);
        },
        but_a_later_one_may_be_found |s: &mut Script| {
            s.write_vote(1, 3, 0);
            s.answer_append(1, 2, 0);
            s.write_vote(1, 4, 2);
            s.power_cycle(1, &[], 4, 2);
        };

        a_term_that_was_led_is_forgotten |s: &mut Script| {
            s.write_vote(1, 3, 1);
            s.send_append(1, 2, 3);
            s.power_cycle(1, &[], 2, 0);
        },
        but_it_may_be_remembered |s: &mut Script| {
            s.write_vote(1, 3, 1);
            s.send_append(1, 2, 3);
            s.power_cycle(1, &[], 3, 1);
        };

        the_commit_index_goes_back |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1)]);
            s.commit(1, 2);
            s.commit(1, 1);
        },
        but_a_new_life_begins_anew |s: &mut Script| {
            s.append(1, &[(1, 0), (1, 1)]);
            s.commit(1, 2);
            s.restart(1);
            s.commit(1, 1);
        };

        an_entry_is_applied_again |s: &mut Script| {
            s.apply_at(1, 1, (1, 0), 0);
            s.apply_at(1, 1, (1, 0), 0);
        },
        but_a_new_life_applies_all_anew |s: &mut Script| {
            s.apply_at(1, 1, (1, 0), 0);
            s.apply_at(1, 2, (1, 1), 7);
            s.restart(1);
            s.apply_at(1, 1, (1, 0), 0);
        };

        an_entry_is_skipped |s: &mut Script| {
            s.apply_at(1, 1, (1, 0), 0);
            s.apply_at(1, 3, (1, 2), 7);
        },
        but_servers_may_be_apart |s: &mut Script| {
            s.apply_at(1, 1, (1, 0), 0);
            s.apply_at(1, 2, (1, 1), 7);
            s.apply_at(2, 1, (1, 0), 0);
        };
    }
}
