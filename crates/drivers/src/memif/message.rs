//! Messages of the control channel: 128 bytes each, in native byte order, with unused bytes zero.
//!
//! The layout is that of protocol version 2.0: a type of 16 bits, and then the fields in the order of the structs below, without padding.

use std::fmt;

/// Length of a message in bytes.
pub(super) const LEN: usize = 128;
/// The protocol version: 2.0.
pub(super) const VERSION: u16 = 0x0200;
/// Length of a secret in bytes.
pub const SECRET_LEN: usize = 24;
/// Length of the field for a name in bytes.
const NAME_LEN: usize = 32;
/// Length of the field for the reason of a disconnection in bytes.
const REASON_LEN: usize = 96;
/// Flag of a ring in which the client sends packets to the server.
const TO_SERVER: u16 = 1;

/// Direction of the packets in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the client to the server ("S2M").
    ToServer,
    /// From the server to the client ("M2S").
    ToClient,
}

/// The server's first message, which states its capabilities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) name: String,
    pub(super) min_version: u16,
    pub(super) max_version: u16,
    /// Highest region index that the server accepts.
    pub(super) max_region: u16,
    /// Highest index of a ring to the client that the server accepts.
    pub(super) max_to_client: u16,
    /// Highest index of a ring to the server that the server accepts.
    pub(super) max_to_server: u16,
    /// Binary logarithm of the largest ring size, in descriptors, that the server accepts.
    pub(super) max_log2_ring_size: u8,
}

/// The client's request for an interface.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Init {
    pub(super) version: u16,
    /// ID of the interface on this socket.
    pub(super) id: u32,
    /// Packet type: 0 means packets with an Ethernet header.
    pub(super) mode: u8,
    pub(super) secret: [u8; SECRET_LEN],
    pub(super) name: String,
}

impl fmt::Debug for Init {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret is left out, because this output ends in logs.
        write!(
            f,
            "Init {{ version: {}, id: {}, mode: {}, name: {:?} }}",
            self.version, self.id, self.mode, self.name
        )
    }
}

/// A ring and its location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddRing {
    pub(super) direction: Direction,
    pub(super) index: u16,
    pub(super) region: u16,
    pub(super) offset: u32,
    pub(super) log2_size: u8,
    pub(super) private_header: u16,
}

/// A message of the control channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Ack,
    Hello(Hello),
    Init(Init),
    AddRegion {
        index: u16,
        size: u64,
    },
    AddRing(AddRing),
    /// The client has sent its whole offer. The text is the name of the client's interface.
    Connect(String),
    /// The server has accepted the offer. The text is the name of the server's interface.
    Connected(String),
    Disconnect {
        code: u32,
        reason: String,
    },
}

impl Message {
    /// Returns the message's name in the protocol.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Message::Ack => "ACK",
            Message::Hello(_) => "HELLO",
            Message::Init(_) => "INIT",
            Message::AddRegion { .. } => "ADD_REGION",
            Message::AddRing(_) => "ADD_RING",
            Message::Connect(_) => "CONNECT",
            Message::Connected(_) => "CONNECTED",
            Message::Disconnect { .. } => "DISCONNECT",
        }
    }

    /// Parses a message.
    ///
    /// # Errors
    /// Returns the message type if it is unknown.
    pub(super) fn parse(bytes: &[u8; LEN]) -> Result<Message, u16> {
        let mut r = Reader(bytes);
        Ok(match r.u16() {
            1 => Message::Ack,
            2 => Message::Hello(Hello {
                name: r.text(NAME_LEN),
                min_version: r.u16(),
                max_version: r.u16(),
                max_region: r.u16(),
                max_to_client: r.u16(),
                max_to_server: r.u16(),
                max_log2_ring_size: r.u8(),
            }),
            3 => Message::Init(Init {
                version: r.u16(),
                id: r.u32(),
                mode: r.u8(),
                secret: r.array(),
                name: r.text(NAME_LEN),
            }),
            4 => Message::AddRegion { index: r.u16(), size: r.u64() },
            5 => Message::AddRing(AddRing {
                direction: if r.u16() & TO_SERVER != 0 { Direction::ToServer } else { Direction::ToClient },
                index: r.u16(),
                region: r.u16(),
                offset: r.u32(),
                log2_size: r.u8(),
                private_header: r.u16(),
            }),
            6 => Message::Connect(r.text(NAME_LEN)),
            7 => Message::Connected(r.text(NAME_LEN)),
            8 => Message::Disconnect { code: r.u32(), reason: r.text(REASON_LEN) },
            other => return Err(other),
        })
    }

    /// Returns the message in wire format. Truncates text that is too long.
    pub(super) fn bytes(&self) -> [u8; LEN] {
        let mut w = Writer { bytes: [0; LEN], at: 0 };
        match self {
            Message::Ack => w.put(&1u16.to_ne_bytes()),
            Message::Hello(h) => {
                w.put(&2u16.to_ne_bytes());
                w.text(&h.name, NAME_LEN);
                for n in [h.min_version, h.max_version, h.max_region, h.max_to_client, h.max_to_server] {
                    w.put(&n.to_ne_bytes());
                }
                w.put(&[h.max_log2_ring_size]);
            }
            Message::Init(i) => {
                w.put(&3u16.to_ne_bytes());
                w.put(&i.version.to_ne_bytes());
                w.put(&i.id.to_ne_bytes());
                w.put(&[i.mode]);
                w.put(&i.secret);
                w.text(&i.name, NAME_LEN);
            }
            Message::AddRegion { index, size } => {
                w.put(&4u16.to_ne_bytes());
                w.put(&index.to_ne_bytes());
                w.put(&size.to_ne_bytes());
            }
            Message::AddRing(r) => {
                w.put(&5u16.to_ne_bytes());
                let flags = if r.direction == Direction::ToServer { TO_SERVER } else { 0 };
                for n in [flags, r.index, r.region] {
                    w.put(&n.to_ne_bytes());
                }
                w.put(&r.offset.to_ne_bytes());
                w.put(&[r.log2_size]);
                w.put(&r.private_header.to_ne_bytes());
            }
            Message::Connect(name) => {
                w.put(&6u16.to_ne_bytes());
                w.text(name, NAME_LEN);
            }
            Message::Connected(name) => {
                w.put(&7u16.to_ne_bytes());
                w.text(name, NAME_LEN);
            }
            Message::Disconnect { code, reason } => {
                w.put(&8u16.to_ne_bytes());
                w.put(&code.to_ne_bytes());
                w.text(reason, REASON_LEN);
            }
        }
        w.bytes
    }
}

/// Reads the fields of a message in order. All fields together are shorter than a message; bytes beyond the end of the message read as
/// zeros.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_at(N.min(self.0.len()));
        self.0 = rest;
        let mut array = [0; N];
        array[..field.len()].copy_from_slice(field);
        array
    }

    fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.array())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.array())
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.array())
    }

    /// Reads text up to the first zero byte. The text comes from an untrusted peer and may appear in logs and on terminals, so control
    /// characters are replaced.
    fn text(&mut self, len: usize) -> String {
        let (field, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
        let text = String::from_utf8_lossy(&field[..end]);
        text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
    }
}

struct Writer {
    bytes: [u8; LEN],
    at: usize,
}

impl Writer {
    fn put(&mut self, field: &[u8]) {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }

    /// Writes text as at most `len` bytes including a final zero, truncated at a character boundary.
    fn text(&mut self, text: &str, len: usize) {
        let end = (0..=text.len().min(len - 1)).rev().find(|n| text.is_char_boundary(*n)).unwrap_or(0);
        self.bytes[self.at..self.at + end].copy_from_slice(&text.as_bytes()[..end]);
        self.at += len;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a message of these hexadecimal digits, padded with zeros.
    fn digits(hex: &str) -> [u8; LEN] {
        let mut all = [0; LEN];
        for (i, byte) in all.iter_mut().enumerate().take(hex.len() / 2) {
            *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap();
        }
        all
    }

    /// Messages that DPDK 22.11 (`net_memif`) sent as a client with ID 7 and the secret "abc".
    #[test]
    #[cfg(target_endian = "little")]
    fn messages_equal_those_of_dpdk() {
        let mut secret = [0; SECRET_LEN];
        secret[..3].copy_from_slice(b"abc");
        let name = "DPDK 22.11.11".to_string();
        let ring = |direction, offset| {
            Message::AddRing(AddRing {
                direction,
                index: 0,
                region: 0,
                offset,
                log2_size: 10,
                private_header: 0,
            })
        };
        let init =
            "0300000207000000006162630000000000000000000000000000000000000000004450444b2032322e31312e3131";
        for (hex, message) in [
            (init, Message::Init(Init { version: VERSION, id: 7, mode: 0, secret, name })),
            ("04000000008140", Message::AddRegion { index: 0, size: 0x40_8100 }),
            ("0500010000000000000000000a", ring(Direction::ToServer, 0)),
            ("0500000000000000804000000a", ring(Direction::ToClient, 0x4080)),
            ("06006e65745f6d656d696630", Message::Connect("net_memif0".into())),
        ] {
            assert_eq!(Message::parse(&digits(hex)), Ok(message.clone()));
            assert_eq!(message.bytes(), digits(hex), "{message:?}");
        }
    }

    #[test]
    fn names_lose_their_control_characters() {
        let mut bytes = Message::Connect("a-b".into()).bytes();
        bytes[3] = 0x1b;
        assert_eq!(Message::parse(&bytes), Ok(Message::Connect("a\u{fffd}b".into())));
    }

    fn text(len: usize) -> impl Strategy<Value = String> {
        proptest::collection::vec(proptest::char::range(' ', '~'), 0..len)
            .prop_map(|c| c.into_iter().collect())
    }

    fn message() -> impl Strategy<Value = Message> {
        let hello = (text(32), any::<[u16; 5]>(), any::<u8>()).prop_map(|(name, n, max_log2_ring_size)| {
            let [min_version, max_version, max_region, max_to_client, max_to_server] = n;
            Message::Hello(Hello {
                name,
                min_version,
                max_version,
                max_region,
                max_to_client,
                max_to_server,
                max_log2_ring_size,
            })
        });
        let init = (any::<u16>(), any::<u32>(), any::<u8>(), any::<[u8; SECRET_LEN]>(), text(32)).prop_map(
            |(version, id, mode, secret, name)| Message::Init(Init { version, id, mode, secret, name }),
        );
        let ring = (any::<bool>(), any::<[u16; 3]>(), any::<u32>(), any::<u8>()).prop_map(
            |(to_server, [index, region, private_header], offset, log2_size)| {
                let direction = if to_server { Direction::ToServer } else { Direction::ToClient };
                Message::AddRing(AddRing { direction, index, region, offset, log2_size, private_header })
            },
        );
        prop_oneof![
            Just(Message::Ack),
            hello,
            init,
            (any::<u16>(), any::<u64>()).prop_map(|(index, size)| Message::AddRegion { index, size }),
            ring,
            text(32).prop_map(Message::Connect),
            text(32).prop_map(Message::Connected),
            (any::<u32>(), text(96)).prop_map(|(code, reason)| Message::Disconnect { code, reason }),
        ]
    }

    proptest! {
        #[test]
        fn a_message_is_read_as_it_was_written(m in message()) {
            prop_assert_eq!(Message::parse(&m.bytes()), Ok(m));
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(kind in 0u16..12, bytes in proptest::collection::vec(any::<u8>(), LEN - 2)) {
            let mut all = [0; LEN];
            all[..2].copy_from_slice(&kind.to_ne_bytes());
            all[2..].copy_from_slice(&bytes);
            match Message::parse(&all) {
                // A parsed message parses again after encoding; its text may have been sanitized the first time.
                Ok(m) => prop_assert_eq!(Message::parse(&m.bytes()).map(|m| m.kind()), Ok(m.kind())),
                Err(other) => prop_assert!(other == kind && !(1..=8).contains(&kind)),
            }
        }
    }
}
