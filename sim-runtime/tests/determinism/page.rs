//! The page shows the programs as they are, and says what is printed for each.

use sim_runtime::determinism::{Cause, CauseKind, Perturbation};

const PAGE: &str = include_str!("../../src/determinism/hazards.md");
const PROGRAMS: &str = include_str!("programs.rs");

/// The text of a program, from its signature to the brace that ends it.
fn source(name: &str) -> &'static str {
    let from = PROGRAMS.find(&format!("pub async fn {name}()")).expect("there is such a program");
    let len = PROGRAMS[from..].find("\n}\n").expect("it ends") + 3;
    &PROGRAMS[from..from + len]
}

/// What the report says of a cause.
fn guess(kind: CauseKind) -> String {
    Cause { kind, what: String::new(), place: String::new(), backtrace: String::new() }.to_string()
}

/// The page has the program, and what is said of it right after.
#[track_caller]
pub fn assert_tells(program: &str, kind: CauseKind, perturbation: Perturbation) {
    let from = PAGE.find(source(program)).unwrap_or_else(|| panic!("the page has another {program}"));
    let section = PAGE[from..].split("\n## ").next().expect("there is a first part");
    let said = format!("\"{perturbation}\" makes runs differ\n  guess: {}\n", guess(kind));
    assert!(section.contains(&said), "the page does not say of {program}: {said}");
}

#[test]
fn every_program_is_on_the_page() {
    let names = PROGRAMS.lines().filter_map(|line| line.strip_prefix("pub async fn ")?.split_once('('));
    let missing: Vec<_> = names.filter(|(name, _)| !PAGE.contains(source(name))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_lints_are_those_of_this_repository() {
    let own = include_str!("../../../.clippy.toml");
    let missing: Vec<_> =
        own.lines().filter(|line| line.starts_with("    {") && !PAGE.contains(line)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
