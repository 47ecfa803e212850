//! A divergence as it is printed.

use std::fmt;

use sim_guard::Standing;

use super::Checked;
use super::divergence::{Divergence, Side};
use super::tape::Line;
use crate::words::counted;

/// Lines of a backtrace that are printed: it goes on into the executor.
const BACKTRACE_LINES: usize = 24;

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, perturbation, first, second, cause, .. } = self;
        let shrunk = match self.shrink_steps {
            0 => String::new(),
            steps => format!(", timeline made smaller {}", counted(steps, "time")),
        };
        writeln!(f, "seed {seed}: nondeterministic: \"{perturbation}\" makes runs differ{shrunk}")?;
        writeln!(f, "  guess: {cause}")?;
        let known = first.lines.len() - usize::from(!first.ended).min(first.lines.len());
        let records = counted(self.record, "record");
        writeln!(f, "  both runs, up to entry {} ({records}):", self.entry)?;
        for line in &first.lines[..known] {
            writeln!(f, "    {line}")?;
        }
        for (name, side) in [("first ", first), ("second", second)] {
            match side.differing() {
                Some(line) => writeln!(f, "  {name}: {line}")?,
                None if side.entries == 1 => writeln!(f, "  {name}: has ended, after 1 entry")?,
                None => writeln!(f, "  {name}: has ended, after {} entries", side.entries)?,
            }
        }
        // Where the one run is in a task, the other may be at a timer already.
        if let Some(line) =
            [first, second].iter().filter_map(|side| side.differing()).find(|l| !l.task.is_empty())
        {
            writeln!(f, "  there {} was running, spawned at {}", line.task, line.spawned_at)?;
        }
        for (name, side) in [("first ", first), ("second", second)] {
            writeln!(f, "  {name}: {}", verdict_of(side))?;
        }
        if !cause.backtrace.is_empty() {
            writeln!(f, "  from where:")?;
            for line in cause.backtrace.lines().take(BACKTRACE_LINES) {
                writeln!(f, "    {line}")?;
            }
        }
        Ok(())
    }
}

fn verdict_of(side: &Side) -> String {
    let verdict = side.verdict.map_or("the scenario panicked", |verdict| verdict.name());
    let failures: Vec<_> =
        side.failures.iter().map(|failure| format!("{}: {}", failure.property, failure.evidence)).collect();
    if failures.is_empty() { verdict.to_owned() } else { format!("{verdict}: {}", failures.join("; ")) }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ms, ns) = (self.time_ns / 1_000_000, self.time_ns % 1_000_000);
        write!(f, "{:>6} {ms:>5}.{ns:06} ms  ", self.number)?;
        if !self.task.is_empty() {
            write!(f, "[{}] ", self.task)?;
        }
        f.write_str(&self.what)
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.perturbations.iter().map(|perturbation| perturbation.name()).collect();
        let (seeds, runs) = (counted(self.seeds, "seed"), counted(self.runs, "run"));
        writeln!(f, "{seeds}, {runs}: {}", names.join(", "))?;
        if let Some(caveat) = Standing::here().caveat() {
            writeln!(f, "  {caveat}")?;
        }
        for (perturbation, why) in &self.skipped {
            writeln!(f, "  skipped: {perturbation}: {why}")?;
        }
        let diverging = self.diverging_seeds();
        if diverging == 0 {
            return writeln!(f, "no run differs from another of its seed");
        }
        writeln!(f, "{diverging} of them nondeterministic")?;
        self.divergences
            .iter()
            .filter(|d| d.is_explained())
            .try_for_each(|divergence| write!(f, "{divergence}"))
    }
}
