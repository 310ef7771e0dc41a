//! What is shown of settings.

use model::cli::{Args, Output, PAGE, Rows, Table};
use serde::Serialize;

use super::App;
use crate::router::{InterfaceInfo, Router};
use crate::setting::Setting;

/// An interface with a setting that is not the default.
pub struct Shown<'r, T> {
    /// The router.
    pub router: &'r Router,
    /// The interface.
    pub interface: &'r InterfaceInfo,
    /// Its value.
    pub value: T,
    /// What was counted there since that was cleared.
    pub counted: Vec<u64>,
}

/// Shows the interfaces that have a setting: the headings, a row or some of each interface, and the cells of a row.
pub fn show<C: App, T: Setting, R: Serialize + 'static>(
    a: &Args,
    headings: &[&str],
    rows: fn(&Shown<'_, T>) -> Vec<R>,
    cells: fn(&R) -> Vec<String>,
) -> Output<C> {
    Output::rows(Listed { next: 0, table: Table::new(headings), rows, cells }, a.json())
}

/// Interfaces from an index on.
struct Listed<T, R> {
    next: u32,
    table: Table,
    rows: fn(&Shown<'_, T>) -> Vec<R>,
    cells: fn(&R) -> Vec<String>,
}

impl<C: App, T: Setting, R: Serialize> Rows<C> for Listed<T, R> {
    type Row = R;

    fn next(&mut self, c: &C, page: &mut Vec<R>) -> bool {
        let router = c.router();
        let mut last = None;
        for interface in router.interfaces_from(self.next).take(PAGE) {
            last = Some(interface.index);
            let value = router.setting::<T>(interface.index);
            if value != T::default() {
                let counted = router.counted_since_clear::<T>(interface.index);
                page.extend((self.rows)(&Shown { router, interface, value, counted }));
            }
        }
        self.next = last.map_or(0, |last| last + 1);
        last.is_some()
    }

    fn text(&mut self, page: &[R], out: &mut String) {
        page.iter().for_each(|row| self.table.row((self.cells)(row)));
        self.table.flush(out);
    }
}
