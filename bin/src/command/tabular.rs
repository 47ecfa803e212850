//! Tables of reports.

use comfy_table::{Cell, CellAlignment, Table, presets};

use crate::out::Out;
use crate::say;

/// A table without lines.
pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.iter().copied());
    table
}

/// Text.
pub(super) fn left(text: &str) -> Cell {
    Cell::new(text)
}

/// A number.
pub(super) fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// Prints it without blanks at the ends of lines.
pub(super) fn print(table: &Table, out: &mut Out) {
    for line in table.lines() {
        say!(out, "{}", line.trim_end());
    }
}
