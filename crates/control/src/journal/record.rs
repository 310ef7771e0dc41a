//! The file format of a change: one line with a checksum and JSON.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use model::origin::{FrontEnd, Origin, Peer};
use model::store::{Counts, Deed, Detail, Written};
use serde::{Deserialize, Serialize};

use super::write;
use crate::intent::Entry;
use crate::system::Catalog;

/// Maximum number of objects of a change in the file. A larger change is written without its objects.
pub const MOST_OBJECTS: usize = 4096;
/// Maximum length of the text of a change's objects, in bytes. A larger change is written without its objects.
const MOST_TEXT: usize = 256 << 10;

/// The JSON form of a change.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    number: u64,
    unix_ms: u64,
    front_end: FrontEnd,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<std::net::SocketAddr>,
    line: String,
    deed: Deed,
    title: String,
    counts: Counts,
    #[serde(default)]
    secret: bool,
    /// The changed objects; `None` if they are too many or too long, or were dropped before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    objects: Option<Written>,
}

/// Returns the line of an entry, with a line feed.
pub fn line(entry: &Entry, catalog: &Arc<Catalog>) -> String {
    let objects = match &entry.detail {
        Detail::Edits(edits) if edits.all.len() <= MOST_OBJECTS => Some(write(edits, catalog)),
        Detail::Written(written) => Some(Written::clone(written)),
        Detail::Edits(_) | Detail::Forgotten => None,
    };
    let fits = |w: &Written| w.before.len() + w.after.len() + w.difference.len() <= MOST_TEXT;
    let peer = &entry.origin.peer;
    let since = entry.time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let record = Record {
        number: entry.number,
        unix_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
        front_end: entry.origin.front_end,
        uid: peer.uid(),
        user: peer.name().map(str::to_string),
        address: peer.address(),
        line: entry.origin.line.to_string(),
        deed: entry.deed,
        title: entry.title.clone(),
        counts: entry.counts,
        secret: entry.secret,
        objects: objects.filter(fits),
    };
    // Serializing a record cannot fail.
    let json = serde_json::to_string(&record).unwrap_or_default();
    format!("{:016x} {json}\n", sum(&json))
}

/// Returns the entry of a line; `None` if the line is damaged.
pub fn entry(line: &str) -> Option<Entry> {
    let (digits, json) = line.trim_end().split_once(' ')?;
    if u64::from_str_radix(digits, 16) != Ok(sum(json)) {
        return None;
    }
    let record: Record = serde_json::from_str(json).ok()?;
    let peer = match (record.uid, record.user, record.address) {
        (Some(uid), user, _) => Peer::user(uid, user),
        (None, Some(name), Some(address)) => Peer::Certified(name.into(), address),
        (None, None, Some(address)) => Peer::Address(address),
        (None, _, None) => Peer::Own,
    };
    Some(Entry {
        number: record.number,
        time: SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(record.unix_ms))?,
        origin: Origin::new(record.front_end, peer, &record.line),
        deed: record.deed,
        undone: None,
        title: record.title,
        counts: record.counts,
        secret: record.secret,
        earlier: true,
        detail: record.objects.map_or(Detail::Forgotten, |objects| Detail::Written(objects.into())),
    })
}

/// Returns the 64-bit FNV-1a hash. It detects damage by a disk or an editor. It need not protect from attackers, who
/// cannot write to the file.
fn sum(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::intent::{Edit, Journal, Note, Table};
    use crate::testing::catalog;

    /// Returns the entries for adding each of these VRFs.
    pub fn entries(tables: std::ops::Range<u32>) -> Vec<Entry> {
        let mut journal = Journal::default();
        let noted = tables.map(|n| {
            let line = format!("ip table add {n}");
            let origin = Origin::new(FrontEnd::Cli, Peer::user(1000, Some("ann".into())), &line);
            let edit = Edit { key: Table::key(n), old: None, new: Some(Table::default().into()) };
            journal.note(Note::new(origin, vec![edit], Vec::new())).unwrap().entry
        });
        noted.collect()
    }

    #[test]
    fn damaged_lines_are_not_read() {
        assert_eq!(sum(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(sum("foobar"), 0x8594_4171_f739_67e8, "by the authors of FNV");
        let written = entries(5..6).remove(0);
        let text = line(&written, &catalog());
        let again = entry(&text).unwrap();
        assert_eq!(line(&again, &catalog()), text);
        assert!(again.earlier && again.number == 1 && again.origin.peer.to_string() == "ann");
        assert_eq!(again.title, "table 5");
        let Detail::Written(objects) = &again.detail else { panic!("no objects") };
        assert_eq!(objects.difference, "+ ip table add 5\n");
        for end in 0..text.len() - 1 {
            assert!(entry(&text[..end]).is_none(), "{}", &text[..end]);
        }
        for at in 0..text.len() - 1 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert!(entry(&String::from_utf8(bytes).unwrap()).is_none(), "{at}");
        }
    }

    #[test]
    fn large_change_is_written_without_objects() {
        let mut journal = Journal::default();
        let edit = |n| Edit { key: Table::key(n), old: None, new: Some(Table::default().into()) };
        let edits = (0..=MOST_OBJECTS as u32).map(edit).collect();
        let much = journal.note(Note::new(Origin::default(), edits, Vec::new())).unwrap().entry;
        let again = entry(&line(&much, &catalog())).unwrap();
        assert!(matches!(again.detail, Detail::Forgotten) && again.counts.added == 4097);
    }
}
