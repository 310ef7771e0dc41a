//! Plain tables with aligned columns, as in VPP.

use std::fmt;

/// Rows under headings. There are two spaces between columns, and none at the end of a line. A column that
/// contains only numbers is aligned to the right.
///
/// A potentially long table is written page by page. The first page decides the alignment of the columns. Columns
/// become wider when a later page needs more.
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    /// The layout of the rows written so far: for each column, its width in characters, and whether it is
    /// aligned to the right. Empty before the first row is written.
    columns: Vec<(usize, bool)>,
}

impl Table {
    /// Returns a table with these headings.
    pub fn new(headings: &[&str]) -> Table {
        let headings = headings.iter().map(ToString::to_string).collect();
        Table { headings, rows: Vec::new(), columns: Vec::new() }
    }

    /// Appends a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Writes the rows added since the last call. The first call also writes the headings.
    pub fn flush(&mut self, out: &mut String) {
        let (columns, first) = (self.layout(), self.columns.is_empty());
        for cells in first.then_some(&self.headings).into_iter().chain(&self.rows) {
            line(cells, &columns, out);
        }
        self.columns = columns;
        self.rows.clear();
    }

    /// Returns the layout of the columns, wide enough for the rows not yet written.
    fn layout(&self) -> Vec<(usize, bool)> {
        let width = |(n, heading): (usize, &String)| {
            let cells = || self.rows.iter().filter_map(move |row| row.get(n));
            let (before, right) = match self.columns.get(n) {
                Some(column) => *column,
                None => (heading.chars().count(), is_of_numbers(cells())),
            };
            (cells().map(|cell| cell.chars().count()).fold(before, usize::max), right)
        };
        self.headings.iter().enumerate().map(width).collect()
    }
}

fn is_of_numbers<'c>(cells: impl Iterator<Item = &'c String>) -> bool {
    let mut cells = cells.filter(|cell| !cell.is_empty()).peekable();
    cells.peek().is_some()
        && cells.all(|cell| {
            cell.starts_with(|c: char| c == '-' || c.is_ascii_digit()) && cell.parse::<f64>().is_ok()
        })
}

fn line(cells: &[String], columns: &[(usize, bool)], out: &mut String) {
    let begin = out.len();
    for (cell, (width, right)) in cells.iter().zip(columns) {
        let blanks = width.saturating_sub(cell.chars().count());
        let (before, behind) = if *right { (blanks, 2) } else { (0, blanks + 2) };
        out.extend(std::iter::repeat_n(' ', before));
        out.push_str(cell);
        out.extend(std::iter::repeat_n(' ', behind));
    }
    out.truncate(begin + out[begin..].trim_end().len());
    out.push('\n');
}

/// Displays the whole table, if it was never flushed. Each line ends with a line feed.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (columns, mut out) = (self.layout(), String::new());
        for cells in std::iter::once(&self.headings).chain(&self.rows) {
            line(cells, &columns, &mut out);
        }
        f.write_str(&out)
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
    fn addresses_are_not_aligned_as_numbers() {
        let text = table(&["Address", "Rate"], &[&["10.0.0.1", "0.5"], &["10.0.0.10", "-12.25"]]);
        assert_eq!(text, "Address      Rate\n10.0.0.1      0.5\n10.0.0.10  -12.25\n");
    }

    #[test]
    fn empty_cells_keep_their_place() {
        assert_eq!(table(&["A", "B"], &[&["", "x"], &["y", ""]]), "A  B\n   x\ny\n");
    }

    #[test]
    fn later_pages_keep_the_columns_of_the_first() {
        let (mut table, mut text) = (Table::new(&["Name", "N"]), String::new());
        for (name, n) in [("longer", "12"), ("x", "3"), ("the longest", "4"), ("y", "z")] {
            table.row(vec![name.into(), n.into()]);
            table.flush(&mut text);
        }
        assert_eq!(text, "Name     N\nlonger  12\nx        3\nthe longest   4\ny             z\n");
        let mut none = String::new();
        Table::new(&["A", "B"]).flush(&mut none);
        assert_eq!(none, "A  B\n");
    }
}
