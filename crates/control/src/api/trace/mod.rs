//! Traces of API messages: conversion to text and JSON, files in VPP's formats ([`file`](mod@file)), and replay ([`replay`]).

pub(crate) mod file;
pub(crate) mod replay;

use std::collections::HashMap;
use std::time::SystemTime;

use serde_json::{Map, Value};
use vapi::shape::Info;
use vapi::{Table, value};

use crate::app::Recorded;

/// The descriptions of the router's messages, for threads that read or write traces.
pub(crate) struct Known {
    /// Each message with its checksum. The index is the message's identifier less one.
    messages: Vec<(Info, u32)>,
    /// Identifiers by name with checksum.
    ids: HashMap<String, u16>,
}

/// A message of a trace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Traced {
    /// Its identifier in this router.
    pub(crate) id: u16,
    /// The message after its identifier.
    pub(crate) bytes: Vec<u8>,
}

impl Known {
    pub(crate) fn of<C: 'static>(table: &Table<C>) -> Known {
        let entries = table.entries();
        let ids = (1..).zip(entries).map(|(id, entry)| (entry.wire_name(), id)).collect();
        Known { messages: entries.iter().map(|entry| (entry.info.clone(), entry.crc)).collect(), ids }
    }

    fn get(&self, id: u16) -> Option<&(Info, u32)> {
        self.messages.get(usize::from(id).checked_sub(1)?)
    }

    /// Returns the name of a message with its checksum.
    fn wire_name(&self, id: u16) -> Option<String> {
        self.get(id).map(|(info, crc)| format!("{}_{crc:08x}", info.name))
    }

    /// Returns the identifier of a message by its name with checksum.
    fn id(&self, wire_name: &str) -> Option<u16> {
        self.ids.get(wire_name).copied()
    }

    /// Returns a message as a JSON object with `_msgname` and `_crc`, as in VPP's files.
    pub(crate) fn json(&self, id: u16, bytes: Option<&[u8]>) -> Map<String, Value> {
        let mut all = Map::new();
        let Some((info, crc)) = self.get(id) else { return all };
        all.insert("_msgname".into(), info.name.clone().into());
        all.insert("_crc".into(), format!("{crc:08x}").into());
        match bytes.map(|bytes| value::of_message(info.all(), bytes)) {
            Some(Ok(fields)) => all.extend(fields),
            Some(Err(why)) => drop(all.insert("_malformed".into(), why.to_string().into())),
            None => drop(all.insert("_omitted".into(), "it may contain a secret".into())),
        }
        all
    }

    /// Returns a recorded message as a JSON object. The members `_time`, `_client` and `_sent` are this router's own.
    pub(crate) fn json_of(&self, recorded: &Recorded) -> Value {
        let mut all = self.json(recorded.id, recorded.bytes.as_deref());
        let time = recorded.time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        all.insert("_time".into(), time.as_secs_f64().into());
        all.insert("_client".into(), recorded.client.into());
        all.insert("_sent".into(), recorded.sent.into());
        all.into()
    }

    /// Returns the fields of a message as text in one line, without the members that begin with `_`, except `_malformed` and `_omitted`.
    pub(crate) fn fields(message: &Map<String, Value>) -> String {
        let own = |name: &str| name.starts_with('_') && !["_malformed", "_omitted"].contains(&name);
        let fields = message.iter().filter(|(name, _)| !own(name));
        fields.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
    }
}
