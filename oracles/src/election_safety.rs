//! Election safety: "at most one leader can be elected in a given term" (§5.2, Figure 3).
//!
//! A leader is one life of a server: one that restarts and leads the same term again has forgotten its vote, and
//! counts as a second leader. Whoever sends AppendEntries of a term acts as its leader, whatever it calls itself.
//!
//! Not here: whether votes were given by the rules (`premises.rs`).

use std::collections::BTreeMap;

use sim_runtime::Owner;

use crate::property::{Property, Report};

/// By what a server shows that it leads.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Sign {
    /// It says that it won the election.
    Elected,
    /// It sends AppendEntries.
    Sends,
}

/// The leaders of all terms.
#[derive(Debug, Default)]
pub struct ElectionSafety {
    leaders: BTreeMap<u64, (Owner, Sign)>,
    /// The last leader that was looked up, because most messages come from the same one as the one before.
    last: Option<(u64, Owner)>,
}

impl ElectionSafety {
    /// `owner` acts as the leader of `term`.
    #[inline]
    pub fn leads(&mut self, owner: Owner, term: u64, sign: Sign, report: &mut Report<'_>) {
        if self.last != Some((term, owner)) {
            self.another(owner, term, sign, report);
        }
    }

    fn another(&mut self, owner: Owner, term: u64, sign: Sign, report: &mut Report<'_>) {
        let (first, first_sign) = *self.leaders.entry(term).or_insert((owner, sign));
        if first == owner {
            self.last = Some((term, owner));
            return;
        }
        let shape = if first.node == owner.node {
            "two lives of one server lead in the same term"
        } else if sign == Sign::Elected && first_sign == Sign::Elected {
            "two servers are elected in the same term"
        } else {
            "a server sends entries in a term that another one leads"
        };
        report.violation(Property::ElectionSafety, shape, || {
            let say = |owner: Owner, sign| {
                let deed = if sign == Sign::Elected { "was elected" } else { "sends AppendEntries" };
                format!("{} (life {}) {deed}", owner.node, owner.incarnation)
            };
            format!("in term {term}, {} and {}", say(first, first_sign), say(owner, sign))
        });
    }
}
