//! VPP's files of traces.
//!
//! A binary file has a header of 9 bytes (number of messages, length of the table, true if older messages are missing), a table of the
//! messages' names and identifiers, and the messages, each after its length. Numbers are in network byte order, except those of the table,
//! which are packed (`pack`). A JSON file has an array of objects, each with `_msgname` and `_crc`.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use drivers::Patience;
use serde_json::Value;
use serde_json::value::RawValue;
use vapi::given;

use super::{Known, Traced};
use crate::app::Recorded;
use crate::files;

/// Maximum size of a binary file in bytes.
const LARGEST: u64 = 128 << 20;
/// Maximum number of messages in a binary file. Each takes about 100 bytes of memory.
const MOST: u32 = 1_000_000;
/// Maximum size of a message in JSON, in bytes.
const LARGEST_MESSAGE: usize = 1 << 20;

/// Why a message of a file cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unknown(String);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The messages of a file.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Trace {
    pub(crate) messages: Vec<Result<Traced, Unknown>>,
    /// True if older messages are missing.
    pub(crate) wrapped: bool,
}

/// Writes a binary file of these messages. Leaves out messages that may contain a secret. Returns the number of written messages.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write(
    to: &mut impl Write,
    known: &Known,
    messages: &[Arc<Recorded>],
    wrapped: bool,
) -> io::Result<usize> {
    let whole: Vec<(u16, &[u8])> =
        messages.iter().filter_map(|message| Some((message.id, message.bytes.as_deref()?))).collect();
    let mut ids: Vec<u16> = whole.iter().map(|(id, _)| *id).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut table = (ids.len() as u32).to_be_bytes().to_vec();
    for id in ids {
        let name = known.wire_name(id).unwrap_or_default();
        pack(id.into(), &mut table);
        pack(name.len() as u64, &mut table);
        table.extend_from_slice(name.as_bytes());
    }
    to.write_all(&(whole.len() as u32).to_be_bytes())?;
    to.write_all(&(table.len() as u32).to_be_bytes())?;
    to.write_all(&[u8::from(wrapped)])?;
    to.write_all(&table)?;
    for (id, bytes) in &whole {
        to.write_all(&(bytes.len() as u32 + 2).to_be_bytes())?;
        to.write_all(&id.to_be_bytes())?;
        to.write_all(bytes)?;
    }
    Ok(whole.len())
}

/// Appends a number in the form of VPP's tables: 1, 2, 4 or 9 bytes. The number of trailing zero bits of the first byte gives the length.
fn pack(number: u64, to: &mut Vec<u8>) {
    const TWO: u64 = 1 << 7;
    const FOUR: u64 = TWO + (1 << 14);
    const NINE: u64 = FOUR + (1 << 29);
    match number {
        ..TWO => to.push(1 + 2 * number as u8),
        TWO..FOUR => to.extend((4 * (number - TWO) as u16 + 2).to_le_bytes()),
        FOUR..NINE => to.extend((8 * (number - FOUR) as u32 + 4).to_le_bytes()),
        _ => {
            to.push(0);
            to.extend(number.to_le_bytes());
        }
    }
}

/// Takes a number in the form of [`pack`]. `None` if the bytes end within the number.
fn unpack(from: &mut &[u8]) -> Option<u64> {
    let first = *from.first()?;
    let mut take = |n: usize| {
        let (taken, rest) = from.split_at_checked(n)?;
        *from = rest;
        let mut number = [0; 8];
        number.get_mut(..n.min(8))?.copy_from_slice(taken.get(n.saturating_sub(8)..)?);
        Some(u64::from_le_bytes(number))
    };
    match first.trailing_zeros() {
        0 => Some(take(1)? >> 1),
        1 => Some((take(2)? >> 2) + (1 << 7)),
        2 => Some((take(4)? >> 3) + (1 << 7) + (1 << 14)),
        _ => take(9),
    }
}

/// Reads a file of messages. To be called on a thread that may block.
///
/// # Errors
/// If the file cannot be read, is too large, or is no trace. The error quotes no part of the file, because it may be any file of this host.
pub(crate) fn read(path: &Path, patience: &Patience, is_json: bool, known: &Known) -> Result<Trace, String> {
    if is_json {
        let text = files::read(path, patience).map_err(|e| e.to_string())?;
        return from_json(&text, known);
    }
    let mut file = files::open(path, patience).map_err(|e| e.to_string())?;
    if file.size > LARGEST {
        return Err(format!("it is larger than {} MiB", LARGEST >> 20));
    }
    let _memory = files::Parsing::of(file.size).map_err(|e| e.to_string())?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    from_bytes(&bytes, known)
}

/// Returns the messages of a binary file.
///
/// # Errors
/// If it is no trace, has too many messages, or ends within a message.
pub(crate) fn from_bytes(bytes: &[u8], known: &Known) -> Result<Trace, String> {
    let no_trace = || "it is no binary trace of API messages".to_owned();
    let (header, rest) = bytes.split_first_chunk::<9>().ok_or_else(no_trace)?;
    let [a, b, c, d, e, f, g, h, wrapped] = *header;
    let (count, length) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    let (table, mut rest) = rest.split_at_checked(length as usize).ok_or_else(no_trace)?;
    let names: HashMap<u16, &str> = names(table).ok_or_else(no_trace)?.into_iter().collect();
    if count > MOST {
        return Err(format!("it has {count} messages, more than {MOST}"));
    }
    let mut trace = Trace { messages: Vec::new(), wrapped: wrapped != 0 };
    for number in 0..count {
        let cut = || format!("it ends within message {number}");
        let (length, more) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
        let (message, more) = more.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or_else(cut)?;
        rest = more;
        let (id, body) = message.split_first_chunk::<2>().ok_or_else(cut)?;
        let id = u16::from_be_bytes(*id);
        trace.messages.push(match names.get(&id) {
            None => Err(Unknown(format!("the file does not define identifier {id}"))),
            Some(name) => match known.id(name) {
                Some(id) => Ok(Traced { id, bytes: body.to_vec() }),
                None => Err(Unknown(format!("unknown message {name}"))),
            },
        });
    }
    Ok(trace)
}

/// Returns the identifiers and names in the table of a binary file. `None` if `table` is no table of messages.
fn names(table: &[u8]) -> Option<Vec<(u16, &str)>> {
    let (count, mut rest) = table.split_first_chunk::<4>()?;
    let mut names = Vec::new();
    for _ in 0..u32::from_be_bytes(*count) {
        let id = u16::try_from(unpack(&mut rest)?).ok()?;
        let length = usize::try_from(unpack(&mut rest)?).ok()?;
        let (name, more) = rest.split_at_checked(length)?;
        rest = more;
        let name = std::str::from_utf8(name).ok()?;
        let (words, crc) = name.rsplit_once('_')?;
        let is_name = words.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        (is_name && crc.len() == 8 && crc.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(())?;
        names.push((id, name));
    }
    Some(names)
}

/// Returns the messages of a JSON file: an array of objects, or one object.
///
/// # Errors
/// If it is neither an array of messages nor one message, or if a message is too large.
pub(crate) fn from_json(text: &str, known: &Known) -> Result<Trace, String> {
    let parsed = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map(|one| vec![one])
    } else {
        serde_json::from_str::<Vec<&RawValue>>(text)
    };
    let at = |e: serde_json::Error| {
        format!("line {}, column {}: it is no JSON array of API messages", e.line(), e.column())
    };
    let all = parsed.map_err(at)?;
    let messages = all.iter().enumerate().map(|(number, text)| {
        let no_message = || format!("element {number} is no API message: it needs \"_msgname\" and \"_crc\"");
        if text.get().len() > LARGEST_MESSAGE {
            return Err(format!("element {number} is larger than {LARGEST_MESSAGE} bytes"));
        }
        let value: Value = serde_json::from_str(text.get()).map_err(|_| no_message())?;
        let word = |name| value.get(name).and_then(Value::as_str);
        let (name, crc) = word("_msgname").zip(word("_crc")).ok_or_else(no_message)?;
        Ok(message(name, crc, &value, known))
    });
    Ok(Trace { messages: messages.collect::<Result<_, String>>()?, wrapped: false })
}

fn message(name: &str, crc: &str, value: &Value, known: &Known) -> Result<Traced, Unknown> {
    let id = known.id(&format!("{name}_{crc}"));
    let id = id.ok_or_else(|| Unknown(format!("unknown message {name}_{crc}")))?;
    let bad = |why: String| Unknown(format!("{name}: {why}"));
    if value.get("_omitted").is_some() {
        return Err(bad("left out of the trace: it may contain a secret".into()));
    }
    let (Some((info, _)), Some(given)) = (known.get(id), value.as_object()) else {
        return Err(bad("internal error".into()));
    };
    // VPP's files leave out the fields of the message's header.
    let is_given = |field: &&vapi::shape::FieldInfo| given.contains_key(field.name);
    let head = match info.head.fields().iter().all(|field| is_given(&field)) {
        true => given::fields(info.head.fields(), given).map_err(|e| bad(e.to_string()))?,
        false => vec![0; 4 * info.head.fields().len()],
    };
    let fields = given::fields(info.fields, given).map_err(|e| bad(e.to_string()))?;
    Ok(Traced { id, bytes: [head, fields].concat() })
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use proptest::prelude::*;

    use super::*;

    fn known() -> Known {
        Known::of(&crate::api::own())
    }

    fn recorded(id: u16, bytes: Option<Vec<u8>>) -> Arc<Recorded> {
        Arc::new(Recorded { time: SystemTime::now(), client: 1, sent: false, id, bytes })
    }

    /// The packed numbers are those of VPP (`serialize_likely_small_unsigned_integer`).
    #[test]
    fn numbers_are_packed_as_vpp_does() {
        let cases: [(u64, &[u8]); 7] = [
            (0, &[1]),
            (15, &[31]),
            (127, &[255]),
            (128, &[2, 0]),
            (1_000, &[0xa2, 0x0d]),
            (16_512, &[4, 0, 0, 0]),
            (1 << 32, &[0, 0, 0, 0, 0, 1, 0, 0, 0]),
        ];
        for (number, packed) in cases {
            let mut to = Vec::new();
            pack(number, &mut to);
            assert_eq!(to, packed, "{number}");
        }
    }

    /// A file that VPP's code would write for `create_loopback` with number 700.
    #[test]
    fn files_have_the_form_of_vpps() {
        let known = known();
        let name = "create_loopback_42bb5d22";
        let id = known.id(name).unwrap();
        let mut body = vec![0; 8];
        body.extend([2, 0, 0, 0, 0, 7]);
        let mut file = vec![0, 0, 0, 1, 0, 0, 0, 31, 0, 0, 0, 0, 1];
        pack(700, &mut file);
        pack(name.len() as u64, &mut file);
        file.extend(name.as_bytes());
        file.extend([0, 0, 0, 16, 2, 0xbc]);
        file.extend(&body);
        let read = from_bytes(&file, &known).unwrap();
        assert_eq!(read.messages, [Ok(Traced { id, bytes: body.clone() })]);
        for end in 0..file.len() {
            assert!(from_bytes(&file[..end], &known).is_err(), "{end}");
        }
        let json =
            r#"{ "_msgname": "create_loopback", "_crc": "42bb5d22", "mac_address": "02:00:00:00:00:07" }"#;
        assert_eq!(from_json(json, &known).unwrap().messages, read.messages);
        let all = format!("[{json},\n{{ \"_msgname\": \"nothing\", \"_crc\": \"00000000\" }}]");
        assert_eq!(
            from_json(&all, &known).unwrap().messages[1],
            Err(Unknown("unknown message nothing_00000000".into()))
        );
    }

    /// An error does not quote a file that is no trace: it may be a file that the client may not read.
    #[test]
    fn errors_do_not_quote_other_files() {
        for text in [
            "root:x:0:0",
            "\"password\"",
            "[\"password\"]",
            "{\"password\": 1}",
            "[{\"_msgname\": 1, \"password\": 2}]",
        ] {
            let error = from_json(text, &known()).unwrap_err();
            assert!(!error.contains("pass") && !error.contains("root"), "{error}");
            let error = from_bytes(format!("{text}{}", " ".repeat(40)).as_bytes(), &known()).unwrap_err();
            assert_eq!(error, "it is no binary trace of API messages");
        }
    }

    proptest! {
        /// A file that is read has the messages that were written to it. Packed numbers of any size are unpacked to the same numbers.
        #[test]
        fn files_are_read_as_written(
            messages in prop::collection::vec((1u16..200, prop::collection::vec(any::<u8>(), 0..40)), 0..20),
            number in any::<u64>(),
            shift in 0..64,
        ) {
            let known = known();
            let mut all: Vec<_> = messages.iter().map(|(id, bytes)| recorded(*id, Some(bytes.clone()))).collect();
            all.push(recorded(3, None));
            let mut file = Vec::new();
            prop_assert_eq!(write(&mut file, &known, &all, true).unwrap(), messages.len());
            let read = from_bytes(&file, &known).unwrap();
            prop_assert!(read.wrapped);
            let expected: Vec<_> = messages.into_iter().map(|(id, bytes)| Ok(Traced { id, bytes })).collect();
            prop_assert_eq!(read.messages, expected);
            let (number, mut packed) = (number >> shift, Vec::new());
            pack(number, &mut packed);
            let mut rest = &packed[..];
            prop_assert_eq!((unpack(&mut rest), rest), (Some(number), &[][..]));
        }

        #[test]
        fn any_file_is_read_or_refused(file in prop::collection::vec(any::<u8>(), 0..200), length in 0u8..100) {
            let mut file = file;
            let _ = from_bytes(&file, &known());
            // With a plausible header.
            if file.len() >= 9 {
                file[..8].copy_from_slice(&[0, 0, 0, 2, 0, 0, 0, length]);
                let _ = from_bytes(&file, &known());
            }
            let _ = from_json(&String::from_utf8_lossy(&file), &known());
        }
    }
}
