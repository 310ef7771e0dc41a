//! Records the frames of the tester's ports in pcap files, for tcpdump and other programs.

use std::fmt::Display;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use buf::{Cache, Frame, Gone, Lost, RxQueue, TxCaps, TxQueue, Unsent};
use drivers::pcap::{self, Config, PACKETS};

use crate::engine::run::Port;
use crate::trial::Failure;

/// The files of a testbed: for each port the sent and the received frames.
pub(super) struct Records([[Record; 2]; 2]);

impl Records {
    /// Creates the recordings (`port0-sent.pcap` and so on) in a directory, which is created if needed.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn begin(directory: &Path) -> Result<Records, Failure> {
        let failed = |e: &dyn Display| Failure(format!("testbed: record: {}: {e}", directory.display()));
        std::fs::create_dir_all(directory).map_err(|e| failed(&e))?;
        let begin = |n: u16, what| {
            let file = directory.join(format!("port{n}-{what}.pcap"));
            let config = Config { record: Some(pcap::Record { file, most: PACKETS }), ..Config::new(n) };
            let tx =
                pcap::open(&config).map_err(|e| failed(&e))?.tx.pop().ok_or_else(|| failed(&"no queue"))?;
            let begun = Begun { file: tx, copies: Frame::new(), bytes: Vec::new(), left: PACKETS };
            Ok(Record(Arc::new(Mutex::new(begun))))
        };
        Ok(Records([[begin(0, "sent")?, begin(0, "received")?], [begin(1, "sent")?, begin(1, "received")?]]))
    }

    /// Wraps the ports so that their frames are recorded: the first [`PACKETS`] of each port and direction.
    pub fn over(&self, ports: Vec<Port>) -> Vec<Port> {
        let recorded = |(Port { tx, more, rx, hosts }, [sent, received]): (Port, &[Record; 2])| Port {
            tx: sending(tx, sent),
            more: more.into_iter().map(|tx| sending(tx, sent)).collect(),
            rx: Box::new(Receiving { rx, record: received.clone() }),
            hosts,
        };
        ports.into_iter().zip(&self.0).map(recorded).collect()
    }
}

fn sending(tx: Box<dyn TxQueue>, record: &Record) -> Box<dyn TxQueue> {
    Box::new(Sending { tx, record: record.clone() })
}

/// The pcap file for one port and one direction; all trials share it.
#[derive(Clone)]
struct Record(Arc<Mutex<Begun>>);

struct Begun {
    file: Box<dyn TxQueue>,
    copies: Frame,
    bytes: Vec<u8>,
    /// Number of frames that can still be recorded; 0 after a failed write, so that the file has no gap.
    left: u64,
}

impl Record {
    fn with<T>(&self, f: impl FnOnce(&mut Begun) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Begun {
    /// Copies the packets of `frame` from index `from` on, until the limit of recorded frames is reached.
    fn copy(&mut self, frame: &mut Frame, from: usize, cache: &mut Cache) {
        for packet in frame.packets().skip(from) {
            if self.copies.len() as u64 >= self.left {
                return;
            }
            self.bytes.clear();
            packet.segments().for_each(|segment| self.bytes.extend_from_slice(segment));
            let at = self.copies.len();
            let made = self.copies.alloc(cache, 1) == 1
                && self.copies.get(at).is_some_and(|mut copy| copy.fill(&self.bytes));
            if !made {
                self.copies.truncate(at, cache);
                self.left = 0;
            }
        }
    }

    /// Writes the first `first` copies, and discards the others.
    fn write(&mut self, first: usize, cache: &mut Cache) {
        self.copies.truncate(first.min(self.copies.len()), cache);
        self.left = self.left.saturating_sub(self.copies.len() as u64);
        if !self.copies.is_empty() && self.file.send(&mut self.copies, cache).is_err() {
            self.copies.free(cache);
            self.left = 0;
        }
    }
}

struct Sending {
    tx: Box<dyn TxQueue>,
    record: Record,
}

impl TxQueue for Sending {
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        let Sending { tx, record } = self;
        record.with(|begun| {
            // Copied in advance, because sent frames are gone.
            begun.copy(frame, 0, cache);
            let (offered, sent) = (frame.len(), tx.send(frame, cache));
            begun.write(offered - frame.len(), cache);
            sent
        })
    }

    fn caps(&self) -> TxCaps {
        self.tx.caps()
    }
}

struct Receiving {
    rx: Box<dyn RxQueue>,
    record: Record,
}

impl RxQueue for Receiving {
    fn poll(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Gone> {
        let before = frame.len();
        let polled = self.rx.poll(frame, cache);
        if frame.len() > before {
            self.record.with(|begun| {
                begun.copy(frame, before, cache);
                begun.write(usize::MAX, cache);
            });
        }
        polled
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.rx.fd()
    }

    fn depth(&self) -> usize {
        self.rx.depth()
    }

    fn take_lost(&mut self) -> Lost {
        self.rx.take_lost()
    }
}

#[cfg(test)]
mod tests {
    use buf::Pool;

    use super::*;
    use crate::cable::cable;

    /// Returns the lengths of the frames in a file. The file's header has 24 bytes. Each frame follows a header of 16 bytes, whose third
    /// 32-bit word is the length.
    fn lengths(file: &Path) -> Vec<u32> {
        let bytes = std::fs::read(file).unwrap_or_default();
        let (mut at, mut all) = (24, Vec::new());
        while let Some(word) = bytes.get(at + 8..at + 12) {
            let len = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            all.push(len);
            at += 16 + len as usize;
        }
        all
    }

    #[test]
    fn only_accepted_frames_are_recorded() -> Result<(), Box<dyn std::error::Error>> {
        let (directory, pool) = (tempfile::tempdir()?, Pool::new(1024)?);
        let mut cache = pool.cache();
        let records = Records::begin(&directory.path().join("new"))?;
        // A cable that holds three frames.
        let (there, back) = (cable(3), cable(3));
        let ports = [(there.0, back.1), (back.0, there.1)].map(|(tx, rx)| Port {
            tx,
            more: Vec::new(),
            rx,
            hosts: None,
        });
        let mut ports = records.over(ports.into());
        let mut frame = Frame::new();
        assert_eq!(frame.alloc(&mut cache, 5), 5);
        for (n, mut packet) in frame.packets().enumerate() {
            assert!(packet.fill(&[n as u8; 60][..60 - n]));
        }
        assert_eq!(ports[0].tx.send(&mut frame, &mut cache), Err(Unsent::Full));
        let mut came = Frame::new();
        ports[1].rx.poll(&mut came, &mut cache).map_err(|e| e.0)?;
        assert_eq!(ports[0].tx.send(&mut frame, &mut cache), Ok(()));
        // Frames already in the frame before the poll are not recorded again.
        ports[1].rx.poll(&mut came, &mut cache).map_err(|e| e.0)?;
        assert_eq!(came.len(), 5);
        came.free(&mut cache);
        // The files are complete once they are closed.
        drop((ports, records));
        for name in ["port0-sent", "port1-received"] {
            assert_eq!(
                lengths(&directory.path().join(format!("new/{name}.pcap"))),
                [60, 59, 58, 57, 56],
                "{name}"
            );
        }
        assert!(lengths(&directory.path().join("new/port1-sent.pcap")).is_empty());
        Ok(())
    }

    #[test]
    fn a_record_ends_without_a_gap() -> Result<(), Box<dyn std::error::Error>> {
        let (directory, pool) = (tempfile::tempdir()?, Pool::new(1024)?);
        let mut cache = pool.cache();
        let records = Records::begin(directory.path())?;
        records.0[0][0].with(|begun| begun.left = 4);
        let (there, back) = (cable(9), cable(9));
        let ports = [(there.0, back.1), (back.0, there.1)].map(|(tx, rx)| Port {
            tx,
            more: Vec::new(),
            rx,
            hosts: None,
        });
        let mut ports = records.over(ports.into());
        for len in [60, 61, 62] {
            let mut frame = Frame::new();
            frame.alloc(&mut cache, 3);
            frame.packets().for_each(|mut p| p.set_len(len));
            assert_eq!(ports[0].tx.send(&mut frame, &mut cache), Ok(()));
        }
        drop((ports, records));
        assert_eq!(lengths(&directory.path().join("port0-sent.pcap")), [60, 60, 60, 61]);
        assert!(lengths(&directory.path().join("port1-received.pcap")).is_empty());
        Ok(())
    }

    #[test]
    fn an_invalid_directory_is_named() {
        let said = Records::begin(Path::new("/dev/null/x")).err().map(|e| e.0).unwrap_or_default();
        assert!(said.starts_with("testbed: record: /dev/null/x: "), "{said}");
    }
}
