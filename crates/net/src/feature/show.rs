//! Show commands for settings.

use model::cli::{Args, Output, PAGE, Rows, Table};
use serde::Serialize;

use super::App;
use crate::router::{InterfaceInfo, Router};
use crate::setting::Setting;

/// An interface in the output of a show command.
pub struct Shown<'r, T> {
    /// The router.
    pub router: &'r Router,
    /// The interface.
    pub interface: &'r InterfaceInfo,
    /// The setting's value.
    pub value: T,
    /// The feature's counts on the interface since they were last cleared.
    pub counted: Vec<u64>,
}

/// Returns the message that IPv6 is not enabled on an interface.
pub fn no_ip6(interface: &str) -> String {
    format!("IPv6 is not enabled: add an IPv6 address, or run enable ip6 interface {interface}")
}

/// Lists the interfaces where the setting does not have its default value. `rows` returns an interface's rows, and `cells` the cells of one
/// row.
pub fn show<C: App, T: Setting, R: Serialize + 'static>(
    a: &Args,
    headings: &[&str],
    rows: fn(&Shown<'_, T>) -> Vec<R>,
    cells: fn(&R) -> Vec<String>,
) -> Output<C> {
    let is_shown = |value: &T, _: &[u64]| *value != T::default();
    Output::rows(Listed { next: 0, table: Table::new(headings), is_shown, rows, cells }, a.json())
}

/// Like [`show`], but lists the interfaces with a nonzero counter of the setting, whatever value the setting has.
pub fn show_counted<C: App, T: Setting, R: Serialize + 'static>(
    a: &Args,
    headings: &[&str],
    rows: fn(&Shown<'_, T>) -> Vec<R>,
    cells: fn(&R) -> Vec<String>,
) -> Output<C> {
    let is_shown = |_: &T, counted: &[u64]| counted.iter().any(|n| *n > 0);
    Output::rows(Listed { next: 0, table: Table::new(headings), is_shown, rows, cells }, a.json())
}

/// Lists interfaces page by page, from index `next` on.
struct Listed<T, R> {
    next: u32,
    table: Table,
    is_shown: fn(&T, &[u64]) -> bool,
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
            let counted = router.counted_since_clear::<T>(interface.index);
            if (self.is_shown)(&value, &counted) {
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
