//! Reads campaigns from a store.

use rusqlite::{Params, Row, params};
use serde::de::DeserializeOwned;

use super::{Store, format};
use crate::campaign::{Campaign, Cell, Key, Measurement, Procedure, Provenance, Results};
use crate::trial::Failure;
use crate::version::version;

/// A campaign in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the campaign in the store.
    pub id: i64,
    /// Name.
    pub name: String,
    /// Start time: RFC 3339, UTC.
    pub begun: String,
    /// End time; `None` if the campaign was interrupted, failed, or is still running.
    pub finished: Option<String>,
}

/// The first condition in the results of an unfinished campaign.
pub(crate) const UNFINISHED: &str = "The campaign is not finished: some results are missing.";

impl Store {
    /// Returns all campaigns, in the order of their start.
    ///
    /// # Errors
    /// If reading fails.
    pub fn campaigns(&self) -> Result<Vec<Entry>, Failure> {
        self.rows("SELECT id, name, begun, finished FROM campaign ORDER BY id", (), |row| {
            Ok(Entry { id: row.get(0)?, name: row.get(1)?, begun: row.get(2)?, finished: row.get(3)? })
        })
    }

    /// Returns the number of the campaign whose number or name is `which`. If several campaigns have this name, returns the number of the
    /// last one. If `which` is `None`, returns the number of the last campaign.
    ///
    /// # Errors
    /// If there is no such campaign; the error lists the existing campaigns.
    pub fn find(&self, which: Option<&str>) -> Result<i64, Failure> {
        let all = self.campaigns()?;
        let number = which.and_then(|w| w.parse().ok());
        let wanted = |e: &&Entry| which.is_none_or(|name| e.name == name) || number == Some(e.id);
        all.iter().rev().find(wanted).map(|e| e.id).ok_or_else(|| {
            let has: Vec<_> = all.iter().map(|e| format!("{} ({})", e.id, e.name)).collect();
            let has = if has.is_empty() { "no campaign".into() } else { has.join(", ") };
            let which = which.map(|w| format!("no such campaign: {w}; ")).unwrap_or_default();
            Failure(format!("{}: {which}the store has {has}", self.path.display()))
        })
    }

    /// Returns the results of a campaign so far.
    ///
    /// # Errors
    /// If there is no campaign with this number, or reading fails.
    pub fn results(&self, id: i64) -> Result<Results, Failure> {
        let sql = "SELECT asked, profile, provenance, conditions, finished FROM campaign WHERE id = ?";
        let heads = self.rows(sql, [id], |row| {
            let texts: [String; 4] = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?];
            Ok((texts, row.get::<_, Option<String>>(4)?))
        })?;
        let Some(([asked, profile, provenance, conditions], finished)) = heads.into_iter().next() else {
            return Err(Failure(format!("{}: no such campaign: {id}", self.path.display())));
        };
        let campaign: Campaign = self.document(id, "campaign", &asked)?;
        let mut conditions: Vec<String> = self.document(id, "conditions", &conditions)?;
        if finished.is_none() {
            conditions.insert(0, UNFINISHED.into());
        }
        let duts = self.texts("SELECT facts FROM dut WHERE campaign = ? ORDER BY rowid", [id])?;
        let duts = duts.iter().map(|text| self.document(id, "router", text));
        Ok(Results {
            profile: self.document(id, "profile", &profile)?,
            provenance: self.document(id, "provenance", &provenance)?,
            conditions,
            duts: duts.collect::<Result<_, _>>()?,
            cells: self.cells(id, &campaign)?,
            caveats: self.caveats(id)?,
            failures: self.texts("SELECT why FROM failure WHERE campaign = ? ORDER BY number", [id])?,
            parts: Vec::new(),
            campaign,
        })
    }

    /// Returns the caveats of a campaign's results, in order. A store of version 1 has no separate caveats: they are among the
    /// failures.
    fn caveats(&self, id: i64) -> Result<Vec<String>, Failure> {
        if format::version(self)? < 2 {
            return Ok(Vec::new());
        }
        self.texts("SELECT what FROM caveat WHERE campaign = ? ORDER BY rowid", [id])
    }

    /// Calls `each` with the record of each trial of a campaign, in order. A record is the JSON of a [`Trial`](crate::campaign::Trial).
    ///
    /// # Errors
    /// If reading fails, or `each` fails.
    pub fn trials(&self, id: i64, each: &mut dyn FnMut(&str) -> Result<(), Failure>) -> Result<(), Failure> {
        let sql = "SELECT record FROM trial WHERE campaign = ? ORDER BY number";
        let mut statement = self.said(self.connection.prepare(sql))?;
        let mut rows = self.said(statement.query([id]))?;
        while let Some(row) = self.said(rows.next())? {
            let text: String = self.said(row.get(0))?;
            each(&text)?;
        }
        Ok(())
    }

    /// Returns the cells in order: routers as in the campaign, and for each router the traffic in the order in which it was first tried.
    /// The procedures of a cell are in the campaign's order. A resumed campaign thus has the same order as an uninterrupted one.
    fn cells(&self, id: i64, campaign: &Campaign) -> Result<Vec<Cell>, Failure> {
        let heads = self.texts("SELECT head FROM cell WHERE campaign = ? ORDER BY rowid", [id])?;
        let mut cells = Vec::new();
        for head in heads {
            let cell: Cell = self.document(id, "cell", &head)?;
            let measurements = self.measurements(id, &cell.key, &campaign.procedures)?;
            cells.push(Cell { measurements, ..cell });
        }
        cells.sort_by_key(|cell| campaign.duts.iter().position(|dut| dut.name() == cell.key.dut));
        Ok(cells)
    }

    fn measurements(&self, id: i64, key: &Key, order: &[Procedure]) -> Result<Vec<Measurement>, Failure> {
        let sql = "SELECT found FROM measurement WHERE campaign = ? AND key = ?";
        let key = super::recorder::document(key)?;
        let found = self.texts(sql, params![id, key])?;
        let read = found.iter().map(|text| self.document::<Measurement>(id, "measurement", text));
        let mut all = read.collect::<Result<Vec<_>, _>>()?;
        all.sort_by_key(|m| order.iter().position(|p| *p == m.found.procedure()));
        Ok(all)
    }

    pub(super) fn texts(&self, sql: &str, with: impl Params) -> Result<Vec<String>, Failure> {
        self.rows(sql, with, |row| row.get(0))
    }

    fn rows<T>(
        &self,
        sql: &str,
        with: impl Params,
        each: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Failure> {
        let mut statement = self.said(self.connection.prepare(sql))?;
        let rows = statement.query_map(with, each).and_then(Iterator::collect);
        self.said(rows)
    }

    /// Parses `text`, a JSON document of campaign `id`. `what` describes the document in the error.
    ///
    /// # Errors
    /// If this version does not support the document's contents. The error names the version that wrote the document.
    pub(super) fn document<T: DeserializeOwned>(
        &self,
        id: i64,
        what: &str,
        text: &str,
    ) -> Result<T, Failure> {
        serde_json::from_str(text).map_err(|e| {
            let sql = "SELECT provenance FROM campaign WHERE id = ?";
            let provenance = self.texts(sql, [id]).ok().and_then(|all| all.into_iter().next());
            let place = format!("{}: campaign {id}: {what}", self.path.display());
            Failure(unreadable(&place, &e, &provenance.unwrap_or_default()))
        })
    }
}

/// Returns the message for a document that this version cannot read. The message names the version that wrote the document, taken
/// from `provenance`, and the remedy.
pub(super) fn unreadable(place: &str, e: &serde_json::Error, provenance: &str) -> String {
    let writer = serde_json::from_str::<Provenance>(provenance).ok();
    let writer = writer.as_ref().and_then(Provenance::tester).unwrap_or("an unknown version of volley bench");
    format!(
        "{place}: written by {writer}; this version ({}) cannot read it: {e}. Use that version, or measure again into another store",
        version()
    )
}
