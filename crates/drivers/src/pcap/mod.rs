//! Files for a device: what it receives is replayed from one, what is sent to it is recorded in another.
//!
//! The file that is replayed is read when the device is made, and lies in memory. Each time the device is set up, the replay
//! begins at its first packet. What is recorded a thread of the device's own writes, so that no worker waits for a disk.

mod read;
mod record;
mod replay;

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use buf::RxQueue;

use self::record::{FileTx, Recorder};
use self::replay::{FileRx, Player};
use crate::device::{Device, DeviceControl, Link};
use crate::kernel::apart;

pub use self::read::{Recording, Seen, each};

/// Name of the node that polls these devices.
pub(crate) const INPUT_NODE: &str = "pcap-input";
/// Bytes of a file that is replayed, at most.
pub const LARGEST_FILE: u64 = 64 << 20;
/// Packets of a file that is recorded, where no number is said.
pub const PACKETS: u64 = 100_000;
/// The largest network packet, in bytes, until it is set.
const MTU: u16 = 9000;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The device's Ethernet address.
    pub mac: [u8; 6],
    /// What it receives; `None`: nothing.
    pub replay: Option<Replay>,
    /// Where what is sent to it goes; `None`: nowhere, it is only counted.
    pub record: Option<Record>,
}

impl Config {
    /// A device without files, whose address has this number in it.
    pub fn new(number: u16) -> Config {
        let [high, low] = number.to_be_bytes();
        Config { mac: [2, 0xfd, 0, 0, high, low], replay: None, record: None }
    }
}

/// A file that is replayed: pcap or pcapng, with packets that begin with an Ethernet header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The file.
    pub file: PathBuf,
    /// How fast.
    pub speed: Speed,
    /// How many times; `None`: until the device is set down.
    pub rounds: Option<u32>,
}

/// How fast a file is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// With the times between packets that the file has. A round follows at once upon the one before.
    Own,
    /// So many packets a second.
    Rate(u32),
    /// As fast as packets are taken.
    Full,
}

/// A file that is recorded: pcap, with times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The file. What is there already is replaced, if it is an ordinary file.
    pub file: PathBuf,
    /// Packets that it has at most; those behind are only counted.
    pub most: u64,
}

/// Why the device cannot be made.
#[derive(Debug)]
pub struct OpenError(String);

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OpenError {}

/// Reads a file that is to be replayed, which takes as long as it is large.
///
/// # Errors
/// It cannot be read, is larger than [`LARGEST_FILE`], is no capture of Ethernet, or is broken off.
pub fn load(replay: &Replay) -> Result<Recording, OpenError> {
    let file = &replay.file;
    read::read(file).map_err(|why| OpenError(format!("{} cannot be replayed: {why}", file.display())))
}

/// Makes a device, after it has [loaded](load) its file.
///
/// # Errors
/// As that; or the other file cannot be written.
pub fn open(config: &Config) -> Result<Device, OpenError> {
    open_loaded(config, config.replay.as_ref().map(load).transpose()?)
}

/// Makes a device of a file that was [loaded](load) before.
///
/// # Errors
/// The other file cannot be written.
pub fn open_loaded(config: &Config, recording: Option<Recording>) -> Result<Device, OpenError> {
    let player = recording.map(|recording| Arc::new(Player::new(recording)));
    let recorder = match &config.record {
        None => None,
        Some(record) => {
            let failed = |why: &dyn fmt::Display| {
                OpenError(format!("{} cannot be written: {why}", record.file.display()))
            };
            let replayed = config.replay.as_ref().map(|replay| replay.file.clone());
            let begin = move |path: &Path| {
                if replayed.is_some_and(|replayed| same(&replayed, path)) {
                    return Err(io::Error::other("it is the file that is replayed"));
                }
                let mut file = create(path)?;
                record::begin(&mut file)?;
                Ok(file)
            };
            let file = apart::open(&record.file, apart::PATIENCE, begin).map_err(|e| failed(&e))?;
            Some(Arc::new(Recorder::start(file, record.most).map_err(|e| failed(&e))?))
        }
    };
    let rx = player.iter().zip(&config.replay).map(|(player, replay)| {
        Box::new(FileRx::new(Arc::clone(player), replay.speed, replay.rounds)) as Box<dyn RxQueue>
    });
    Ok(Device {
        kind: "pcap",
        input_node: INPUT_NODE,
        rx: rx.collect(),
        tx: vec![Box::new(FileTx::new(recorder.clone()))],
        mac: config.mac,
        mtu: MTU,
        control: Box::new(Control { config: config.clone(), player, recorder }),
    })
}

fn same(one: &Path, other: &Path) -> bool {
    fs::canonicalize(one).is_ok_and(|one| fs::canonicalize(other).is_ok_and(|other| one == other))
}

/// How captures begin, in either order of bytes: with microseconds, with nanoseconds, and pcapng.
const MAGIC: [[u8; 4]; 5] = [
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0x0a, 0x0d, 0x0d, 0x0a],
];

/// Whether an ordinary file has nothing in it, or packets.
fn is_capture(path: &Path) -> io::Result<bool> {
    let mut file =
        OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let mut begins = [0; 4];
    match file.read(&mut begins)? {
        0 => Ok(true),
        n => Ok(n == begins.len() && MAGIC.contains(&begins)),
    }
}

/// Makes a file anew that packets go to, for its owner and group: it may have secrets in it. What is there already is
/// replaced if it is an ordinary file that is empty or a capture, so that a slip destroys nothing; a link is not followed, since folders that
/// everybody writes to may have one waiting.
///
/// # Errors
/// Something else has the name, or the system refuses.
pub fn create(path: &Path) -> io::Result<File> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_file() && is_capture(path)? => fs::remove_file(path)?,
        Ok(there) if there.is_file() => {
            return Err(io::Error::other(
                "there is a file of this name, and it is no capture: remove it first",
            ));
        }
        Ok(_) => return Err(io::Error::other("it is no ordinary file")),
        Err(_) => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o640).open(path)
}

struct Control {
    config: Config,
    player: Option<Arc<Player>>,
    recorder: Option<Arc<Recorder>>,
}

impl DeviceControl for Control {
    fn set_admin(&mut self, up: bool) -> io::Result<()> {
        if let Some(player) = &self.player {
            player.switch(up);
        }
        Ok(())
    }

    fn set_mtu(&mut self, _: u16) -> io::Result<()> {
        Ok(())
    }

    fn set_mac(&mut self, _: [u8; 6]) -> io::Result<()> {
        Ok(())
    }

    fn link(&mut self) -> Link {
        let fails = self.recorder.as_ref().is_some_and(|recorder| recorder.failure().is_some());
        Link { present: true, carrier: !fails, speed_mbps: None }
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        if let (Some(player), Some(replay)) = (&self.player, &self.config.replay) {
            let Recording { packets, skipped, .. } = player.recording();
            let skipped = match skipped {
                0 => String::new(),
                n => format!(", {n} more are not whole"),
            };
            lines.push((
                "replayed file",
                format!("{}, {} packets{skipped}", replay.file.display(), packets.len()),
            ));
            let state = if player.plays() { "playing" } else { "not playing" };
            lines.push(("replay", format!("{state}, {} packets, {} rounds", player.sent(), player.rounds())));
        }
        if let (Some(recorder), Some(record)) = (&self.recorder, &self.config.record) {
            let failed = recorder.failure().map_or(String::new(), |why| format!("; it failed: {why}"));
            let written = format!("{} of {} packets{failed}", recorder.taken(), record.most);
            lines.push(("recorded file", format!("{}, {written}", record.file.display())));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_captures_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for (there, is_replaced) in [
            (&b""[..], true),
            (b"root:*:19000:0:99999:7:::\n", false),
            (b"\xd4\xc3", false),
            (b"\xd4\xc3\xb2\xa1\x02\x00", true),
            (b"\x4d\x3c\xb2\xa1", true),
            (b"\x0a\x0d\x0d\x0a", true),
        ] {
            fs::write(&path, there).unwrap();
            let made = create(&path);
            assert_eq!(made.is_ok(), is_replaced, "{there:x?}: {made:?}");
            let left = fs::read(&path).unwrap();
            assert_eq!(left, if is_replaced { b"" } else { there });
        }
        assert!(create(folder.path()).is_err());
    }
}
