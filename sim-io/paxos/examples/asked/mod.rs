//! Arguments of the examples. What cannot be used is told in one line, with exit status 2, as `bin` does.

use std::process::ExitCode;

use paxos::Mutant;

/// More of anything is taken for a mistake.
const MOST: u64 = 1_000_000_000;

/// The planted defect of that name.
pub fn mutant(name: &str) -> Result<Mutant, String> {
    name.parse().map_err(|_| {
        let names = Mutant::ALL.map(|mutant| mutant.name().0).join(", ");
        format!("no planted defect is called `{}`; there are {names}", name.escape_debug())
    })
}

/// How many `what` are asked for; `usual` where nothing is said.
pub fn number(word: Option<String>, usual: u64, what: &str) -> Result<u64, String> {
    let Some(word) = word else { return Ok(usual) };
    let number = word.parse().ok().filter(|n| (1..=MOST).contains(n));
    number.ok_or_else(|| format!("`{}` is no number of {what}: 1 to {MOST} are", word.escape_debug()))
}

/// That all arguments have been used.
pub fn nothing_more(mut words: impl Iterator<Item = String>) -> Result<(), String> {
    match words.next() {
        None => Ok(()),
        Some(word) => Err(format!("`{}` is one argument too many", word.escape_debug())),
    }
}

/// Ends with 1 when something was found, 2 when that could not be tried, and says why.
pub fn ended(found: Result<bool, String>) -> ExitCode {
    match found {
        Ok(found) => ExitCode::from(u8::from(found)),
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
    }
}
