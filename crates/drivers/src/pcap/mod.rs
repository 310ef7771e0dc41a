//! A device on capture files: it replays received packets from one file and records sent packets in another.
//!
//! The replay file is read into memory when the device is opened. Each time the device is set up, the replay restarts
//! at the first packet. A thread of the device writes the recording, so that no worker waits for a disk.

mod read;
mod record;
mod replay;

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use buf::RxQueue;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, SFlag};
use nix::unistd::{UnlinkatFlags, unlinkat};

use self::record::FileTx;
use self::replay::{FileRx, Player};
use crate::device::{Device, DeviceControl, Link};
use crate::kernel::slow::{self, Progress};
use crate::kernel::target::{self, Target};

pub use self::read::{Recording, Seen, each};
pub(crate) use self::record::Recorder;

/// Link type of files with Ethernet packets (LINKTYPE_ETHERNET).
pub(crate) const ETHERNET: u32 = 1;
/// Link type of files whose packets begin with an IP header (LINKTYPE_RAW).
pub(crate) const RAW: u32 = 101;
/// Length of an Ethernet header in bytes.
pub(crate) const ETHERNET_HEADER: usize = 14;

/// Name of the input node that polls these devices.
pub const INPUT_NODE: &str = "pcap-input";
/// Maximum size of a replay file in bytes.
pub const LARGEST_FILE: u64 = 64 << 20;
/// Default limit of packets in a recording.
pub const PACKETS: u64 = 100_000;
/// Default MTU in bytes.
const MTU: u16 = 9000;

/// Configuration of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The device's Ethernet address.
    pub mac: [u8; 6],
    /// The file to replay; `None` receives nothing.
    pub replay: Option<Replay>,
    /// The file to record; `None` records no packets.
    pub record: Option<Record>,
}

impl Config {
    /// Returns the configuration of a device without files, with an Ethernet address derived from `number`.
    pub fn new(number: u16) -> Config {
        let [high, low] = number.to_be_bytes();
        Config { mac: [2, 0xfd, 0, 0, high, low], replay: None, record: None }
    }
}

/// A file to replay: pcap or pcapng, with Ethernet packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Path of the file.
    pub file: PathBuf,
    /// Replay speed.
    pub speed: Speed,
    /// Number of times that the file is replayed; `None` repeats it until the device is set down.
    pub rounds: Option<u32>,
}

/// Replay speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// With the time between packets as recorded in the file. Each round begins as soon as the previous one ends.
    Own,
    /// Packets per second.
    Rate(u32),
    /// As fast as the router takes packets.
    Full,
}

/// A recording: pcap, with nanosecond timestamps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Path of the file. An existing capture or empty file is replaced.
    pub file: PathBuf,
    /// Maximum number of packets in the file; further packets are not recorded.
    pub most: u64,
}

/// The reason why the device cannot be opened.
#[derive(Debug)]
pub struct OpenError(String);

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OpenError {}

/// Reads a replay file into memory. The time that this takes is proportional to the file's size. Notes its progress.
///
/// # Errors
/// If the file cannot be read, is larger than [`LARGEST_FILE`] or than the free memory permits, is not an Ethernet capture, or is
/// truncated.
pub fn load(file: &Path, progress: &Progress) -> Result<Recording, OpenError> {
    read::read(file, progress).map_err(|why| OpenError(format!("cannot replay {}: {why}", file.display())))
}

/// Like [`load`], but for a file of packets without Ethernet headers: each begins with an IP header of this version, 4 or 6. Puts `header`
/// in front of each packet.
///
/// # Errors
/// As [`load`], but an Ethernet capture is refused, and so is a file with a packet of the other IP version.
pub fn load_ip(
    file: &Path,
    version: u8,
    header: [u8; ETHERNET_HEADER],
    progress: &Progress,
) -> Result<Recording, OpenError> {
    let read = read::read_ip(file, version, header, progress);
    read.map_err(|why| OpenError(format!("cannot replay {}: {why}", file.display())))
}

/// Opens a device after [loading](load) its replay file.
///
/// # Errors
/// If the replay file cannot be loaded or the recording cannot be written.
pub fn open(config: &Config) -> Result<Device, OpenError> {
    let load = |replay: &Replay| load(&replay.file, &Progress::default());
    open_loaded(config, config.replay.as_ref().map(load).transpose()?)
}

/// Opens a device whose replay file was [loaded](load) before.
///
/// # Errors
/// If the recording cannot be written.
pub fn open_loaded(config: &Config, recording: Option<Recording>) -> Result<Device, OpenError> {
    let player = recording.map(|recording| Arc::new(Player::new(recording)));
    let recorder = match &config.record {
        None => None,
        Some(record) => {
            let failed =
                |why: &dyn fmt::Display| OpenError(format!("cannot write {}: {why}", record.file.display()));
            let replayed = config.replay.as_ref().map(|replay| replay.file.clone());
            let begin = move |path: &Path| {
                if replayed.is_some_and(|replayed| same(&replayed, path)) {
                    return Err(io::Error::other("the file is also the replay file"));
                }
                let mut file = create(path)?;
                record::begin(&mut file, ETHERNET)?;
                Ok(file)
            };
            let file = slow::open(&record.file, slow::PATIENCE, begin).map_err(|e| failed(&e))?;
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

/// First bytes of capture files: pcap with microseconds and pcap with nanoseconds, each in both byte orders, and pcapng.
const MAGIC: [[u8; 4]; 5] = [
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0x0a, 0x0d, 0x0d, 0x0a],
];

/// True if the ordinary file at `path` is empty or a capture.
fn is_capture(mut file: File) -> io::Result<bool> {
    let mut begins = [0; 4];
    match file.read(&mut begins)? {
        0 => Ok(true),
        n => Ok(n == begins.len() && MAGIC.contains(&begins)),
    }
}

/// Creates a file for captured packets, readable by its owner and group, because it may contain secrets. An existing
/// file is replaced if it is an ordinary file that is empty or a capture, so a mistyped name destroys nothing. The name itself must not be a
/// link, and links above it are followed only where no other user can make one. In a directory that other users can write to, only the
/// owner can read the file.
///
/// # Errors
/// If the name belongs to another kind of file, or the system refuses.
pub fn create(path: &Path) -> io::Result<File> {
    let target = Target::find_entry(path)?;
    let (folder, name) = (&target.folder, target.name.as_os_str());
    match target.about()? {
        Some(there) if target::kind(&there) == SFlag::S_IFREG => {
            let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
            if !is_capture(openat(folder, name, flags, Mode::empty())?.into())? {
                return Err(io::Error::other("the file exists and is not a capture: remove it first"));
            }
            unlinkat(folder, name, UnlinkatFlags::NoRemoveDir)?;
        }
        Some(_) => return Err(io::Error::other("it is not an ordinary file")),
        None => {}
    }
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mode = if target.is_private { 0o640 } else { 0o600 };
    Ok(openat(folder, name, flags, Mode::from_bits_truncate(mode))?.into())
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
                n => format!(", {n} truncated"),
            };
            lines.push((
                "replayed file",
                format!("{}, {} packets{skipped}", replay.file.display(), packets.len()),
            ));
            let state = if player.plays() { "playing" } else { "not playing" };
            lines.push(("replay", format!("{state}, {} packets, {} rounds", player.sent(), player.rounds())));
        }
        if let (Some(recorder), Some(record)) = (&self.recorder, &self.config.record) {
            let failed = recorder.failure().map_or(String::new(), |why| format!("; failed: {why}"));
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

    /// In a folder that other users can write to, a capture is private, and links are not followed.
    #[test]
    fn other_users_can_neither_redirect_nor_read_a_capture() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (open, ours) = (folder.path().join("open"), folder.path().join("ours"));
        [&open, &ours].into_iter().for_each(|path| fs::create_dir(path).unwrap());
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        symlink(&ours, open.join("way")).unwrap();
        symlink(ours.join("file"), open.join("link")).unwrap();
        fs::write(ours.join("victim"), "").unwrap();
        for name in ["way/file", "way/victim", "link"] {
            assert!(create(&open.join(name)).is_err(), "{name}");
        }
        assert_eq!(fs::read_dir(&ours).unwrap().count(), 1);
        for (folder, mode) in [(&open, 0o600), (&ours, 0o640)] {
            let made = create(&folder.join("file")).unwrap();
            assert_eq!(made.metadata().unwrap().permissions().mode() & 0o777, mode);
        }
    }
}
