//! EDN, as much of it as histories are written in.
//!
//! Invariants: commas are blanks, `;` begins a comment, `#_` drops the next value, tags and metadata are dropped; lines
//! are counted, so that an error says where. Nesting is bounded, so that no file overflows the stack.
//! Not here: the arithmetic of ratios, decimals and large integers, which are values as they are written.

use super::datum::{Datum, Event, event_of};
use super::{Malformed, malformed};

const DEEPEST: usize = 64;

/// The events of a text: maps, in one sequence or bare.
pub fn events(text: &str) -> Result<Vec<Event>, Malformed> {
    let mut reader = Reader { text, at: 0, line: 1, depth: 0 };
    let mut events = Vec::new();
    let mut open: Option<char> = None;
    loop {
        reader.blanks()?;
        match (reader.peek(), open) {
            (None, None) => return Ok(events),
            (None, Some(bracket)) => {
                let what = format!("`{}` expected before the end", closing(bracket));
                return malformed(reader.line, what);
            }
            (Some(bracket @ ('[' | '(')), None) => {
                reader.bump();
                open = Some(bracket);
            }
            (Some(c), Some(bracket)) if c == closing(bracket) => {
                reader.bump();
                open = None;
            }
            (Some('{' | '#'), _) => {
                let line = reader.line;
                match reader.datum()? {
                    Datum::Map(map) => events.extend(event_of(&map, line)?),
                    other => return malformed(line, format!("a map expected, not `{other}`")),
                }
            }
            (Some(c), _) => return malformed(reader.line, format!("a map `{{..}}` expected, not `{c}`")),
        }
    }
}

/// A single value that takes up a whole text.
pub fn value(text: &str, line: usize) -> Result<Datum, Malformed> {
    let mut reader = Reader { text, at: 0, line, depth: 0 };
    let value = reader.datum()?;
    reader.blanks()?;
    match reader.peek() {
        None => Ok(value),
        Some(c) => malformed(line, format!("the end of the line expected after `{value}`, not `{c}`")),
    }
}

fn closing(bracket: char) -> char {
    match bracket {
        '(' => ')',
        '[' => ']',
        _ => '}',
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    depth: usize,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn blanks(&mut self) -> Result<(), Malformed> {
        while let Some(c) = self.peek() {
            if c == ';' {
                while self.peek().is_some_and(|c| c != '\n') {
                    self.bump();
                }
            } else if self.text[self.at..].starts_with("#_") {
                self.at += 2;
                self.datum()?;
            } else if c == '^' {
                self.bump();
                self.datum()?;
            } else if c.is_whitespace() || c == ',' {
                self.bump();
            } else {
                break;
            }
        }
        Ok(())
    }

    fn datum(&mut self) -> Result<Datum, Malformed> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return malformed(self.line, format!("at most {DEEPEST} nested values expected"));
        }
        let datum = self.nested();
        self.depth -= 1;
        datum
    }

    fn nested(&mut self) -> Result<Datum, Malformed> {
        self.blanks()?;
        match self.peek() {
            None => malformed(self.line, "a value expected before the end"),
            Some('"') => self.string(),
            Some(bracket @ ('[' | '(')) => Ok(Datum::List(self.sequence(bracket)?)),
            Some('{') => self.map(),
            Some('#') => {
                self.bump();
                if self.peek() == Some('{') {
                    return Ok(Datum::List(self.sequence('{')?));
                }
                if self.peek() == Some('#') {
                    // `##Inf`, `##NaN`
                    return Ok(Datum::Literal(format!("#{}", self.token())));
                }
                // A tag: the name of a type, before its value.
                self.token();
                self.datum()
            }
            Some(c @ (']' | ')' | '}')) => malformed(self.line, format!("a value expected, not `{c}`")),
            Some(_) => self.atom(),
        }
    }

    fn sequence(&mut self, bracket: char) -> Result<Vec<Datum>, Malformed> {
        self.bump();
        let mut items = Vec::new();
        loop {
            self.blanks()?;
            if self.peek() == Some(closing(bracket)) {
                self.bump();
                return Ok(items);
            }
            items.push(self.datum()?);
        }
    }

    fn map(&mut self) -> Result<Datum, Malformed> {
        let line = self.line;
        let items = self.sequence('{')?;
        if items.len() % 2 == 1 {
            return malformed(line, "a value for every key of the map expected");
        }
        let mut pairs = Vec::with_capacity(items.len() / 2);
        let mut items = items.into_iter();
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            pairs.push((key, value));
        }
        Ok(Datum::Map(pairs))
    }

    fn string(&mut self) -> Result<Datum, Malformed> {
        let line = self.line;
        self.bump();
        let mut text = String::new();
        loop {
            match self.bump() {
                None => return malformed(line, "`\"` expected at the end of a string"),
                Some('"') => return Ok(Datum::Text(text)),
                Some('\\') => match self.bump() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some(c @ ('"' | '\\')) => text.push(c),
                    other => return malformed(self.line, format!("an escape expected, not `{other:?}`")),
                },
                Some(c) => text.push(c),
            }
        }
    }

    fn token(&mut self) -> &'t str {
        let ends = |c: char| c.is_whitespace() || ",;\"[](){}".contains(c);
        let rest = &self.text[self.at..];
        let token = &rest[..rest.find(ends).unwrap_or(rest.len())];
        self.at += token.len();
        token
    }

    fn atom(&mut self) -> Result<Datum, Malformed> {
        if self.peek() == Some('\\') {
            // A character, which may itself be a bracket.
            let from = self.at;
            self.bump();
            self.bump();
            self.token();
            return Ok(Datum::Literal(self.text[from..self.at].to_owned()));
        }
        let token = self.token();
        match token {
            "nil" => return Ok(Datum::Nil),
            "true" => return Ok(Datum::Bool(true)),
            "false" => return Ok(Datum::Bool(false)),
            _ => {}
        }
        if let Some(word) = token.strip_prefix(':')
            && !word.is_empty()
        {
            return Ok(Datum::Keyword(word.to_owned()));
        }
        if let Ok(number) = token.strip_suffix('N').unwrap_or(token).parse() {
            return Ok(Datum::Int(number));
        }
        if is_number(token) {
            return Ok(Datum::Literal(token.to_owned()));
        }
        let mut start = token.trim_start_matches(['+', '-', '.']).chars();
        if start.next().is_none_or(|c| c.is_alphabetic() || "*!_?$%&=<>/|'".contains(c)) && !token.is_empty()
        {
            return Ok(Datum::Text(token.to_owned()));
        }
        malformed(self.line, format!("a value expected, not `{token}`"))
    }
}

/// Whether it is a number of EDN that is no small integer: decimal, ratio, or large.
fn is_number(token: &str) -> bool {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = token.strip_prefix(['+', '-']).unwrap_or(token);
    let is_ratio =
        unsigned.split_once('/').is_some_and(|(above, below)| is_digits(above) && is_digits(below));
    let decimal = unsigned.strip_suffix(['M', 'N']).unwrap_or(unsigned);
    let begins_with_digit = decimal.starts_with(|c: char| c.is_ascii_digit());
    is_ratio || begins_with_digit && decimal.parse::<f64>().is_ok()
}
