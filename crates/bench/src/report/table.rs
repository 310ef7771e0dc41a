//! Tables as data.

/// A table. Each row has one cell for each column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// A short title.
    pub caption: String,
    /// The columns, in order.
    pub columns: Vec<Column>,
    /// Explanation of the marks in the cells; empty if there are none.
    pub note: &'static str,
    rows: Vec<Vec<String>>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The head, with the unit.
    pub head: String,
    /// True if the column holds numbers; they are aligned to the right.
    pub numbers: bool,
}

impl Table {
    /// Makes a table without rows. A trailing `#` marks a column of numbers; it is removed from the head.
    pub fn new<'a>(caption: impl Into<String>, heads: impl IntoIterator<Item = &'a str>) -> Table {
        let column = |head: &str| match head.strip_suffix('#') {
            Some(head) => Column { head: head.into(), numbers: true },
            None => Column { head: head.into(), numbers: false },
        };
        let columns = heads.into_iter().map(column).collect();
        Table { caption: caption.into(), columns, note: "", rows: Vec::new() }
    }

    /// Adds a row. Missing cells are empty; more cells than columns are a bug.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut row: Vec<String> = cells.into_iter().collect();
        debug_assert!(row.len() <= self.columns.len(), "{}: {row:?}", self.caption);
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    /// Returns all rows.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }
}
