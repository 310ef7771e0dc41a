//! The screen, and its keys.

use std::cmp::Ordering;

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Paragraph, Row as TableRow, Table, TableState};

use super::keys::ends;
use super::page::{Cell, PAGES, Page, Row, short};
use super::sample::{Rates, Sample};

/// The keys, at the bottom of the screen.
const KEYS: &str = "1-4/Tab page  s/S sort  r reverse  / filter  Enter details  space pause  q quit";

/// A request of the operator, made by a key, that the screen cannot fulfill alone.
#[derive(Debug, PartialEq, Eq)]
pub enum Wish {
    Leave,
    /// Show the output of this command.
    Detail(String),
}

/// The order of a page.
#[derive(Clone, Copy)]
struct Sort {
    column: usize,
    /// True for descending order.
    falling: bool,
}

/// A text over the page: the details of a row.
struct Detail {
    title: String,
    lines: Vec<String>,
    /// The first visible line.
    top: usize,
}

/// The state of the screen.
pub struct Screen {
    socket: String,
    page: usize,
    sorts: [Sort; PAGES.len()],
    selected: TableState,
    /// Only rows with this text, in upper or lower case, are shown.
    filter: String,
    /// True while the filter is being typed.
    typing: bool,
    paused: bool,
    detail: Option<Detail>,
    now: Option<Sample>,
    before: Option<Sample>,
    /// The rows of the page, filtered and sorted.
    rows: Vec<Row>,
}

impl Screen {
    pub fn new(socket: &str) -> Screen {
        let sort = |page: Page| Sort { column: page.sorted_by(), falling: true };
        Screen {
            socket: socket.into(),
            page: 0,
            sorts: PAGES.map(sort),
            selected: TableState::default(),
            filter: String::new(),
            typing: false,
            paused: false,
            detail: None,
            now: None,
            before: None,
            rows: Vec::new(),
        }
    }

    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Shows a new sample, with rates since the previous one.
    pub fn take(&mut self, sample: Sample) {
        self.before = self.now.replace(sample);
        self.arrange();
    }

    /// Shows a text over the page.
    pub fn detail(&mut self, title: &str, text: &str) {
        let lines = text.lines().map(|line| line.replace('\t', "    ")).collect();
        self.detail = Some(Detail { title: title.into(), lines, top: 0 });
    }

    fn page(&self) -> Page {
        PAGES[self.page]
    }

    /// Rebuilds the rows, and keeps the selection.
    fn arrange(&mut self) {
        let Some(now) = &self.now else { return };
        let name = |row: &Row| row.cells.iter().take(2).map(Cell::text).collect::<Vec<_>>();
        let selected = self.selected.selected().and_then(|at| self.rows.get(at)).map(name);
        let mut rows = self.page().rows(now, self.before.as_ref());
        let wanted = self.filter.to_lowercase();
        rows.retain(|row| row.cells.iter().any(|cell| cell.text().to_lowercase().contains(&wanted)));
        let Sort { column, falling } = self.sorts[self.page];
        rows.sort_by(|a, b| {
            let by = |a: &Row, b: &Row| match (a.cells.get(column), b.cells.get(column)) {
                (Some(a), Some(b)) => a.compare(b),
                _ => Ordering::Equal,
            };
            if falling { by(b, a) } else { by(a, b) }
        });
        let at = selected.and_then(|selected| rows.iter().position(|row| name(row) == selected));
        let last = rows.len().checked_sub(1);
        self.selected.select(at.or_else(|| last.map(|last| self.selected.selected().unwrap_or(0).min(last))));
        self.rows = rows;
    }

    /// Handles a key. Returns the operator's request if the screen cannot fulfill it alone.
    pub fn key(&mut self, key: KeyEvent) -> Option<Wish> {
        if ends(key) {
            return Some(Wish::Leave);
        }
        if self.typing {
            self.type_filter(key.code);
            return None;
        }
        if let Some(detail) = &mut self.detail {
            let last = detail.lines.len().saturating_sub(1);
            match key.code {
                KeyCode::Up | KeyCode::Char('k') => detail.top = detail.top.saturating_sub(1),
                KeyCode::Down | KeyCode::Char('j') => detail.top = (detail.top + 1).min(last),
                KeyCode::PageUp => detail.top = detail.top.saturating_sub(20),
                KeyCode::PageDown => detail.top = (detail.top + 20).min(last),
                KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q') | KeyCode::Left => self.detail = None,
                _ => {}
            }
            return None;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Some(Wish::Leave),
            KeyCode::Char(digit @ '1'..='4') => self.turn_to(digit as usize - '1' as usize),
            KeyCode::Tab | KeyCode::Right => self.turn_to((self.page + 1) % PAGES.len()),
            KeyCode::BackTab | KeyCode::Left => self.turn_to((self.page + PAGES.len() - 1) % PAGES.len()),
            KeyCode::Char('s') => self.sort(1),
            KeyCode::Char('S') => self.sort(self.page().columns().len() - 1),
            KeyCode::Char('r') => {
                self.sorts[self.page].falling ^= true;
                self.arrange();
            }
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char(' ' | 'p') => self.paused ^= true,
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-20),
            KeyCode::PageDown => self.step(20),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            KeyCode::Enter => {
                let row = self.selected.selected().and_then(|at| self.rows.get(at))?;
                return Some(Wish::Detail(row.detail.clone()));
            }
            _ => {}
        }
        None
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.arrange();
    }

    fn turn_to(&mut self, page: usize) {
        self.page = page;
        self.selected.select(None);
        self.arrange();
    }

    /// Sorts by the column that is `by` columns to the right of the current one. The first column follows the
    /// last.
    fn sort(&mut self, by: usize) {
        let columns = self.page().columns().len();
        let sort = &mut self.sorts[self.page];
        sort.column = (sort.column + by) % columns;
        self.arrange();
    }

    fn step(&mut self, by: isize) {
        let Some(last) = self.rows.len().checked_sub(1) else { return };
        let at = self.selected.selected().unwrap_or(0).saturating_add_signed(by);
        self.selected.select(Some(at.min(last)));
    }

    /// Draws the screen.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let [head, tabs, body, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(self.head(), head);
        frame.render_widget(self.tabs(), tabs);
        if let Some(detail) = &self.detail {
            let seen = detail.lines.iter().skip(detail.top).map(|line| Line::raw(line.as_str()));
            let text = Text::from(seen.take(body.height.into()).collect::<Vec<_>>());
            frame.render_widget(
                Paragraph::new(text).block(Block::bordered().title(detail.title.as_str())),
                body,
            );
            frame.render_widget(Line::raw("up/down scroll  Esc back"), foot);
            return;
        }
        self.table(frame, body);
        let foot_line = match (self.typing, self.filter.as_str()) {
            (true, filter) => format!("filter: {filter}_  (Enter keeps it, Esc clears it)"),
            (false, "") => KEYS.into(),
            (false, filter) => format!("filter: {filter}  (/ changes it)  {KEYS}"),
        };
        frame.render_widget(Line::raw(foot_line), foot);
    }

    /// Returns the first line of the screen, which is the same on every page: the router's total rates, and how busy the workers are.
    fn head(&self) -> Line<'static> {
        let Some(now) = &self.now else { return Line::raw("volley top") };
        let sum = |of: fn(&Rates) -> f64| -> f64 {
            now.interfaces.iter().filter_map(|i| i.rates.as_ref()).map(of).sum()
        };
        let busy: Vec<String> = Page::Workers
            .rows(now, self.before.as_ref())
            .iter()
            .filter_map(|row| row.cells.get(1).map(Cell::text))
            .collect();
        let most = busy.iter().take(8).map(String::as_str).collect::<Vec<_>>().join(", ");
        let paused = if self.paused { "  PAUSED" } else { "" };
        Line::styled(
            format!(
                "volley top  {}  rx {} pps {}bit/s  tx {} pps {}bit/s  drops {}/s  busy {most}{paused}",
                self.socket,
                short(sum(|r| r.rx_packets_per_second)),
                short(sum(|r| r.rx_bits_per_second)),
                short(sum(|r| r.tx_packets_per_second)),
                short(sum(|r| r.tx_bits_per_second)),
                short(sum(|r| r.drops_per_second)),
            ),
            Style::new().add_modifier(Modifier::BOLD),
        )
    }

    fn tabs(&self) -> Line<'static> {
        let tab = |(n, page): (usize, &Page)| {
            let style =
                if n == self.page { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
            [Span::styled(format!(" {} {} ", n + 1, page.title()), style), Span::raw(" ")]
        };
        Line::from(PAGES.iter().enumerate().flat_map(tab).collect::<Vec<_>>())
    }

    fn table(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let (page, Sort { column, falling }) = (self.page(), self.sorts[self.page]);
        let numeric =
            |n: usize| self.rows.first().is_some_and(|row| row.cells.get(n).is_some_and(Cell::is_number));
        let cell = |n: usize, text: String| {
            let alignment = if numeric(n) { Alignment::Right } else { Alignment::Left };
            Text::from(text).alignment(alignment)
        };
        let titles = page.columns().iter().enumerate().map(|(n, c)| {
            let mark = match (n == column, falling) {
                (false, _) => "",
                (true, true) => "▼",
                (true, false) => "▲",
            };
            cell(n, format!("{}{mark}", c.title))
        });
        let titles = TableRow::new(titles).style(Style::new().add_modifier(Modifier::BOLD));
        let rows = self.rows.iter().map(|row| {
            let style = match row.cells.get(1).map(Cell::text).as_deref() {
                Some("down" | "absent" | "no link") => Style::new().fg(Color::Red),
                _ => Style::new(),
            };
            TableRow::new(row.cells.iter().enumerate().map(|(n, c)| cell(n, c.text()))).style(style)
        });
        let widths = page.columns().iter().map(|c| Constraint::Length(c.width));
        let table = Table::new(rows, widths)
            .header(titles)
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, area, &mut self.selected);
    }
}

#[cfg(test)]
mod tests;
