//! Frames of the socket: a header of 16 bytes, and a message.
//!
//! The header has eight bytes that everybody ignores, the length of the message as a 32-bit number in network byte order, and four more
//! ignored bytes. A message begins with its identifier of 16 bits.

/// Length of a frame's header, in bytes.
pub(super) const HEADER: usize = 16;
/// Maximum length of a message from a client, in bytes. The longest requests are routes with 255 paths, and commands.
pub(super) const LONGEST: usize = 128 << 10;

/// Received bytes, not yet divided into frames.
#[derive(Default)]
pub(super) struct Input {
    pub(super) bytes: Vec<u8>,
    /// Number of bytes at the start of `bytes` that [`Input::next`] has already returned.
    taken: usize,
}

/// The client announced a message that is too long, with this number of bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong(pub(super) usize);

impl Input {
    /// Takes the next whole message, of at most `longest` bytes; `None` if it has not arrived yet.
    pub(super) fn next(&mut self, longest: usize) -> Result<Option<&[u8]>, TooLong> {
        let Some((header, rest)) = self.bytes[self.taken..].split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length = length(header);
        if length > longest {
            return Err(TooLong(length));
        }
        if rest.len() < length {
            return Ok(None);
        }
        let start = self.taken + HEADER;
        self.taken = start + length;
        Ok(Some(&self.bytes[start..self.taken]))
    }

    /// True if another whole message has arrived.
    pub(super) fn has_next(&self) -> bool {
        let rest = &self.bytes[self.taken..];
        rest.first_chunk::<HEADER>().is_some_and(|header| rest.len() - HEADER >= length(header))
    }

    /// Removes the messages that [`Input::next`] has already returned.
    pub(super) fn forget_taken(&mut self) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.shrink_to(LONGEST);
    }
}

/// Returns the length of a message, in bytes.
fn length(header: &[u8; HEADER]) -> usize {
    let [_, _, _, _, _, _, _, _, a, b, c, d, ..] = *header;
    u32::from_be_bytes([a, b, c, d]) as usize
}

/// Appends a frame. `put` appends its message.
pub(super) fn append(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; HEADER]);
    put(out);
    let length = (out.len() - start - HEADER) as u32;
    out[start + 8..start + 12].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Splitting the byte stream at any points yields the same messages.
        #[test]
        fn frames_survive_any_cut(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..8),
            cuts in prop::collection::vec(1usize..50, 1..200),
        ) {
            let mut stream = Vec::new();
            messages.iter().for_each(|message| append(&mut stream, |out| out.extend(message)));
            let (mut input, mut got) = (Input::default(), Vec::new());
            let mut cuts = cuts.into_iter().cycle();
            while !stream.is_empty() {
                let part: Vec<u8> = stream.drain(..cuts.next().unwrap().min(stream.len())).collect();
                input.bytes.extend(part);
                loop {
                    let more = input.has_next();
                    let Some(message) = input.next(LONGEST).unwrap() else {
                        prop_assert!(!more);
                        break;
                    };
                    got.push(message.to_vec());
                    prop_assert!(more);
                }
                input.forget_taken();
            }
            prop_assert_eq!(got, messages);
            prop_assert!(input.bytes.is_empty());
        }
    }

    #[test]
    fn a_message_of_4_gb_is_refused_at_once() {
        let mut input = Input { bytes: vec![0xff; HEADER], taken: 0 };
        assert_eq!(input.next(LONGEST), Err(TooLong(u32::MAX as usize)));
    }
}
