//! Tables as data.

/// A table. Each row has as many cells as there are columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What is in it, in a few words.
    pub caption: String,
    /// The columns, in order.
    pub columns: Vec<Column>,
    /// What signs in its cells mean; empty without any.
    pub note: &'static str,
    rows: Vec<Vec<String>>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its head, with the unit.
    pub head: String,
    /// Numbers stand on the right.
    pub numbers: bool,
}

impl Table {
    /// One without rows. A head that ends with `#` is of a column of numbers, and is written without it.
    pub fn new<'a>(caption: impl Into<String>, heads: impl IntoIterator<Item = &'a str>) -> Table {
        let column = |head: &str| match head.strip_suffix('#') {
            Some(head) => Column { head: head.into(), numbers: true },
            None => Column { head: head.into(), numbers: false },
        };
        let columns = heads.into_iter().map(column).collect();
        Table { caption: caption.into(), columns, note: "", rows: Vec::new() }
    }

    /// Another row. Cells that are missing are empty; there are never more than columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut row: Vec<String> = cells.into_iter().collect();
        debug_assert!(row.len() <= self.columns.len(), "{}: {row:?}", self.caption);
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    /// All rows.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }
}
