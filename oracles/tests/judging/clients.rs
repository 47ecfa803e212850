//! What clients rely on (§8, §5.6): durability, exactly-once, liveness, linearizability.

use crate::script::Script;

/// n1 leads, everything is applied everywhere, and the client is served.
fn serve(s: &mut Script) {
    s.adopt([2, 3], 1);
    s.elect(1, 1);
    s.invoke(1);
    s.replicate(1..=3, &[(1, 0), (1, 1)]);
    for n in 1..=3 {
        s.commit(n, 2);
        s.apply(n);
        s.apply(n);
    }
    s.told(1, 1);
}

/// Faults end, the client reads once more, and the cluster settles.
fn settle(s: &mut Script) {
    s.heal(500);
    s.invoke_read(900);
    s.told_read(900);
    s.quiesce();
    s.wait_ms(600);
    s.settle();
}

mod durability {
    use super::{serve, settle};
    use crate::scenes;
    use crate::script::Script;
    use crate::script::Subject;
    use oracles::Property;

    scenes! {
        Subject::Property(Property::Durability);

        /// A command that a client was told is done is never lost.
        an_acknowledged_write_is_nowhere |s: &mut Script| {
            serve(s);
            s.invoke(2);
            s.told(2, 0);
            settle(s);
        },
        but_an_unknown_one_may_be |s: &mut Script| {
            serve(s);
            s.invoke(2);
            s.give_up(2);
            settle(s);
        };

        a_write_took_effect_in_an_earlier_life_only |s: &mut Script| {
            serve(s);
            s.restart(1);
            s.elect(1, 2);
            s.apply_at(1, 1, (1, 0), 0);
            s.apply_at(1, 2, (1, 1), 7);
            settle(s);
        },
        but_it_may_be_carried_out_again_there |s: &mut Script| {
            serve(s);
            s.restart(1);
            s.elect(1, 2);
            s.apply(1);
            s.apply(1);
            settle(s);
        };
    }

    /// An acknowledged read promises nothing for later.
    #[test]
    fn a_read_need_not_be_found() {
        crate::script::is_no_violation(Subject::Property(Property::Durability), |s| {
            serve(s);
            s.invoke_read(2);
            s.told_read(2);
            settle(s);
        });
    }
}

mod exactly_once {
    use crate::scenes;
    use crate::script::{Script, Subject};
    use oracles::Property;
    use oracles::records::Executed;

    fn execute(s: &mut Script, n: u16, sequence: u64, index: u64) {
        s.say(n, Executed { session: 1, sequence, index });
    }

    scenes! {
        Subject::Property(Property::ExactlyOnce);

        /// "The state machine ... responds immediately without re-executing the request."
        one_operation_takes_effect_twice |s: &mut Script| {
            execute(s, 1, 5, 1);
            execute(s, 1, 5, 3);
        },
        but_once_in_each_life_of_each_server |s: &mut Script| {
            execute(s, 1, 5, 1);
            execute(s, 2, 5, 1);
            s.restart(1);
            execute(s, 1, 5, 1);
            execute(s, 1, 6, 2);
        };

        a_retry_gets_the_reply_of_another |s: &mut Script| {
            s.apply_at(1, 1, (1, 5), 70);
            s.apply_at(1, 2, (1, 5), 71);
        },
        but_it_may_get_its_own_or_none |s: &mut Script| {
            s.apply_at(1, 1, (1, 5), 70);
            s.apply_at(1, 2, (1, 5), 70);
            s.apply_at(1, 3, (1, 5), oracles::witness::FORGOTTEN);
            s.apply_at(1, 4, (1, 6), 71);
        };

        /// Servers that agree on a mistake are seen through by the client.
        a_key_has_seen_more_writes_than_were_asked_for |s: &mut Script| {
            s.invoke(1);
            s.invoke(2);
            s.told(1, 3);
        },
        but_those_of_calls_without_an_answer_count |s: &mut Script| {
            s.invoke(1);
            s.invoke(2);
            s.told(1, 2);
        };
    }
}

mod liveness {
    use super::{serve, settle};
    use crate::scenes;
    use crate::script::{Script, Subject};
    use oracles::Property;
    use raft_async::trace::RoleKind;
    use sim_runtime::trace::Down;

    scenes! {
        Subject::Property(Property::Liveness);

        nobody_leads_in_the_end |s: &mut Script| {
            serve(s);
            s.become_role(1, RoleKind::Follower);
            settle(s);
        },
        but_another_may_lead |s: &mut Script| {
            serve(s);
            s.become_role(1, RoleKind::Follower);
            s.elect(2, 2);
            settle(s);
        };

        an_election_never_ends |s: &mut Script| {
            serve(s);
            s.heal(500);
            s.invoke_read(2);
            s.told_read(2);
            s.vote(2, 2, 2);
            s.wait_ms(300);
            s.vote(3, 3, 3);
            s.wait_ms(300);
            s.settle();
        },
        but_one_may_be_under_way |s: &mut Script| {
            serve(s);
            s.heal(500);
            s.invoke_read(2);
            s.told_read(2);
            s.vote(2, 2, 2);
            s.wait_ms(300);
            s.elect(2, 2);
            s.vote(3, 3, 3);
            s.wait_ms(300);
            s.settle();
        };

        /// A leader that the others have outgrown leads nobody.
        a_deposed_leader_is_none |s: &mut Script| {
            serve(s);
            s.adopt([2, 3], 2);
            settle(s);
        },
        but_a_dead_server_may_have_outgrown_it |s: &mut Script| {
            serve(s);
            s.adopt([3], 2);
            s.down(3, Down::PowerOff);
            settle(s);
        };

        an_operation_waits_for_ever |s: &mut Script| {
            serve(s);
            s.invoke_read(2);
            settle(s);
        },
        but_it_may_be_answered_late |s: &mut Script| {
            serve(s);
            s.invoke_read(2);
            s.heal(500);
            s.wait_ms(5_000);
            s.told_read(2);
            settle(s);
        };

        an_operation_from_before_the_healing_is_given_up |s: &mut Script| {
            serve(s);
            s.invoke_read(2);
            s.heal(500);
            s.wait_ms(900);
            s.give_up(2);
            s.invoke_read(3);
            s.told_read(3);
            s.settle();
        },
        but_it_may_be_within_the_grace |s: &mut Script| {
            serve(s);
            s.invoke_read(2);
            s.heal(500);
            s.wait_ms(400);
            s.give_up(2);
            s.invoke_read(3);
            s.told_read(3);
            s.settle();
        };

        a_fresh_operation_is_given_up |s: &mut Script| {
            serve(s);
            s.heal(500);
            s.invoke_read(2);
            s.wait_ms(900);
            s.give_up(2);
            s.invoke_read(3);
            s.told_read(3);
            s.settle();
        },
        but_it_may_take_long |s: &mut Script| {
            serve(s);
            s.heal(500);
            s.invoke_read(2);
            s.wait_ms(900);
            s.told_read(2);
            s.settle();
        };

        a_client_is_served_no_more |s: &mut Script| {
            serve(s);
            s.heal(500);
            s.settle();
        },
        but_a_cluster_that_is_never_healed_need_not_serve |s: &mut Script| {
            serve(s);
            s.settle();
        };

        a_server_stays_behind |s: &mut Script| {
            serve(s);
            s.restart(3);
            settle(s);
        },
        but_not_for_what_is_committed_after_the_quiet |s: &mut Script| {
            serve(s);
            s.heal(500);
            s.invoke_read(2);
            s.told_read(2);
            s.quiesce();
            s.append(1, &[(1, 2)]);
            s.commit(1, 3);
            s.settle();
        };

        a_server_refuses_to_run |s: &mut Script| {
            serve(s);
            s.down(3, Down::Exit);
            settle(s);
        },
        but_it_may_be_off |s: &mut Script| {
            serve(s);
            s.down(3, Down::PowerOff);
            settle(s);
        };
    }

    /// Where disks fail, a server that stops with a clear error does what it should.
    #[test]
    fn a_server_may_refuse_to_run_from_a_broken_disk() {
        let mut s = Script::with(3, |config| config.halts_allowed = true);
        serve(&mut s);
        s.down(3, Down::Exit);
        settle(&mut s);
        assert_eq!(s.found().failures, []);
    }
}

mod linearizability {
    use crate::script::Script;
    use oracles::{Property, Recorder};
    use raft_async::types::{Key, Op, OpReply, Sequence, SessionId, Value};
    use sim_runtime::verdict::{Category, Findings};

    const KEY: Key = Key(1);

    /// A client puts 7 and reads `seen`.
    fn put_and_see(seen: Option<u64>, disabled: &[&'static str], budget_nodes: u64) -> Findings {
        let book = Recorder::new();
        // What was put once needs no search, so without a budget it is put twice.
        let puts = if budget_nodes == 0 { 2 } else { 1 };
        for sequence in 1..=puts {
            let put = book.begin(0, SessionId(1), Sequence(sequence), Op::Put { key: KEY, value: 7 });
            book.answered(put, &OpReply::Done { version: sequence });
        }
        let get = book.begin(0, SessionId(1), Sequence(puts + 1), Op::Get { key: KEY });
        book.answered(get, &OpReply::Value(seen.map(Value::Register)));
        let mut s = Script::with(3, |config| {
            config.disabled = disabled.iter().copied().collect();
            config.clients = Some(book);
            config.linearizability.budget_nodes = budget_nodes;
        });
        s.invoke(1);
        s.told(1, 1);
        s.end();
        s.found().clone()
    }

    #[test]
    fn a_write_that_is_not_seen_is_caught_by_its_oracle_alone() {
        let found = put_and_see(None, &[], 1_000);
        let failure = found.first().expect("the read is stale");
        assert_eq!(failure.category, Category::Linearizability);
        assert_eq!(failure.property, Property::Linearizability.name());
        assert!(failure.evidence.contains("put#0(7)"), "{}", failure.evidence);
        assert_eq!(put_and_see(None, &[Property::Linearizability.name()], 1_000).failures, []);
    }

    #[test]
    fn but_one_that_is_seen_is_right() {
        assert_eq!(put_and_see(Some(7), &[], 1_000).failures, []);
    }

    /// "Undecided: never a pass."
    #[test]
    fn a_judge_without_a_budget_is_undecided() {
        assert_eq!(put_and_see(Some(7), &[], 0).category(), Category::Undecided);
    }

    /// "No operation completed: reported, never rounded away."
    #[test]
    fn clients_that_complete_nothing_make_an_idle_run() {
        let mut s = Script::new(3, &[], Some(Recorder::new()));
        s.end();
        assert_eq!(s.found().category(), Category::Idle);
    }
}
