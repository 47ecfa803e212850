//! Output that survives a closed pipe: `campaign | head -1` ends cleanly, and with the true exit status. Any other
//! failure to write is kept for the end: what was not written is not done.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, IsTerminal, Write};

use sim_io::story::Style;

/// Standard output, or nothing once it cannot be written to.
pub struct Out {
    to: Option<Box<dyn Write>>,
    is_terminal: bool,
    failure: Option<io::Error>,
}

impl Default for Out {
    fn default() -> Self {
        let stdout = io::stdout();
        Self { is_terminal: stdout.is_terminal(), to: Some(Box::new(stdout)), failure: None }
    }
}

impl Out {
    /// Nobody reads it.
    pub fn none() -> Self {
        Self { to: None, is_terminal: false, failure: None }
    }

    /// Standard error: standard output is for data.
    pub fn on_stderr() -> Self {
        let stderr = io::stderr();
        Self { is_terminal: stderr.is_terminal(), to: Some(Box::new(stderr)), failure: None }
    }

    /// How a story is drawn here: in colour on a terminal, unless `NO_COLOR` is set (<https://no-color.org>).
    pub fn style(&self) -> Style {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Style { colour: self.is_terminal && wanted, ..Style::default() }
    }

    /// Writes a line. When it cannot be written, this and all later lines are dropped.
    pub fn line(&mut self, text: Arguments<'_>) {
        let Some(to) = &mut self.to else { return };
        if let Err(error) = writeln!(to, "{text}").and_then(|()| to.flush()) {
            self.to = None;
            self.failure = (error.kind() != ErrorKind::BrokenPipe).then_some(error);
        }
    }

    /// Whether all that was to be written was, as far as anybody wanted to read it.
    ///
    /// # Errors
    /// The first failure to write, unless the reader had gone away.
    pub fn finish(self) -> io::Result<()> {
        self.failure.map_or(Ok(()), Err)
    }
}

/// Writes a line to an [`Out`].
#[macro_export]
macro_rules! say {
    ($out:expr) => { $out.line(format_args!("")) };
    ($out:expr, $($arg:tt)*) => { $out.line(format_args!($($arg)*)) };
}

/// `text` with what would break the line, or colour or move what follows, told as in a string literal of Rust: files,
/// names and arguments may hold anything.
pub fn escaped(text: &str) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if breaks(c) { escaped.extend(c.escape_default()) } else { escaped.push(c) }
    }
    escaped
}

/// Writes a line to standard error, whether or not anybody reads it.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
