//! Output that survives a closed pipe: `campaign | head -1` ends cleanly, and with the true exit status.

use std::fmt::Arguments;
use std::io::{IsTerminal, Write};

use sim_io::story::Style;

/// Standard output, or nothing once nobody reads it.
pub struct Out {
    stdout: Option<std::io::Stdout>,
}

impl Default for Out {
    fn default() -> Self {
        Self { stdout: Some(std::io::stdout()) }
    }
}

impl Out {
    /// Nobody reads it.
    pub fn none() -> Self {
        Self { stdout: None }
    }

    /// How a story is drawn here: in colour on a terminal, unless `NO_COLOR` is set (<https://no-color.org>).
    pub fn style(&self) -> Style {
        let is_terminal = self.stdout.as_ref().is_some_and(IsTerminal::is_terminal);
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Style { colour: is_terminal && wanted, ..Style::default() }
    }

    /// Writes a line. When the reader has gone away, this and all later lines are dropped.
    pub fn line(&mut self, text: Arguments<'_>) {
        if let Some(stdout) = &mut self.stdout
            && (writeln!(stdout, "{text}").is_err() || stdout.flush().is_err())
        {
            self.stdout = None;
        }
    }
}

/// Writes a line to an [`Out`].
#[macro_export]
macro_rules! say {
    ($out:expr) => { $out.line(format_args!("")) };
    ($out:expr, $($arg:tt)*) => { $out.line(format_args!($($arg)*)) };
}

/// Writes a line to standard error, whether or not anybody reads it.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
