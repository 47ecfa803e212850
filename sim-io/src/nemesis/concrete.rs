//! Plans with other nodes in them: the nodes that a role or a window meant, and fewer nodes.
//!
//! Not here: what is simpler (`milder.rs`, `plan.rs`), what a target means during a run (`driver.rs`).

use sim_runtime::NodeId;

use super::fault::{Fault, Links, PlannedFault, Target, When};
use super::plan::Plan;

impl Links {
    fn targets(&mut self) -> Vec<&mut Target> {
        match self {
            Self::Of(target) => vec![target],
            Self::Between { one, other } => vec![one, other],
            Self::OneWay { from, to } => vec![from, to],
        }
    }
}

impl Fault {
    /// Everybody it names, but for sides of partitions.
    fn targets(&mut self) -> Vec<&mut Target> {
        match self {
            Self::Kill { target }
            | Self::PowerOff { target }
            | Self::Pause { target }
            | Self::Isolate { target }
            | Self::Freeze { target }
            | Self::WallStep { target, .. }
            | Self::Drift { target, .. }
            | Self::DiskStall { target }
            | Self::SlowDisk { target, .. }
            | Self::FsyncErrors { target, .. }
            | Self::IoErrors { target, .. }
            | Self::DiskFull { target, .. }
            | Self::BitRot { target, .. } => vec![target],
            Self::CutLink { one, other } => vec![one, other],
            Self::CutOneWay { from, to } => vec![from, to],
            Self::SlowLinks { links, .. }
            | Self::LossBurst { links, .. }
            | Self::DuplicationBurst { links, .. } => links.targets(),
            Self::Partition { .. } => Vec::new(),
        }
    }

    /// Every node that it names.
    pub fn nodes(&self) -> Vec<NodeId> {
        let named = |target: &mut Target| match target {
            Target::Nodes(nodes) => nodes.clone(),
            Target::Role(_) | Target::Hit | Target::AllServers => Vec::new(),
        };
        let mut fault = self.clone();
        match &fault {
            Self::Partition { sides } => sides.concat(),
            _ => fault.targets().into_iter().flat_map(named).collect(),
        }
    }

    /// Replaces the targets that are meant.
    pub(super) fn replace_targets(&mut self, mut is_meant: impl FnMut(&Target) -> bool, by: &Target) {
        for target in self.targets() {
            if is_meant(target) {
                *target = by.clone();
            }
        }
    }

    /// The same fault, to the nodes that `resolve` says its targets mean.
    pub(super) fn concrete(&self, resolve: impl Fn(&Target) -> Vec<NodeId>) -> Self {
        let mut fault = self.clone();
        for target in fault.targets() {
            *target = Target::Nodes(resolve(target));
        }
        fault
    }

    /// The same fault where nodes have other numbers; `None` when nobody is left to whom it could happen.
    fn renumbered(&self, number: &impl Fn(NodeId) -> Option<NodeId>) -> Option<Self> {
        let mut fault = self.clone();
        if let Self::Partition { sides } = &mut fault {
            for side in sides.iter_mut() {
                *side = side.iter().filter_map(|node| number(*node)).collect();
            }
            sides.retain(|side| !side.is_empty());
            return (!sides.is_empty()).then_some(fault);
        }
        for target in fault.targets() {
            if let Target::Nodes(nodes) = target {
                *nodes = nodes.iter().filter_map(|node| number(*node)).collect();
                if nodes.is_empty() {
                    return None;
                }
            }
        }
        Some(fault)
    }
}

impl PlannedFault {
    fn renumbered(&self, number: &impl Fn(NodeId) -> Option<NodeId>) -> Option<Self> {
        let mut fault = Self { what: self.what.renumbered(number)?, ..self.clone() };
        if let When::Window { node: Some(node), .. } = &mut fault.when {
            *node = number(*node)?;
        }
        Some(fault)
    }
}

impl Plan {
    /// Plans with faults as they came in a run of this one, which is what [`super::run`] returned: all of them; all that
    /// came, as they were planned; one of them as it came, for each.
    pub fn concrete(&self, came: &Self) -> Vec<Self> {
        let as_it_came = |fault: &PlannedFault| came.faults.iter().find(|other| other.id == fault.id);
        let mut only_those = self.clone();
        only_those.faults.retain(|fault| as_it_came(fault).is_some());
        let one = |at: usize| {
            let mut plan = self.clone();
            plan.faults[at] = as_it_came(&plan.faults[at])?.clone();
            Some(plan)
        };
        let singly = (0..self.faults.len()).filter(|at| self.faults[*at].when.is_aimed()).filter_map(one);
        [came.clone(), only_those].into_iter().chain(singly).collect()
    }

    /// The same plan for the first `servers` servers and `clients` clients. Faults to others go, and so do the others'
    /// places in partitions.
    ///
    /// # Panics
    /// If that is more than there are.
    pub fn for_fewer(&self, servers: u16, clients: u16) -> Self {
        assert!(servers <= self.servers && clients <= self.clients, "a plan does not grow");
        let kept: Vec<u16> = (1..=servers).chain((1..=clients).map(|n| self.servers + n)).collect();
        self.for_those(&kept)
    }

    /// The same plan for the nodes of these numbers, rising, which are numbered anew from 1. Faults to others go, and so
    /// do the others' places in partitions.
    pub fn for_those(&self, kept: &[u16]) -> Self {
        let number = |node: NodeId| match node {
            NodeId::HOST => Some(node),
            NodeId(old) => kept.iter().position(|n| *n == old).map(|at| NodeId(at as u16 + 1)),
        };
        let servers = kept.iter().filter(|n| **n <= self.servers).count() as u16;
        let clients = kept.len() as u16 - servers;
        let faults = self.faults.iter().filter_map(|fault| fault.renumbered(&number)).collect();
        Self { servers, clients, faults, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_is_fixed_together_and_singly() {
        let aimed = |id| PlannedFault {
            id,
            when: When::Role { role: "leader".to_owned(), after_ns: 1 },
            what: Fault::Kill { target: Target::Hit },
            lasts_us: 1,
        };
        let fixed =
            |id| PlannedFault { id, ..planned(Fault::Kill { target: Target::Nodes(vec![NodeId(1)]) }) };
        let with = |faults| Plan { servers: 3, faults, ..Plan::default() };
        let plans = with(vec![aimed(1), aimed(2), aimed(3)]).concrete(&with(vec![fixed(1), fixed(3)]));
        let expected = [
            vec![fixed(1), fixed(3)],
            vec![aimed(1), aimed(3)],
            vec![fixed(1), aimed(2), aimed(3)],
            vec![aimed(1), aimed(2), fixed(3)],
        ];
        assert_eq!(plans, expected.map(with));
    }

    fn planned(what: Fault) -> PlannedFault {
        PlannedFault { id: 1, when: When::At { at_ns: 5 }, what, lasts_us: 1 }
    }

    #[test]
    fn clients_move_up_behind_fewer_servers_and_nobody_is_left_out_by_mistake() {
        let nodes = |numbers: &[u16]| numbers.iter().map(|n| NodeId(*n)).collect::<Vec<_>>();
        let sides = vec![nodes(&[1, 4, 6]), nodes(&[2, 3, 5, 7])];
        let plan = Plan {
            servers: 5,
            clients: 2,
            faults: vec![
                planned(Fault::Partition { sides }),
                planned(Fault::Kill { target: Target::Nodes(nodes(&[4, 5])) }),
                planned(Fault::PowerOff { target: Target::Nodes(nodes(&[3, 5])) }),
                planned(Fault::Isolate { target: Target::Role("leader".to_owned()) }),
            ],
            ..Plan::default()
        };
        let fewer = plan.for_fewer(3, 1);
        let left: Vec<_> = fewer.faults.iter().map(|fault| fault.what.clone()).collect();
        assert_eq!(
            left,
            [
                Fault::Partition { sides: vec![nodes(&[1, 4]), nodes(&[2, 3])] },
                Fault::PowerOff { target: Target::Nodes(nodes(&[3])) },
                Fault::Isolate { target: Target::Role("leader".to_owned()) },
            ]
        );
        assert_eq!(plan.for_fewer(5, 2), plan);
        let others = plan.for_those(&[1, 4, 5, 7]);
        assert_eq!((others.servers, others.clients), (3, 1));
        assert_eq!(others.faults[0].what, Fault::Partition { sides: vec![nodes(&[1, 2]), nodes(&[3, 4])] });
        assert_eq!(others.faults[1].what, Fault::Kill { target: Target::Nodes(nodes(&[2, 3])) });
    }
}
