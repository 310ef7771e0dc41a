//! Writes a running campaign into a store.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::time::SystemTime;

use rusqlite::{Connection, OptionalExtension as _, ToSql, Transaction, TransactionBehavior, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Store, format, writer};
use crate::campaign::{Cell, Keeper, Key, Measurement, Procedure, Results, Trial};
use crate::dut::Facts;
use crate::trial::Failure;

/// A [`Keeper`] that writes a campaign's records to a store. Each record is on disk when the call returns.
pub struct Recorder<'a> {
    store: &'a Store,
    id: i64,
    /// Results from before an interruption.
    known: RefCell<HashMap<(Key, Procedure), Measurement>>,
    /// Conditions from before an interruption; `None` for a new campaign.
    conditions_before: Option<Vec<String>>,
    /// The first write error. Results after this error are lost, so the campaign is incomplete.
    lost: OnceCell<Failure>,
}

impl Store {
    /// Begins a campaign, and stores the parts of `head` that are known before the first measurement.
    ///
    /// # Errors
    /// If writing fails.
    pub fn begin(&self, head: &Results) -> Result<Recorder<'_>, Failure> {
        format::upgrade(self)?;
        let row = params![
            head.campaign.name,
            head.provenance.begun,
            document(&head.campaign)?,
            document(&head.profile)?,
            document(&head.provenance)?,
            document(&head.conditions)?,
            writer::this(),
        ];
        let sql = "INSERT INTO campaign (name, begun, asked, profile, provenance, conditions, writer) VALUES (?, ?, ?, ?, ?, ?, ?)";
        self.said(self.connection.execute(sql, row))?;
        Ok(Recorder::new(self, self.connection.last_insert_rowid(), HashMap::new(), None))
    }

    /// Resumes the last unfinished campaign with the same contents as `head`; `None` if there is none. Failed measurements are tried again.
    /// Existing results keep their caveats.
    ///
    /// # Errors
    /// If another tester is running the campaign, if the campaign was begun under other conditions (its results would mix both), or if
    /// reading or writing fails.
    pub fn resume(&self, head: &Results) -> Result<Option<Recorder<'_>>, Failure> {
        format::upgrade(self)?;
        let begin = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate);
        let transaction = self.said(begin)?;
        let sql =
            "SELECT id, writer FROM campaign WHERE asked = ? AND finished IS NULL ORDER BY id DESC LIMIT 1";
        let row = transaction.query_row(sql, [document(&head.campaign)?], |row| {
            Ok((row.get(0)?, row.get::<_, Option<String>>(1)?))
        });
        let Some((id, last)) = self.said(row.optional())? else { return Ok(None) };
        let refuse = |why: String| Err(Failure(format!("{}: campaign {id} {why}", self.path.display())));
        let this = writer::this();
        if last.is_some_and(|w| writer::is_alive(&w) && this.as_ref() != Some(&w)) {
            return refuse("is still being measured by another tester".into());
        }
        let before = self.results(id)?;
        let mut differences = before.provenance.differences(&head.provenance);
        if before.profile != head.profile {
            differences.push("another profile".into());
        }
        if !differences.is_empty() {
            let what = differences.join("; ");
            return refuse(format!("was begun under other conditions ({what}): run without --resume"));
        }
        let take = |sql, row: &[&dyn ToSql]| self.said(transaction.execute(sql, row));
        take("UPDATE campaign SET writer = ? WHERE id = ?", &[&this, &id])?;
        take("DELETE FROM failure WHERE campaign = ?", &[&id])?;
        self.said(transaction.commit())?;
        let mut known = HashMap::new();
        for cell in before.cells {
            let found = cell.measurements.into_iter().map(|m| ((cell.key.clone(), m.found.procedure()), m));
            known.extend(found);
        }
        Ok(Some(Recorder::new(self, id, known, Some(before.conditions))))
    }
}

impl<'a> Recorder<'a> {
    fn new(
        store: &'a Store,
        id: i64,
        known: HashMap<(Key, Procedure), Measurement>,
        conditions_before: Option<Vec<String>>,
    ) -> Recorder<'a> {
        Recorder { store, id, known: RefCell::new(known), conditions_before, lost: OnceCell::new() }
    }

    /// Returns the campaign's number in its store.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Returns the number of results from before an interruption.
    pub fn known_before(&self) -> usize {
        self.known.borrow().len()
    }

    /// Marks the campaign as finished.
    ///
    /// # Errors
    /// If this write or an earlier one failed; the campaign can then be resumed.
    pub fn finish(&self) -> Result<(), Failure> {
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        self.write("UPDATE campaign SET finished = ?2 WHERE id = ?1", &[&self.id, &now])
    }

    /// Executes one statement as one transaction.
    fn write(&self, sql: &str, row: &[&dyn ToSql]) -> Result<(), Failure> {
        self.transaction(|connection| connection.execute(sql, row)).map(drop)
    }

    /// Runs a transaction. After a failed transaction, all later ones fail, even smaller ones that might fit on the disk.
    fn transaction<T>(&self, act: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Failure> {
        if let Some(why) = self.lost.get() {
            return Err(why.clone());
        }
        let done = self.store.said(act(&self.store.connection));
        done.map_err(|why| self.lost.get_or_init(|| why).clone())
    }

    /// Returns the stored facts of a router, if any.
    fn said_before(&self, name: &str) -> Result<Option<Facts>, Failure> {
        let sql = "SELECT facts FROM dut WHERE campaign = ? AND name = ?";
        let before = self.store.texts(sql, params![self.id, name])?;
        before.first().map(|text| self.store.document(self.id, "router", text)).transpose()
    }
}

impl Keeper for Recorder<'_> {
    fn known(&self, key: &Key, procedure: Procedure) -> Option<Measurement> {
        self.known.borrow().get(&(key.clone(), procedure)).cloned()
    }

    fn has_started(&self, dut: &str) -> Result<bool, Failure> {
        Ok(self.said_before(dut)?.is_some())
    }

    fn conditions_before(&self) -> Option<Vec<String>> {
        self.conditions_before.clone()
    }

    fn trial(&self, trial: &Trial) -> Result<(), Failure> {
        let sql =
            "INSERT INTO trial SELECT ?1, coalesce(max(number), 0) + 1, ?2 FROM trial WHERE campaign = ?1";
        self.write(sql, &[&self.id, &document(trial)?])
    }

    fn conditions(&self, conditions: &[String]) -> Result<(), Failure> {
        self.write(
            "UPDATE campaign SET conditions = ?2 WHERE id = ?1",
            &[&self.id, &document(&conditions.to_vec())?],
        )
    }

    fn cell(&self, cell: &Cell) -> Result<(), Failure> {
        // The measurements of a cell are stored separately, one by one.
        let head = Cell { measurements: Vec::new(), ..cell.clone() };
        let sql = "INSERT INTO cell VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET head = ?3";
        self.write(sql, &[&self.id, &document(&cell.key)?, &document(&head)?])
    }

    fn dut(&self, facts: &Facts) -> Result<usize, Failure> {
        let (name, text) = (&facts.name, document(facts)?);
        let same =
            |before: Facts| before.version == facts.version && before.configuration == facts.configuration;
        let is_other = self.said_before(name)?.is_some_and(|before| !same(before));
        let forgotten = self.transaction(|connection| {
            let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
            let mut forgotten = 0;
            if is_other {
                let of = params![self.id, name];
                transaction.execute("DELETE FROM caveat WHERE campaign = ? AND dut = ?", of)?;
                transaction.execute("DELETE FROM cell WHERE campaign = ? AND key ->> '$.dut' = ?", of)?;
                forgotten = transaction
                    .execute("DELETE FROM measurement WHERE campaign = ? AND key ->> '$.dut' = ?", of)?;
            }
            let sql = "INSERT INTO dut VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET facts = ?3";
            transaction.execute(sql, params![self.id, name, text])?;
            transaction.commit().map(|()| forgotten)
        })?;
        if is_other {
            self.known.borrow_mut().retain(|(key, _), _| key.dut != *name);
        }
        Ok(forgotten)
    }

    fn measurement(&self, key: &Key, measurement: &Measurement) -> Result<(), Failure> {
        let sql = "INSERT INTO measurement VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET found = ?4";
        let procedure = measurement.found.procedure().name();
        self.write(sql, &[&self.id, &document(key)?, &procedure, &document(measurement)?])
    }

    fn failure(&self, why: &str) -> Result<(), Failure> {
        let sql = "INSERT INTO failure SELECT ?1, coalesce(max(number), 0) + 1, ?2 FROM failure WHERE campaign = ?1";
        self.write(sql, &[&self.id, &why])
    }

    fn caveat(&self, dut: &str, what: &str) -> Result<(), Failure> {
        // The same caveat can occur again after an interruption; it is stored once.
        self.write("INSERT INTO caveat VALUES (?, ?, ?) ON CONFLICT DO NOTHING", &[&self.id, &dut, &what])
    }
}

/// Serializes `value` as JSON, and checks that parsing the JSON gives the same value: JSON has no infinity and no NaN.
pub(super) fn document<T: Serialize + DeserializeOwned + PartialEq>(value: &T) -> Result<String, Failure> {
    let unfit = |why: String| Failure(format!("internal error: cannot store a record: {why}"));
    let text = serde_json::to_string(value).map_err(|e| unfit(e.to_string()))?;
    match serde_json::from_str::<T>(&text) {
        Ok(again) if again == *value => Ok(text),
        _ => Err(unfit(format!("a figure is infinite or not a number: {text:.200}"))),
    }
}
