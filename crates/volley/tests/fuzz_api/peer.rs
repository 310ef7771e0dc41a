//! A client that checks all answers, and breaks the rules of the protocol.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use control::app::Context;
use vapi::Table;
use vapi::shape::Head;

use super::dice::Dice;
use super::message;

/// Time limit for an answer. On a busy machine, an answer may take most of this time.
const PATIENCE: Duration = Duration::from_secs(20);
const HEADER: usize = 16;

/// A client's connection.
pub struct Peer<'t> {
    table: &'t Table<Context>,
    stream: UnixStream,
    /// Received bytes that have not been parsed yet.
    received: Vec<u8>,
    /// Number of answers that were checked.
    pub answers: u64,
    /// Identifiers of answers that report success.
    pub granted: BTreeSet<u16>,
}

/// Returns a frame with this message.
pub fn frame(message: &[u8]) -> Vec<u8> {
    framed(message, message.len() as u32)
}

/// Returns a frame with this message that announces this length.
pub fn framed(message: &[u8], announced: u32) -> Vec<u8> {
    let mut frame = vec![0; HEADER];
    frame[8..12].copy_from_slice(&announced.to_be_bytes());
    frame.extend(message);
    frame
}

impl<'t> Peer<'t> {
    pub fn connect(socket: &Path, table: &'t Table<Context>) -> io::Result<Peer<'t>> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Peer { table, stream, received: Vec::new(), answers: 0, granted: BTreeSet::new() })
    }

    /// Introduces the client, and checks the length of the table that it gets.
    pub fn introduce(&mut self) -> io::Result<()> {
        let id = self.table.id("sockclnt_create").expect("every router has it");
        let mut create = id.to_be_bytes().to_vec();
        create.extend([0; 4 + 64]);
        self.stream.write_all(&frame(&create))?;
        let reply = self.next()?;
        let entries = self.table.entries().len();
        assert_eq!(reply.len(), 20 + 2 + 66 * entries - 2, "the table of messages");
        Ok(())
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends frames in one of several ways: at once, one by one, byte by byte, each header before its message, or in pieces.
    pub fn send_somehow(&mut self, frames: &[Vec<u8>], dice: &mut Dice) -> io::Result<()> {
        let all = frames.concat();
        match dice.below(8) {
            0 if all.len() < 1000 => all.chunks(1).try_for_each(|byte| self.send(byte)),
            1 => frames.iter().try_for_each(|frame| self.send(frame)),
            // The header alone, as VPP's client for Python sends it.
            2 => frames.iter().try_for_each(|frame| {
                let (header, message) = frame.split_at(HEADER.min(frame.len()));
                self.send(header)?;
                self.send(message)
            }),
            3 => {
                let mut rest = &all[..];
                while !rest.is_empty() {
                    let (piece, left) = rest.split_at((1 + dice.below(300)).min(rest.len()));
                    self.send(piece)?;
                    rest = left;
                }
                Ok(())
            }
            _ => self.send(&all),
        }
    }

    /// Returns the next message, without its header.
    fn next(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(header) = self.received.first_chunk::<HEADER>() {
                let length = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
                if self.received.len() >= HEADER + length {
                    let message = self.received[HEADER..HEADER + length].to_vec();
                    self.received.drain(..HEADER + length);
                    return Ok(message);
                }
            }
            let mut piece = [0; 1 << 16];
            match self.stream.read(&mut piece)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                n => self.received.extend(&piece[..n]),
            }
        }
    }

    /// Sends a ping, and checks all answers up to the answer to the ping. Returns the time until that answer.
    pub fn ping(&mut self, context: u32) -> io::Result<Duration> {
        let asked = Instant::now();
        self.send(&frame(&message::ping(self.table, context)))?;
        let reply = self.table.id("control_ping_reply");
        loop {
            let (id, got) = self.answer()?;
            if Some(id) == reply && got == Some(context) {
                return Ok(asked.elapsed());
            }
        }
    }

    /// Runs a command, and returns its return value.
    pub fn command(&mut self, line: &str) -> io::Result<i32> {
        self.send(&frame(&message::command(self.table, line)))?;
        let reply = self.table.id("cli_inband_reply").expect("every router has it");
        loop {
            let message = self.next()?;
            if message.starts_with(&reply.to_be_bytes()) {
                return Ok(i32::from_be_bytes(message[6..10].try_into().expect("four bytes")));
            }
        }
    }

    /// Takes an answer, and checks its length. Returns its identifier and its context.
    fn answer(&mut self) -> io::Result<(u16, Option<u32>)> {
        let message = self.next()?;
        let id = u16::from_be_bytes([message[0], message[1]]);
        let entry = self.table.get(id).unwrap_or_else(|| panic!("an answer with the identifier {id}"));
        let (least, is_fixed) = message::length(&entry.info);
        let whole = if is_fixed { message.len() == least } else { message.len() >= least };
        assert!(whole, "{} has {} bytes instead of {least}", entry.info.name, message.len());
        self.answers += 1;
        let is_refused = matches!(entry.info.head, Head::Reply | Head::Unsigned) && message[6] & 0x80 != 0;
        if !is_refused {
            self.granted.insert(id);
        }
        Ok((id, message::context(&entry.info, &message)))
    }
}
