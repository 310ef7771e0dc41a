//! Plain tables with aligned columns, as VPP prints them.

use comfy_table::{CellAlignment, presets};

/// Where the text of a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// At the left edge.
    Left,
    /// At the right edge: for numbers.
    Right,
}

/// Rows under headings, two spaces between the columns and none at the end of a line.
pub struct Table(comfy_table::Table);

impl Table {
    /// A table with these headings. A heading that begins with `>` (which is not shown) is of a column that is
    /// aligned to the right.
    pub fn new(headings: &[&str]) -> Table {
        let mut table = comfy_table::Table::new();
        table.load_preset(presets::NOTHING);
        table.set_header(headings.iter().map(|heading| heading.strip_prefix('>').unwrap_or(heading)));
        let mut table = Table(table);
        for (index, heading) in headings.iter().enumerate() {
            if let Some(column) = table.0.column_mut(index) {
                column.set_padding((0, 2));
            }
            if heading.starts_with('>') {
                table = table.align(index, Align::Right);
            }
        }
        table
    }

    /// The same table with another alignment of one column.
    pub fn align(mut self, column: usize, align: Align) -> Table {
        if let Some(column) = self.0.column_mut(column) {
            column.set_cell_alignment(match align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            });
        }
        self
    }

    /// Appends a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl ToString>) -> &mut Table {
        self.0.add_row(cells.into_iter().map(|cell| cell.to_string()));
        self
    }

    /// The lines, each with a line feed.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in self.0.lines() {
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["Name", ">Idx", "State"]);
        table.row(["local0", "0", "down"]).row([String::from("host-eth0"), 17.to_string(), "up".into()]);
        let expected = "Name       Idx  State\n\
                        local0       0  down\n\
                        host-eth0   17  up\n";
        assert_eq!(table.text(), expected);
    }

    #[test]
    fn empty_cells_keep_their_place() {
        let mut table = Table::new(&["A", "B"]);
        table.row(["", "x"]).row(["y", ""]);
        assert_eq!(table.text(), "A  B\n   x\ny\n");
    }
}
