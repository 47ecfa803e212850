//! A configuration for each seed of any program: what hides in one setting is plain in another.
//!
//!   what the simulation says ──stream "swarm: NAME"──► one dimension ──► SimulationConfig
//!
//! Draws are heavy-tailed, and around what the simulation says: rates of faults, latencies and syncs become some
//! percents of that. In three seeds of eight the faults are after something: they wait for one or two of the moments
//! that there are to aim at, and take away whoever is hit.
//!
//! Invariants: a dimension has a stream of its own, so one more moves none of the others; nothing is switched on that
//! the simulation does not have.
//! Not here: which fault strikes when (`nemesis`).

use std::collections::BTreeMap;

use sim_runtime::rng::Stream;
use sim_runtime::schedule::Schedule;

use super::{Simulation, SimulationConfig};
use crate::fs::DiskConfig;
use crate::nemesis::{Aim, FaultKind, PlanConfig};
use crate::net::NetConfig;

/// What takes somebody away, for a pursuit.
const TAKES_AWAY: [FaultKind; 9] = [
    FaultKind::Kill,
    FaultKind::PowerOff,
    FaultKind::Pause,
    FaultKind::Partition,
    FaultKind::Isolate,
    FaultKind::CutLink,
    FaultKind::CutOneWay,
    FaultKind::Freeze,
    FaultKind::DiskStall,
];

/// Which ready task runs next; the horizon is filled in.
const SCHEDULES: [Schedule; 6] = {
    const FIELD: Schedule = Schedule::Field;
    const fn pct(depth: u32) -> Schedule {
        Schedule::Pct { depth, horizon_ms: 0 }
    }
    [FIELD, FIELD, FIELD, pct(2), pct(5), Schedule::Fifo]
};

/// What a swarm may choose from, and shrinking may go down to.
#[derive(Clone, Debug, Default)]
pub(super) struct Choices {
    /// Whether every seed has a configuration of its own.
    pub(super) swarm: bool,
    /// How many processes there may be.
    pub(super) processes: Vec<u16>,
    pub(super) parameters: BTreeMap<&'static str, Parameter>,
}

/// A number of the program's own.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    /// The plainest first.
    pub(super) values: Vec<u64>,
    /// How much there is to be done: any less will do.
    pub(super) is_amount: bool,
}

impl Simulation {
    /// A number that the program asks for by name ([`parameter`](super::parameter)): the first of `values`, which is
    /// the plainest, or, in a [`Simulation::swarm`], any.
    ///
    /// # Panics
    /// If there is no value.
    #[must_use]
    pub fn parameter(self, name: &'static str, values: &[u64]) -> Self {
        self.with_parameter(name, Parameter { values: values.to_vec(), is_amount: false })
    }

    /// The same for how much there is to be done: shrinking tries less, down to 1.
    ///
    /// # Panics
    /// If there is no value.
    #[must_use]
    pub fn amount(self, name: &'static str, values: &[u64]) -> Self {
        self.with_parameter(name, Parameter { values: values.to_vec(), is_amount: true })
    }

    fn with_parameter(mut self, name: &'static str, parameter: Parameter) -> Self {
        let plainest = *parameter.values.first().expect("a parameter has a value");
        self.config.parameters.insert(name.to_owned(), plainest);
        self.choices.parameters.insert(name, parameter);
        self
    }

    /// Every seed has a configuration of its own: one of these numbers of processes, some of the workloads, some
    /// kinds of the faults at another rate and with other aims, harsher or milder links and disks, other values of
    /// the parameters, another schedule. What is given here otherwise is the middle that draws are around.
    ///
    /// # Panics
    /// If no number of processes is given.
    #[must_use]
    pub fn swarm(mut self, processes: &[u16]) -> Self {
        assert!(!processes.is_empty(), "a swarm has some number of processes");
        (self.choices.swarm, self.choices.processes) = (true, processes.to_vec());
        self
    }
}

pub(super) fn draw(seed: u64, usual: SimulationConfig, choices: &Choices) -> SimulationConfig {
    let swarm = Swarm { seed };
    let mut schedule = swarm.pick("schedule", &SCHEDULES);
    if let Schedule::Pct { horizon_ms, .. } = &mut schedule {
        *horizon_ms = usual.faults.heal_at_ms;
    }
    let value = |(name, parameter): (&&str, &Parameter)| {
        ((*name).to_owned(), swarm.pick(&format!("parameter {name}"), &parameter.values))
    };
    SimulationConfig {
        processes: swarm.pick("processes", &choices.processes),
        workloads: swarm.stream("workloads").range(u64::from(usual.workloads.min(1)), usual.workloads.into())
            as u16,
        network: swarm.network(usual.network),
        disk: swarm.disk(usual.disk),
        faults: swarm.faults(usual.faults),
        parameters: choices.parameters.iter().map(value).collect(),
        schedule,
        ..usual
    }
}

/// Draws of one seed.
struct Swarm {
    seed: u64,
}

impl Swarm {
    fn stream(&self, dimension: &str) -> Stream {
        Stream::derive(self.seed, &format!("swarm: {dimension}"))
    }

    fn pick<T: Copy>(&self, dimension: &str, choices: &[T]) -> T {
        *self.stream(dimension).pick(choices)
    }

    fn scaled(&self, dimension: &str, usual: u64, percents: &[u64]) -> u64 {
        (usual * self.pick(dimension, percents) / 100).max(1)
    }

    fn network(&self, usual: NetConfig) -> NetConfig {
        let per_million = |dimension, usual: u32| {
            // In tenths of what is usual.
            (u64::from(usual) * self.pick(dimension, &[0, 10, 10, 40, 160]) / 10).min(500_000) as u32
        };
        let latency_min_us = self.scaled("latency", usual.latency_min_us, &[20, 100, 100, 300]);
        let spread_us = usual.latency_max_us - usual.latency_min_us;
        NetConfig {
            latency_min_us,
            latency_max_us: latency_min_us + self.scaled("latency spread", spread_us, &[20, 100, 100, 400]),
            tail_per_million: per_million("latency tail", usual.tail_per_million),
            loss_per_million: per_million("loss", usual.loss_per_million),
            duplicate_per_million: per_million("duplication", usual.duplicate_per_million),
            reorder_per_million: per_million("reordering", usual.reorder_per_million),
            reorder_extra_max_us: self.scaled(
                "reordering delay",
                usual.reorder_extra_max_us,
                &[30, 100, 100, 500],
            ),
            slow_per_million: per_million("slow links", usual.slow_per_million),
            ..usual
        }
    }

    fn disk(&self, usual: DiskConfig) -> DiskConfig {
        let fsync_min_us = self.scaled("fsync", usual.fsync_min_us, &[5, 50, 100, 200]);
        let spread_us = usual.fsync_max_us.saturating_sub(usual.fsync_min_us);
        DiskConfig {
            fsync_min_us,
            fsync_max_us: fsync_min_us + self.scaled("fsync spread", spread_us, &[20, 100, 100, 300]),
            ..usual
        }
    }

    fn faults(&self, usual: PlanConfig) -> PlanConfig {
        if usual.kinds.is_empty() {
            return usual;
        }
        let is_pursuit = !usual.aims.is_empty() && self.stream("pursuit").chance(375_000);
        let pace = self.pick("pace", &[25, 50, 100, 100, 200]);
        let every_min_ms = (usual.every_min_ms * pace / 100).max(1);
        let every_max_ms = (usual.every_max_ms * pace / 100).max(every_min_ms);
        let lasts_max_us =
            self.scaled("longest fault", usual.lasts_max_us, &[30, 100, 100]).max(usual.lasts_min_us);
        let kinds = self.kinds(&usual.kinds, is_pursuit);
        let (aims, aimed_per_million) = if is_pursuit {
            (self.few(&usual.aims), 900_000)
        } else {
            let wanted = |aim: &&Aim| self.stream(&format!("aim {aim:?}")).chance(500_000);
            (
                usual.aims.iter().filter(wanted).cloned().collect(),
                self.pick("aimed", &[0, 300_000, 300_000, 800_000]),
            )
        };
        let roles = if self.pick("roles", &[true, true, false]) { usual.roles } else { Vec::new() };
        PlanConfig {
            every_min_ms,
            every_max_ms,
            lasts_max_us,
            kinds,
            aims,
            aimed_per_million,
            roles,
            ..usual
        }
    }

    /// One or two.
    fn few(&self, aims: &[Aim]) -> Vec<Aim> {
        let mut aims = aims.to_vec();
        self.stream("aims of the pursuit").shuffle(&mut aims);
        aims.truncate(self.pick("how many aims", &[1, 1, 2]));
        aims
    }

    /// One kind, all, or some, with other weights; in a pursuit only those that take somebody away.
    fn kinds(&self, usual: &BTreeMap<FaultKind, u32>, is_pursuit: bool) -> BTreeMap<FaultKind, u32> {
        let lot =
            |kind: &FaultKind| self.stream(&format!("fault kind {}", kind.name())).range(0, u64::MAX - 1);
        let takes_away = || usual.keys().filter(|kind| TAKES_AWAY.contains(kind));
        let is_pursuit = is_pursuit && takes_away().count() > 0;
        let among = |kind: &FaultKind| !is_pursuit || TAKES_AWAY.contains(kind);
        let Some(only) = usual.keys().copied().filter(among).max_by_key(lot) else { return BTreeMap::new() };
        let breadth = self.stream("breadth of faults").below(8);
        let is_on = |kind: &FaultKind| match breadth {
            0 => *kind == only,
            1..4 => true,
            _ => *kind == only || lot(kind) % 2 == 0,
        };
        let weight = |(kind, weight): (&FaultKind, &u32)| {
            let by = self.pick(&format!("weight of {}", kind.name()), &[1, 2, 4, 8, 16]);
            (*kind, (weight * by / 4).max(1))
        };
        usual.iter().filter(|(kind, _)| among(kind) && is_on(kind)).map(weight).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sim_runtime::scenario::Scenario;

    use super::*;

    const SEEDS: u64 = 2_000;

    fn simulation() -> Simulation {
        Simulation::new("any")
            .processes(3, |_| async {})
            .workloads(4, |_| async {})
            .parameter("patience ms", &[50, 10, 90])
            .faults(PlanConfig { aims: vec![Aim::Point("sent".to_owned())], ..PlanConfig::all() })
            .duration(Duration::from_secs(1))
            .swarm(&[3, 5])
    }

    fn share(is: impl Fn(&SimulationConfig) -> bool) -> u64 {
        (1..=SEEDS).filter(|seed| is(&simulation().config(*seed))).count() as u64 * 100 / SEEDS
    }

    #[test]
    fn a_configuration_is_a_function_of_its_seed_and_extremes_are_drawn() {
        assert_eq!(simulation().config(7), simulation().config(7));
        for (what, least) in [
            (share(|c| c.processes == 5), 40),
            (share(|c| c.workloads == 1), 20),
            (share(|c| c.parameters["patience ms"] == 10), 25),
            (share(|c| c.network.loss_per_million == 0), 15),
            (share(|c| c.network.loss_per_million >= 80_000), 15),
            (share(|c| c.disk.fsync_max_us < 1_000), 5),
            (share(|c| c.faults.kinds.len() == 1), 10),
            (share(|c| c.faults.kinds.len() == 16), 10),
            (share(|c| c.faults.aimed_per_million == 900_000), 30),
            (share(|c| matches!(c.schedule, Schedule::Pct { .. })), 25),
        ] {
            assert!(what >= least, "{what} % of the seeds, not {least}");
        }
    }

    #[test]
    fn nothing_is_switched_on_that_the_simulation_does_not_have() {
        let quiet = simulation().faults(PlanConfig::only(&[FaultKind::Pause])).network(NetConfig::calm());
        for seed in 1..=SEEDS {
            let config = quiet.config(seed);
            assert!(config.faults.kinds.keys().eq([&FaultKind::Pause]), "seed {seed}");
            assert!(config.faults.aims.is_empty() && config.faults.every_min_ms > 0, "seed {seed}");
            assert_eq!(
                config.network.loss_per_million + config.network.duplicate_per_million,
                0,
                "seed {seed}"
            );
            assert!((1..=4).contains(&config.workloads), "seed {seed}");
        }
    }
}
