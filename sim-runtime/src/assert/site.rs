//! Where an assertion stands, and the catalogue of all that were linked.
//!
//! Invariants: a site is one place in the source, whatever it is compiled for; the catalogue's order is that of crate,
//! file and line, on every machine.
//! Not here: what happened at it (`hits.rs`).

use std::cmp::Ordering;
use std::fmt;

/// What is expected of what an assertion looks at.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Duty {
    /// It is so each time.
    Always,
    /// It is so at least once in all runs together.
    Sometimes,
}

/// How a number is compared.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Comparison {
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
}

impl Comparison {
    /// Whether `left` is that to `right`.
    pub fn holds(self, left: i64, right: i64) -> bool {
        match self {
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
        }
    }

    /// Whether greater numbers are more likely to be that.
    pub fn is_upward(self) -> bool {
        matches!(self, Self::Greater | Self::GreaterOrEqual)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Greater => "greater than",
            Self::GreaterOrEqual => "greater than or equal to",
            Self::Less => "less than",
            Self::LessOrEqual => "less than or equal to",
        })
    }
}

/// What an assertion looks at.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Shape {
    /// Whether something is so.
    Fact,
    /// Whether it is reached.
    Place,
    /// How many of these are so at once.
    All(&'static [&'static str]),
    /// Which values these have.
    Each(&'static [&'static str]),
    /// A number against another.
    Number(Comparison),
}

/// An assertion in the source.
#[derive(Debug)]
pub struct Site {
    /// What is asserted, in words; the property of a failure.
    pub message: &'static str,
    /// What is expected.
    pub duty: Duty,
    /// What is looked at.
    pub shape: Shape,
    /// Whether it is a gap when it is never reached.
    pub must_be_reached: bool,
    /// The module, as `module_path!()` says.
    pub module: &'static str,
    /// The file, as the compiler names it.
    pub file: &'static str,
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl Site {
    /// The crate in whose source it stands.
    pub fn crate_name(&self) -> &'static str {
        crate_of(self.module)
    }

    /// The macro that made it.
    pub fn macro_name(&self) -> &'static str {
        use Comparison::{Greater, GreaterOrEqual, Less, LessOrEqual};
        match (self.duty, self.shape) {
            (Duty::Always, Shape::Place) => "assert_unreachable!",
            (Duty::Sometimes, Shape::Place) => "assert_reachable!",
            (Duty::Always, Shape::Number(Greater)) => "assert_always_greater_than!",
            (Duty::Always, Shape::Number(GreaterOrEqual)) => "assert_always_greater_than_or_equal_to!",
            (Duty::Always, Shape::Number(Less)) => "assert_always_less_than!",
            (Duty::Always, Shape::Number(LessOrEqual)) => "assert_always_less_than_or_equal_to!",
            (Duty::Sometimes, Shape::Number(Greater)) => "assert_sometimes_greater_than!",
            (Duty::Sometimes, Shape::Number(GreaterOrEqual)) => "assert_sometimes_greater_than_or_equal_to!",
            (Duty::Sometimes, Shape::Number(Less)) => "assert_sometimes_less_than!",
            (Duty::Sometimes, Shape::Number(LessOrEqual)) => "assert_sometimes_less_than_or_equal_to!",
            (_, Shape::All(_)) => "assert_sometimes_all!",
            (_, Shape::Each(_)) => "assert_sometimes_each!",
            (Duty::Sometimes, Shape::Fact) => "assert_sometimes!",
            (Duty::Always, Shape::Fact) if self.must_be_reached => "assert_always!",
            (Duty::Always, Shape::Fact) => "assert_always_or_unreachable!",
        }
    }

    fn place(&self) -> (&'static str, &'static str, u32, u32, &'static str) {
        (self.crate_name(), self.file, self.line, self.column, self.message)
    }
}

/// Macro, message, place.
impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} at {}:{}", self.macro_name(), self.message, self.file, self.line)
    }
}

impl PartialEq for Site {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Site {}

impl PartialOrd for Site {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Site {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}

/// The first part of a path: the crate that a module or type is in.
pub fn crate_of(path: &str) -> &str {
    path.split("::").next().unwrap_or(path).trim_start_matches('&')
}

/// An entry of the catalogue.
#[derive(Debug)]
pub struct Listed(pub &'static Site);

inventory::collect!(Listed);

/// Every site of these crates that was linked, reached or not, in the order of crate, file and line. Names are as in
/// paths: `my_crate`.
///
/// The linker leaves out what nothing refers to: a module that no code of the program can reach has no sites.
pub fn catalogue(crates: &[&str]) -> Vec<&'static Site> {
    let listed = inventory::iter::<Listed>.into_iter().map(|Listed(site)| *site);
    let mut sites: Vec<_> = listed.filter(|site| crates.contains(&site.crate_name())).collect();
    sites.sort_unstable();
    // A generic function that is compiled twice has its site once all the same.
    sites.dedup();
    sites
}
