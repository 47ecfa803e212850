//! Columns: a run as a space-time account for a terminal.
//!
//! ```text
//!   record   time ms  n1 n2 n3
//!     #812    31.204   ┃──>│     n1→n2 AppendEntries t3 prev 5/2 +1
//! ```
//!
//! Invariants: no line is wider than [`Style::width`], counted in characters; without colour there is no escape code.

use std::collections::{BTreeMap, BTreeSet};

use sim_runtime::NodeId;

use super::deeds::{Deed, Deeds};
use super::past::{Proof, Reach, select};
use super::rows::{Row, arrange};
use super::told::Program;

/// How an account looks.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Style {
    /// Characters a line.
    pub width: usize,
    /// Whether the terminal shows colours.
    pub colour: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { width: 100, colour: false }
    }
}

/// Beyond so many nodes there is no room for columns.
const MOST_COLUMNS: usize = 16;
/// The least room for text.
const LEAST_TEXT: usize = 30;
/// Record and time.
const LEFT: usize = 19;
/// So much is left out between two lines at least where a line says what it was.
const GAP_NS: u64 = 20_000_000;
const MOST_GAPS: usize = 6;

const DIM: &str = "\x1b[2m";
const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[31m";
const PLAIN: &str = "\x1b[0m";

/// The account of a run, a string a line: legend, columns, and the proof, in as many as `reach` allows.
pub fn draw(deeds: &Deeds, proof: &Proof, program: &impl Program, reach: Reach, style: Style) -> Vec<String> {
    let page = |shown: &BTreeSet<u64>| Page::new(deeds, arrange(deeds, shown, reach.all), proof, style);
    let legend = wrap(&program.legend(), style.width);
    let around = legend.len() + 1 + MOST_GAPS + page(&BTreeSet::new()).proof(proof).len();
    let room = Reach { lines: reach.lines.saturating_sub(around), ..reach };
    let shown = select(deeds, proof, room, |shown| page(shown).height());
    let page = page(&shown);
    let gaps =
        if reach.all { BTreeMap::new() } else { gaps(deeds, &shown, &page.rows, program, page.text_width()) };
    let mut lines: Vec<String> = legend.iter().map(|line| page.paint(DIM, line)).collect();
    lines.push(page.head());
    lines.extend(page.body(&gaps));
    if reach.until.is_none_or(|until| proof.roots.iter().all(|root| *root <= until)) {
        lines.extend(page.proof(proof));
    }
    lines
}

/// What is passed over before a row, by its record: how long that took, and what there was most of.
fn gaps(
    deeds: &Deeds,
    shown: &BTreeSet<u64>,
    rows: &[Row],
    program: &impl Program,
    width: usize,
) -> BTreeMap<u64, String> {
    let mut found: Vec<(u64, u64, String)> = Vec::new();
    for pair in rows.windows(2) {
        let (from, to) = (&pair[0], &pair[1]);
        let between = (from.ordinal + 1..to.ordinal).filter(|deed| !shown.contains(deed));
        let mut counts = BTreeMap::new();
        for label in between.map(|deed| deeds[deed].told.label).filter(|label| !label.is_empty()) {
            *counts.entry(label).or_insert(0) += 1;
        }
        let lasts_ns = to.time_ns.saturating_sub(from.time_ns);
        if lasts_ns >= GAP_NS && !counts.is_empty() {
            let mut text = format!("⋮ {} ms:", lasts_ns / 1_000_000);
            for (at, part) in program.summary(&counts).into_iter().enumerate() {
                let joint = if at == 0 { " " } else { ", " };
                if text.chars().count() + joint.len() + part.chars().count() > width {
                    break;
                }
                text = text + joint + &part;
            }
            found.push((lasts_ns, to.ordinal, text));
        }
    }
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().take(MOST_GAPS).map(|(_, before, text)| (before, text)).collect()
}

struct Page {
    rows: Vec<Row>,
    columns: Vec<(NodeId, String)>,
    /// Characters a column.
    pitch: usize,
    roots: BTreeSet<u64>,
    /// How each node's line is drawn at the first row.
    first_lines: BTreeMap<NodeId, char>,
    style: Style,
}

impl Page {
    fn new(deeds: &Deeds, rows: Vec<Row>, proof: &Proof, style: Style) -> Self {
        let is_in = |row: &Row, node: NodeId| {
            row.node == node || row.also.contains(&node) || row.arrows.iter().any(|(other, _)| *other == node)
        };
        let known = || deeds.names().iter().filter(|(node, _)| **node != NodeId::HOST);
        let used = known().filter(|(node, _)| rows.iter().any(|row| is_in(row, **node)));
        let mut columns: Vec<_> = used.map(|(node, name)| (*node, name.clone())).collect();
        let pitch = columns.iter().map(|(_, name)| name.chars().count()).max().unwrap_or(2) + 1;
        let room = style.width.saturating_sub(LEFT + LEAST_TEXT);
        if columns.len() > MOST_COLUMNS || columns.len() * pitch > room {
            columns.clear();
        }
        let first = rows.first().map_or(0, |row| row.ordinal);
        let mut first_lines = BTreeMap::new();
        for (_, Deed { node, told, .. }) in deeds.iter().take_while(|(ordinal, _)| *ordinal < first) {
            first_lines.extend(told.line.map(|line| (*node, line)));
        }
        Self { rows, columns, pitch, roots: proof.roots.iter().copied().collect(), first_lines, style }
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.style.colour && !text.is_empty() { format!("{colour}{text}{PLAIN}") } else { text.to_owned() }
    }

    fn text_width(&self) -> usize {
        self.style.width.saturating_sub(LEFT + self.columns.len() * self.pitch + 1).max(LEAST_TEXT)
    }

    /// How many lines the rows take.
    fn height(&self) -> usize {
        self.rows.iter().map(|row| wrap(&row.text, self.text_width()).len()).sum()
    }

    fn head(&self) -> String {
        let names: String =
            self.columns.iter().map(|(_, name)| format!("{name:<width$}", width = self.pitch)).collect();
        self.paint(BOLD, format!("  record   time ms  {names}").trim_end())
    }

    fn body(&self, gaps: &BTreeMap<u64, String>) -> Vec<String> {
        let mut lines = Vec::new();
        let mut drawn = self.first_lines.clone();
        for row in &self.rows {
            if let Some(gap) = gaps.get(&row.ordinal) {
                let line = format!("{:LEFT$}{} {gap}", "", self.still(&drawn));
                lines.push(self.paint(DIM, &line));
            }
            let (us, is_root) = (row.time_ns / 1_000, self.roots.contains(&row.ordinal));
            let left = format!("{:>8} {:>5}.{:03} ", format!("#{}", row.ordinal), us / 1_000, us % 1_000);
            let cells = self.cells(row, &drawn);
            let nodes = [row.node].into_iter().chain(row.also.iter().copied());
            drawn.extend(nodes.filter_map(|node| Some((node, row.line?))));
            for (at, text) in wrap(&row.text, self.text_width()).into_iter().enumerate() {
                let text = if is_root { self.paint(BOLD, &text) } else { text };
                lines.push(if at == 0 {
                    format!("{}{cells} {text}", self.paint(DIM, &format!("{left:<LEFT$}")))
                } else {
                    format!("{:LEFT$}{} {text}", "", self.still(&drawn))
                });
            }
        }
        lines
    }

    /// The nodes' lines where nothing happens.
    fn still(&self, drawn: &BTreeMap<NodeId, char>) -> String {
        let cell = |(node, _): &(NodeId, String)| {
            format!("{:<width$}", drawn.get(node).copied().unwrap_or('│'), width = self.pitch)
        };
        self.columns.iter().map(cell).collect()
    }

    /// The nodes' lines where something happens.
    fn cells(&self, row: &Row, drawn: &BTreeMap<NodeId, char>) -> String {
        let mut cells: Vec<char> = self.still(drawn).chars().collect();
        let place = |node: NodeId| {
            self.columns.iter().position(|(known, _)| *known == node).map(|at| at * self.pitch)
        };
        let Some(here) = place(row.node) else {
            row.struck.iter().filter_map(|node| place(*node)).for_each(|at| cells[at] = row.mark);
            return cells.into_iter().collect();
        };
        row.also
            .iter()
            .chain(&row.struck)
            .filter_map(|node| place(*node))
            .for_each(|at| cells[at] = row.mark);
        // What a node sends to itself has no way that could be drawn.
        let arrows = || row.arrows.iter().filter(|(node, _)| *node != row.node);
        for there in arrows().filter_map(|(node, _)| place(*node)) {
            for cell in &mut cells[here.min(there) + 1..here.max(there)] {
                *cell = if matches!(*cell, ' ' | '─') { '─' } else { '┼' };
            }
        }
        for (node, points_there) in arrows() {
            let Some(there) = place(*node) else { continue };
            match (points_there, there > here) {
                (true, true) => cells[there] = '>',
                (true, false) => cells[there] = '<',
                (false, _) => cells[there] = '·',
            }
        }
        cells[here] = match arrows().next() {
            Some((node, false)) if *node < row.node => '>',
            Some((_, false)) => '<',
            _ => row.mark,
        };
        let mut cells: String = cells.into_iter().collect();
        if self.style.colour && row.mark != 'o' {
            cells = cells.replacen(row.mark, &self.paint(BOLD, &row.mark.to_string()), 1);
        }
        cells
    }

    fn proof(&self, proof: &Proof) -> Vec<String> {
        let lines = proof.sentences.iter().flat_map(|sentence| wrap(sentence, self.style.width));
        let mut lines: Vec<String> = lines.map(|line| self.paint(RED, &line)).collect();
        if !lines.is_empty() {
            lines.insert(0, String::new());
        }
        lines
    }
}

/// Breaks a text into lines at spaces; words that are too long are broken anywhere.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        let line_is_empty = lines.last().is_some_and(String::is_empty);
        if !line_is_empty && used + 1 + word.len() > width {
            lines.push("  ".to_owned());
            used = 2;
        } else if !line_is_empty {
            lines.last_mut().expect("there is a line").push(' ');
            used += 1;
        }
        while used + word.len() > width {
            let rest = word.split_off(width.saturating_sub(used).max(1));
            lines.last_mut().expect("there is a line").extend(word);
            lines.push("  ".to_owned());
            (word, used) = (rest, 2);
        }
        used += word.len();
        lines.last_mut().expect("there is a line").extend(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_and_long_words_anywhere() {
        assert_eq!(wrap("one two three", 100), ["one two three"]);
        assert_eq!(wrap("one two three", 9), ["one two", "  three"]);
        assert!(wrap(&"x".repeat(50), 12).iter().all(|line| line.chars().count() <= 12));
        assert_eq!(wrap("", 9), [""]);
    }
}
