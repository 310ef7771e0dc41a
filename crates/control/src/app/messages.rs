//! The trace of the messages of API clients, which an operator switches on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Map, Value};
use vapi::shape::{FieldInfo, Head};
use vapi::value;

/// Maximum number of bytes of recorded messages. The oldest are dropped first.
const MOST_BYTES: usize = 16 << 20;
/// Bytes that a record takes besides its message.
const OF_RECORD: usize = 128;

/// The recorded messages.
#[derive(Default)]
pub struct MessageTrace {
    /// True to record messages of clients.
    pub received: bool,
    /// True to record messages to clients.
    pub sent: bool,
    kept: VecDeque<Arc<Recorded>>,
    bytes: usize,
}

/// A recorded message.
pub struct Recorded {
    time: SystemTime,
    client: u64,
    name: String,
    crc: u32,
    head: Head,
    fields: &'static [FieldInfo],
    /// The message after its identifier.
    bytes: Vec<u8>,
}

/// True if the text, a command or its output, may contain the keyword `secret`. Keywords may be abbreviated, and typed in upper or lower
/// case.
fn may_have_secret(text: &[u8]) -> bool {
    let words = text.split(|byte| !byte.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(<[u8]>::to_ascii_lowercase).any(|word| b"secret".starts_with(&word))
}

impl MessageTrace {
    /// Records a message of the client with this number. `bytes` is the message after its identifier.
    pub(crate) fn record<C>(&mut self, client: u64, entry: &vapi::table::Entry<C>, bytes: &[u8]) {
        let vapi::shape::Info { name, head, fields } = entry.info.clone();
        // A command or its output may contain a secret, which must not get into a file.
        let has_secret = (name.starts_with("cli_inband") && may_have_secret(bytes))
            || entry.info.fields.iter().any(|field| field.name == "secret");
        let bytes = if has_secret { &[] } else { bytes };
        self.bytes += bytes.len() + OF_RECORD;
        let (time, bytes) = (SystemTime::now(), bytes.to_vec());
        self.kept.push_back(Arc::new(Recorded { time, client, name, crc: entry.crc, head, fields, bytes }));
        while self.bytes > MOST_BYTES
            && let Some(oldest) = self.kept.pop_front()
        {
            self.bytes -= oldest.bytes.len() + OF_RECORD;
        }
    }

    /// Forgets all recorded messages.
    pub fn free(&mut self) {
        self.kept.clear();
        self.bytes = 0;
    }

    /// Returns the number of recorded messages, and how many bytes of memory they take.
    pub fn usage(&self) -> (usize, usize) {
        (self.kept.len(), self.bytes)
    }

    /// Returns the recorded messages, oldest first.
    pub fn snapshot(&self) -> Vec<Arc<Recorded>> {
        self.kept.iter().cloned().collect()
    }
}

impl Recorded {
    /// Returns the message as a JSON object. `_msgname` and `_crc` are as in VPP's files.
    pub fn json(&self) -> Value {
        let mut all = Map::new();
        all.insert("_msgname".into(), self.name.clone().into());
        all.insert("_crc".into(), format!("{:08x}", self.crc).into());
        let time = self.time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        all.insert("_time".into(), time.as_secs_f64().into());
        all.insert("_client".into(), self.client.into());
        match value::of_message(self.head.fields().iter().chain(self.fields), &self.bytes) {
            Ok(fields) => all.extend(fields),
            Err(why) => drop(all.insert("_malformed".into(), why.to_string().into())),
        }
        all.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviated_secrets_are_found() {
        for text in ["memif secret x", "x Secret y", "x sec y", "a s b", "\"secret\": \"x\"", "  secret: x\n"]
        {
            assert!(may_have_secret(text.as_bytes()), "{text}");
        }
        for text in ["show interface", "set interface state loop0 up", "ip route add 10.0.0.0/8 via 10.0.0.1"]
        {
            assert!(!may_have_secret(text.as_bytes()), "{text}");
        }
    }
}
