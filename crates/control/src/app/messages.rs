//! The trace of the messages of API clients, which an operator switches on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

/// Maximum number of bytes of recorded messages. The oldest are dropped first.
const MOST_BYTES: usize = 16 << 20;
/// Bytes that a record takes besides its message.
const OF_RECORD: usize = 64;

/// The recorded messages.
#[derive(Default)]
pub struct MessageTrace {
    /// True to record messages from clients.
    pub received: bool,
    /// True to record messages to clients.
    pub sent: bool,
    kept: VecDeque<Arc<Recorded>>,
    bytes: usize,
    /// True if older messages were dropped.
    wrapped: bool,
}

/// A recorded message.
pub struct Recorded {
    /// When it was received or sent.
    pub time: SystemTime,
    /// The client's number.
    pub client: u64,
    /// True if it was sent to the client.
    pub sent: bool,
    /// Its identifier.
    pub id: u16,
    /// The message after its identifier. `None` if it may contain a secret.
    pub bytes: Option<Vec<u8>>,
}

/// How much is recorded.
pub struct Usage {
    /// Number of messages.
    pub messages: usize,
    /// Bytes of memory that the messages take.
    pub bytes: usize,
    /// True if older messages were dropped.
    pub wrapped: bool,
}

/// True if the text, a command or its output, may contain the keyword `secret`. Keywords may be abbreviated, and typed in upper or lower
/// case.
fn may_have_secret(text: &[u8]) -> bool {
    let words = text.split(|byte| !byte.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(<[u8]>::to_ascii_lowercase).any(|word| b"secret".starts_with(&word))
}

impl MessageTrace {
    /// Records a message from the client with this number or, if `sent`, to this client. `bytes` is the message after its identifier.
    pub(crate) fn record<C>(
        &mut self,
        (client, sent): (u64, bool),
        (id, entry): (u16, &vapi::table::Entry<C>),
        bytes: &[u8],
    ) {
        // A command or its output may contain a secret, which must not get into a file.
        let has_secret = (entry.info.name.starts_with("cli_inband") && may_have_secret(bytes))
            || entry.info.fields.iter().any(|field| field.name == "secret");
        let bytes = (!has_secret).then(|| bytes.to_vec());
        self.bytes += size(bytes.as_ref());
        self.kept.push_back(Arc::new(Recorded { time: SystemTime::now(), client, sent, id, bytes }));
        while self.bytes > MOST_BYTES
            && let Some(oldest) = self.kept.pop_front()
        {
            self.bytes -= size(oldest.bytes.as_ref());
            self.wrapped = true;
        }
    }

    /// Forgets all recorded messages.
    pub fn free(&mut self) {
        self.kept.clear();
        (self.bytes, self.wrapped) = (0, false);
    }

    /// Returns how much is recorded.
    pub fn usage(&self) -> Usage {
        Usage { messages: self.kept.len(), bytes: self.bytes, wrapped: self.wrapped }
    }

    /// Returns the recorded messages, oldest first.
    pub fn snapshot(&self) -> Vec<Arc<Recorded>> {
        self.kept.iter().cloned().collect()
    }
}

/// Returns the bytes of memory that a recorded message takes.
fn size(bytes: Option<&Vec<u8>>) -> usize {
    bytes.map_or(0, Vec::len) + OF_RECORD
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
