//! Plans with faults varied at random: for shrinking, when nothing can be taken out.
//!
//!   plan ──stream──► one fault less, in half of the cases ──► a fault or two at another time, for longer, of another kind,
//!                                                            to another node, or waiting for a moment
//!
//! Many a variation does what the plan did, in a slightly other way, and from there something may go that could not before.
//!
//! Invariant: a varied plan has as many faults as the plan, or one less.
//! Not here: faults that are taken out or made one as they are (`plan.rs`, `merge.rs`).

use sim_runtime::NodeId;
use sim_runtime::rng::Stream;

use super::fault::{Fault, PlannedFault, Target, When};
use super::plan::{Aim, Plan};

/// No fault that is varied lasts longer.
const LONGEST_US: u64 = 60_000_000;

impl Plan {
    /// The plan with a fault or two varied, and in half of the cases one less; some wait for one of `aims`.
    pub fn varied(&self, stream: &mut Stream, aims: &[Aim]) -> Self {
        let mut plan = self.clone();
        if !plan.faults.is_empty() && stream.chance(500_000) {
            plan.faults.remove(stream.below(plan.faults.len() as u64) as usize);
        }
        if plan.faults.is_empty() {
            return plan;
        }
        for _ in 0..stream.range(1, 2) {
            let at = stream.below(plan.faults.len() as u64) as usize;
            plan.faults[at] = Varying { servers: self.servers, aims, stream }.fault(&plan.faults[at]);
        }
        plan
    }
}

/// Varies faults.
struct Varying<'a> {
    servers: u16,
    aims: &'a [Aim],
    stream: &'a mut Stream,
}

impl Varying<'_> {
    fn fault(&mut self, fault: &PlannedFault) -> PlannedFault {
        let mut varied = fault.clone();
        match self.stream.below(8) {
            0..2 => varied.when = fault.when.moved(self.shift_ns()),
            2 => {
                // It ends when it did.
                let by_ns = self.shift_ns();
                varied.when = fault.when.moved(by_ns);
                varied.lasts_us = fault.lasts_us.saturating_add_signed(-by_ns / 1_000).max(1);
            }
            3..5 => {
                let quarters = self.stream.range(2, 16);
                varied.lasts_us = (fault.lasts_us.saturating_mul(quarters) / 4).clamp(1_000, LONGEST_US);
            }
            5 => varied.what = self.other_kind(&fault.what),
            6 => varied.what = self.other_node(&fault.what),
            _ => self.wait_or_not(&mut varied),
        }
        varied
    }

    /// Either way, from a tenth of a millisecond to a tenth of a second: every doubling is as likely as the next.
    fn shift_ns(&mut self) -> i64 {
        let low = 100_000_u64 << self.stream.below(10);
        let shift_ns = self.stream.range(low, low * 2) as i64;
        if self.stream.chance(500_000) { shift_ns } else { -shift_ns }
    }

    fn other_kind(&mut self, what: &Fault) -> Fault {
        let target = self.target_of(what);
        match self.stream.below(4) {
            0..2 => Fault::Isolate { target },
            2 => Fault::Kill { target },
            _ => Fault::Pause { target },
        }
    }

    fn other_node(&mut self, what: &Fault) -> Fault {
        let target = Target::Nodes(vec![self.server()]);
        match what {
            Fault::Kill { .. } => Fault::Kill { target },
            Fault::PowerOff { .. } => Fault::PowerOff { target },
            Fault::Pause { .. } => Fault::Pause { target },
            Fault::Freeze { .. } => Fault::Freeze { target },
            Fault::DiskStall { .. } => Fault::DiskStall { target },
            _ => Fault::Isolate { target },
        }
    }

    /// Waits for a moment and strikes whoever comes to it; or no longer waits.
    fn wait_or_not(&mut self, fault: &mut PlannedFault) {
        let begins_ns = fault.when.earliest_ns();
        if fault.when.is_aimed() || self.aims.is_empty() {
            fault.when = When::At { at_ns: begins_ns };
            fault.what = self.other_node(&fault.what);
            return;
        }
        let earlier_ns = self.stream.range(0, 20_000_000);
        let after_ns = begins_ns.saturating_sub(earlier_ns);
        let delay_us = *self.stream.pick(&[0, 0, 200, 500, 1_000]);
        let fraction_per_mille = self.stream.below(1_000) as u32;
        fault.when = match self.stream.pick(self.aims).clone() {
            Aim::Point(name) => When::Point { name, after_ns, delay_us },
            Aim::Window(name) => When::Window { name, node: None, after_ns, fraction_per_mille },
            Aim::Role(role) => When::Role { role, after_ns },
        };
        fault.what = match &fault.what {
            Fault::Kill { .. } => Fault::Kill { target: Target::Hit },
            Fault::PowerOff { .. } => Fault::PowerOff { target: Target::Hit },
            Fault::Pause { .. } => Fault::Pause { target: Target::Hit },
            _ => Fault::Isolate { target: Target::Hit },
        };
    }

    /// The nodes that a fault strikes, where there are any that it names; else one.
    fn target_of(&mut self, what: &Fault) -> Target {
        match what {
            Fault::Kill { target }
            | Fault::PowerOff { target }
            | Fault::Pause { target }
            | Fault::Freeze { target }
            | Fault::Isolate { target } => target.clone(),
            _ => Target::Nodes(vec![self.server()]),
        }
    }

    fn server(&mut self) -> NodeId {
        NodeId(self.stream.range(1, self.servers.max(1).into()) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_varied_plan_has_as_many_faults_or_one_less_and_whoever_is_hit_is_known() {
        let fault = |id: u32| PlannedFault {
            id,
            when: When::At { at_ns: u64::from(id) * 50_000_000 },
            what: Fault::Kill { target: Target::AllServers },
            lasts_us: 1_000,
        };
        let plan = Plan { servers: 3, faults: (1..=5).map(fault).collect(), ..Plan::none(500_000_000) };
        let aims = [Aim::Point("vote".to_owned())];
        let mut stream = Stream::derive(9, "test");
        let (mut fewer, mut aimed, mut here) = (0, 0, plan.clone());
        for _ in 0..400 {
            let varied = here.varied(&mut stream, &aims);
            assert!([here.faults.len(), here.faults.len() - 1].contains(&varied.faults.len()), "{varied:?}");
            for fault in &varied.faults {
                let hits = fault.what.clone() == Fault::Isolate { target: Target::Hit };
                assert!(!hits || fault.when.is_aimed(), "{fault:?}");
            }
            fewer += usize::from(varied.faults.len() < here.faults.len());
            aimed += usize::from(varied.faults.iter().any(|fault| fault.when.is_aimed()));
            if varied.faults.len() == here.faults.len() {
                here = varied;
            }
        }
        assert!((150..250).contains(&fewer) && aimed > 100, "{fewer}, {aimed}");
    }
}
