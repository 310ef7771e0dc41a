//! Plain tables with aligned columns, as VPP prints them.

use comfy_table::{CellAlignment, presets};
use std::fmt;

/// Rows under headings, two spaces between the columns and none at the end of a line. A column that holds nothing but
/// numbers is aligned to the right.
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new(headings: &[&str]) -> Table {
        Table { headings: headings.iter().map(ToString::to_string).collect(), rows: Vec::new() }
    }

    /// Appends a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    fn is_of_numbers(&self, column: usize) -> bool {
        let mut cells =
            self.rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty()).peekable();
        cells.peek().is_some()
            && cells.all(|cell| {
                cell.starts_with(|c: char| c == '-' || c.is_ascii_digit()) && cell.parse::<f64>().is_ok()
            })
    }
}

/// The lines, each with a line feed.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(&self.headings).add_rows(&self.rows);
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if self.is_of_numbers(index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.lines().try_for_each(|line| writeln!(f, "{}", line.trim_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(headings: &[&str], rows: &[&[&str]]) -> String {
        let mut table = Table::new(headings);
        rows.iter().for_each(|row| table.row(row.iter().map(ToString::to_string).collect()));
        table.to_string()
    }

    #[test]
    fn columns_are_aligned() {
        let text = table(&["Name", "Idx", "State"], &[&["local0", "0", "down"], &["host-eth0", "17", "up"]]);
        assert_eq!(text, "Name       Idx  State\nlocal0       0  down\nhost-eth0   17  up\n");
    }

    #[test]
    fn addresses_are_no_numbers() {
        let text = table(&["Address", "Rate"], &[&["10.0.0.1", "0.5"], &["10.0.0.10", "-12.25"]]);
        assert_eq!(text, "Address      Rate\n10.0.0.1      0.5\n10.0.0.10  -12.25\n");
    }

    #[test]
    fn empty_cells_keep_their_place() {
        assert_eq!(table(&["A", "B"], &[&["", "x"], &["y", ""]]), "A  B\n   x\ny\n");
    }
}
