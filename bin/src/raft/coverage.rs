//! The counters of a campaign: what they are called, how the table groups them, and which were never reached.

use sim_runtime::device::Coverage;

/// Operations that completed.
pub const OPERATIONS_OK: &str = "operations ok";
/// Operations that were answered with a definite failure: a compare-and-swap that found something else.
pub const OPERATIONS_FAILED: &str = "operations failed";
/// Operations whose outcome the client never learned.
pub const OPERATIONS_UNKNOWN: &str = "operations unknown";

/// Servers that ended by themselves.
pub const SERVERS_HALTED: &str = "servers halted";

/// A part of the table: a title, and the beginnings of the names in it.
pub type Section = (&'static str, &'static [&'static str]);

/// The table, from the outside in. A counter stands in the first section that claims it.
pub const SECTIONS: &[Section] = &[
    ("operations", &["operations"]),
    ("Raft", &["elections", "leader", "log ", "terms", "torn log", "votes", "frames", "servers"]),
    ("processes", &["crashes", "power losses: ", "pauses", "restarts", "wakes held"]),
    ("network faults", &["partitions", "isolations", "links cut"]),
    ("messages", &["datagrams"]),
    (
        "disks",
        &[
            "file",
            "fsync",
            "folder",
            "disk",
            "power losses ",
            "sectors",
            "torn",
            "lost",
            "kept",
            "partial",
            "lengths",
            "writes",
        ],
    ),
    ("windows", &["window"]),
    ("aiming", &["aimed", "faults"]),
];

/// Counters that say something went as it should, so that 0 is good news and no gap in the search.
const GOOD_AT_ZERO: &[&str] = &[
    "aimed faults never fired",
    "faults that found nothing to do",
    "frames rejected",
    SERVERS_HALTED,
    "datagrams dropped by a full buffer",
];

/// Counters that were on and never reached: each is a gap in what was exercised.
pub fn unreached(coverage: &Coverage) -> Vec<String> {
    never(coverage).filter(|name| !is_void(coverage, name)).map(str::to_owned).collect()
}

/// Counters that were on, and could not be reached with the transport of these runs.
pub fn void(coverage: &Coverage) -> Vec<String> {
    never(coverage).filter(|name| is_void(coverage, name)).map(str::to_owned).collect()
}

fn never(coverage: &Coverage) -> impl Iterator<Item = &str> {
    let zero = coverage.iter().filter(|(name, count)| *count == 0 && !GOOD_AT_ZERO.contains(name));
    zero.map(|(name, _)| name)
}

/// Whether it counts datagrams where everything went over connections: plans have bursts of lost and slowed datagrams
/// whatever the transport is.
fn is_void(coverage: &Coverage, name: &str) -> bool {
    let has_connections_only = coverage.get("datagrams sent") == 0 && coverage.get("connections opened") > 0;
    has_connections_only && name.starts_with("datagrams ")
}

/// The counters by section, in the order of the table; what no section claims comes last.
pub fn by_section(coverage: &Coverage) -> Vec<(&'static str, Vec<(&str, u64)>)> {
    let section_of = |name: &str| {
        let claims = |(_, prefixes): &Section| prefixes.iter().any(|prefix| name.starts_with(prefix));
        SECTIONS.iter().position(claims).unwrap_or(SECTIONS.len())
    };
    let titles = SECTIONS.iter().map(|(title, _)| *title).chain(["other"]);
    let sections = titles.enumerate().map(|(at, title)| {
        let rows = coverage.iter().filter(|(name, _)| section_of(name) == at);
        (title, rows.collect::<Vec<_>>())
    });
    sections.filter(|(_, rows)| !rows.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_is_on_and_zero_is_unreached_and_one_that_is_off_is_not() {
        let mut coverage = Coverage::default();
        coverage.add("partitions", 0);
        coverage.add("pauses", 3);
        coverage.add("frames rejected", 0);
        assert_eq!(unreached(&coverage), ["partitions"]);
    }

    #[test]
    fn what_cannot_happen_to_connections_is_no_gap() {
        let mut coverage = Coverage::default();
        coverage.add("datagrams lost in a burst", 0);
        coverage.add("pauses", 0);
        assert_eq!(unreached(&coverage), ["datagrams lost in a burst", "pauses"]);
        coverage.add("connections opened", 3);
        assert_eq!(
            (unreached(&coverage), void(&coverage)),
            (vec!["pauses".to_owned()], vec!["datagrams lost in a burst".to_owned()])
        );
        coverage.add("datagrams sent", 1);
        assert_eq!(void(&coverage), [""; 0]);
    }

    #[test]
    fn every_counter_stands_in_one_section() {
        let mut coverage = Coverage::default();
        for name in
            ["operations ok", "torn writes", "torn log tail cut", "power losses: all", "something new"]
        {
            coverage.add(name, 1);
        }
        let sections = by_section(&coverage);
        assert_eq!(sections.iter().map(|(_, rows)| rows.len()).sum::<usize>(), 5);
        assert_eq!(sections.last(), Some(&("other", vec![("something new", 1)])));
    }
}
