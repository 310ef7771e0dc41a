//! Tests of pcap devices: the packets of the replay file are received, and libpcap reads the sent packets from the recording.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use buf::{Frame, Held, Pool, Unsent};
use drivers::pcap::{self, Config, Record, Replay, Speed};
use drivers::{Device, Progress};

/// Returns a pcap file with these packets: time in nanoseconds, bytes, and original length.
fn classic(big: bool, nanos: bool, link: u32, packets: &[(u64, &[u8], usize)]) -> Vec<u8> {
    let word = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let half = |n: u16| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let mut file = word(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }).to_vec();
    file.extend([half(2), half(4)].concat());
    file.extend([word(0), word(0), word(65535), word(link)].concat());
    for (time, bytes, len) in packets {
        let part = (time % 1_000_000_000) as u32 / if nanos { 1 } else { 1000 };
        let head = [(time / 1_000_000_000) as u32, part, bytes.len() as u32, *len as u32];
        file.extend(head.iter().flat_map(|n| word(*n)));
        file.extend_from_slice(bytes);
    }
    file
}

/// Returns the same packets as pcapng: a section, an interface, an enhanced block for each packet, microseconds.
fn next_generation(packets: &[(u64, &[u8], usize)]) -> Vec<u8> {
    let block = |kind: u32, body: Vec<u8>| {
        let len = 12 + body.len() as u32;
        [kind.to_le_bytes().to_vec(), len.to_le_bytes().to_vec(), body, len.to_le_bytes().to_vec()].concat()
    };
    let words = |all: &[u32]| all.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = block(0x0a0d_0d0a, words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
    file.extend(block(1, words(&[1, 0])));
    for (time, bytes, len) in packets {
        let micros = time / 1000;
        let head = [0, (micros >> 32) as u32, micros as u32, bytes.len() as u32, *len as u32];
        let mut body = words(&head);
        body.extend_from_slice(bytes);
        body.resize(body.len().next_multiple_of(4), 0);
        file.extend(block(6, body));
    }
    file
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn replay(file: &Path, speed: Speed, rounds: Option<u32>) -> Config {
    Config { replay: Some(Replay { file: file.into(), speed, rounds }), ..Config::new(7) }
}

/// Polls until `n` packets have arrived, and once more. Returns the packets with their arrival times.
fn receive(device: &mut Device, cache: &mut buf::Cache, n: usize) -> Vec<(Duration, Vec<u8>)> {
    let (begun, mut all) = (Instant::now(), Vec::new());
    loop {
        let enough = all.len() >= n;
        let mut frame = Frame::new();
        device.rx[0].poll(&mut frame, cache).unwrap();
        all.extend(frame.packets().map(|p| (begun.elapsed(), p.segments().flatten().copied().collect())));
        frame.free(cache);
        assert!(begun.elapsed() < Duration::from_secs(20), "{} of {n} packets came", all.len());
        if enough {
            return all;
        }
    }
}

fn bytes(all: Vec<(Duration, Vec<u8>)>) -> Vec<Vec<u8>> {
    all.into_iter().map(|(_, bytes)| bytes).collect()
}

#[test]
fn every_kind_of_file_is_replayed() {
    let (folder, mut cache) = (Folder::new(), Pool::new(256).unwrap().cache());
    let long: Vec<u8> = (0..9000).map(|i| i as u8).collect();
    let packets: [(u64, &[u8], usize); 4] = [
        (5_000_000_000, &[1; 60], 60),
        (4_000_000_000, &[2; 60], 90),
        (6_000_000_000, &long, 9000),
        (6, &[3; 14], 14),
    ];
    let whole: Vec<Vec<u8>> = [0, 2, 3].iter().map(|i| packets[*i].1.to_vec()).collect();
    let files = [
        classic(false, true, 1, &packets),
        classic(false, false, 1, &packets),
        classic(true, true, 1, &packets),
        next_generation(&packets),
    ];
    for (n, file) in files.iter().enumerate() {
        let file = folder.file("x", file);
        let mut device = pcap::open(&replay(&file, Speed::Full, Some(3))).unwrap();
        assert_eq!((device.rx.len(), device.mac), (1, [2, 0xfd, 0, 0, 0, 7]));
        assert!(!device.rx[0].active(), "no packet arrives before the device is up");
        device.control.set_admin(true).unwrap();
        assert_eq!(bytes(receive(&mut device, &mut cache, 9)), [&whole[..]; 3].concat(), "file {n}");
        assert!(!device.rx[0].active());
        // The truncated packet is counted in each round.
        assert_eq!(device.rx[0].take_lost().unusable, 3);
        assert_eq!(device.rx[0].take_lost().unusable, 0);
        // Setting the device up restarts the replay.
        device.control.set_admin(true).unwrap();
        assert!(device.rx[0].active());
        assert_eq!(receive(&mut device, &mut cache, 9).len(), 9);
        let said = format!("{:?}", device.control.describe());
        assert!(said.contains("3 packets, 1 truncated") && said.contains("18 packets, 6 rounds"), "{said}");
    }
}

#[test]
fn replays_keep_recorded_times_and_rates() {
    let (folder, mut cache) = (Folder::new(), Pool::new(256).unwrap().cache());
    let ms = 1_000_000;
    let packets: [(u64, &[u8], usize); 3] =
        [(7 * ms, &[1; 60], 60), (107 * ms, &[2; 60], 60), (207 * ms, &[3; 60], 60)];
    let file = folder.file("x", &classic(false, true, 1, &packets));
    let came = |speed, n: usize, cache: &mut buf::Cache| {
        let mut device = pcap::open(&replay(&file, speed, None)).unwrap();
        device.control.set_admin(true).unwrap();
        let came = receive(&mut device, cache, n);
        device.control.set_admin(false).unwrap();
        assert!(!device.rx[0].active());
        came.into_iter().map(|(when, _)| when.as_millis()).take(n).collect::<Vec<_>>()
    };
    // Rounds follow each other without a gap.
    let own = came(Speed::Own, 6, &mut cache);
    for (when, at_least) in own.iter().zip([0, 100, 200, 200, 300, 400]) {
        assert!((at_least - 1..at_least + 80).contains(&(*when as i64)), "{own:?}");
    }
    // The sender catches up by at most one vector; packets are 1 ms apart.
    let rate = came(Speed::Rate(1000), 200, &mut cache);
    assert!((190..400).contains(&rate[199]), "{rate:?}");
}

/// The worker may sleep until shortly before the next packet, and not longer.
#[test]
fn a_replay_reports_the_time_of_its_next_packet() {
    let (folder, mut cache) = (Folder::new(), Pool::new(256).unwrap().cache());
    let second = 1_000_000_000;
    let packets: [(u64, &[u8], usize); 2] = [(7 * second, &[1; 60], 60), (17 * second, &[2; 60], 60)];
    let file = folder.file("x", &classic(false, true, 1, &packets));
    let clock = infra::clock::Clock::new();
    for (speed, seconds) in [(Speed::Own, Some(10)), (Speed::Rate(1), Some(1)), (Speed::Full, None)] {
        let mut device = pcap::open(&replay(&file, speed, None)).unwrap();
        device.control.set_admin(true).unwrap();
        assert_eq!(device.rx[0].next_due(), None, "the first one is due at once");
        let before = clock.now_ns();
        receive(&mut device, &mut cache, 1);
        match (device.rx[0].next_due(), seconds) {
            (Some(due), Some(seconds)) => {
                // Early enough that the worker does not oversleep.
                let (first, last) = (before + seconds * second, clock.now_ns() + seconds * second);
                assert!(
                    (first - 1_000_000..last - 100_000).contains(&due),
                    "{speed:?}: {first} {due} {last}"
                );
            }
            (None, None) => {}
            (due, _) => panic!("{speed:?}: {due:?}"),
        }
        // After a restart, the replay does not wait for the old due time.
        device.control.set_admin(true).unwrap();
        assert_eq!(device.rx[0].next_due(), None);
    }
}

#[test]
fn few_buffers_delay_a_replay_and_lose_nothing() {
    let (folder, pool) = (Folder::new(), Pool::new(16).unwrap());
    let mut cache = pool.cache();
    let long = [9; 9000];
    let file = folder.file("x", &classic(false, true, 1, &vec![(0, &long[..], 9000); 20]));
    let mut device = pcap::open(&replay(&file, Speed::Full, Some(1))).unwrap();
    device.control.set_admin(true).unwrap();
    let all = bytes(receive(&mut device, &mut cache, 20));
    assert!(all.len() == 20 && all.iter().all(|p| *p == long));
    drop(cache);
    assert_eq!(pool.stats().used, 0);
}

#[test]
fn invalid_files_are_refused_with_the_reason() {
    let folder = Folder::new();
    let good = classic(false, true, 1, &[(0, &[1; 60], 60)]);
    let refused = |config: &Config| pcap::open(config).err().map(|e| e.to_string()).unwrap_or_default();
    let said = |bytes: &[u8]| refused(&replay(&folder.file("x", bytes), Speed::Full, None));
    assert!(said(&classic(false, true, 113, &[])).contains("link type is LINUX_SLL, not Ethernet"));
    assert!(said(b"no capture at all").contains("unknown file format"), "{}", said(b"no capture at all"));
    assert!(said(&good[..good.len() - 1]).contains("packet 1: truncated dump file"), "{}", said(&good[..90]));
    assert!(said(&[]).contains("cannot replay /"));
    assert!(refused(&replay(Path::new("/no/such/file"), Speed::Full, None)).contains("No such file"));
    assert!(refused(&replay(folder.0.path(), Speed::Full, None)).contains("not an ordinary file"));
    let large = folder.file("large", &good);
    std::fs::File::options().write(true).open(&large).unwrap().set_len(pcap::LARGEST_FILE + 1).unwrap();
    assert!(refused(&replay(&large, Speed::Full, None)).contains("more than 67108864"));
    let file = folder.file("x", &good);
    let record = Some(Record { file: file.clone(), most: 1 });
    let both = Config { record, ..replay(&file, Speed::Full, None) };
    assert!(refused(&both).contains("the file is also the replay file"));
    assert_eq!(std::fs::read(&file).unwrap(), good, "the file is unchanged");
    let nowhere = Config { record: Some(Record { file: "/no/such/file".into(), most: 1 }), ..Config::new(0) };
    assert!(refused(&nowhere).contains("cannot write /no/such/file: No such file"));
}

#[test]
fn sent_packets_are_recorded_up_to_the_limit() {
    let (folder, mut cache) = (Folder::new(), Pool::new(1024).unwrap().cache());
    let file = folder.0.path().join("y");
    let mut device =
        pcap::open(&Config { record: Some(Record { file: file.clone(), most: 300 }), ..Config::new(0) })
            .unwrap();
    assert!(device.rx.is_empty());
    let packet = |i: usize| -> Vec<u8> { (0..14 + 31 * i).map(|b| (b + i) as u8).collect() };
    for half in 0..2 {
        let mut frame = Frame::new();
        for i in half * 160..(half + 1) * 160 {
            let mut held = Held::alloc(&mut cache).unwrap();
            assert!(held.packet().fill_chained(&packet(i), &mut cache));
            assert!(frame.push(held).is_ok());
        }
        // The buffer has room for 4 MiB. Each sent packet is taken or stays in the frame.
        while let Err(why) = device.tx[0].send(&mut frame, &mut cache) {
            assert_eq!(why, Unsent::Full);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(frame.is_empty());
    }
    let said = format!("{:?}", device.control.describe());
    assert!(said.contains("300 of 300 packets"), "{said}");
    drop(device);
    // The file is complete when the device is dropped.
    let mut device = pcap::open(&replay(&file, Speed::Full, Some(1))).unwrap();
    device.control.set_admin(true).unwrap();
    let all = bytes(receive(&mut device, &mut cache, 300));
    assert!(all.len() == 300 && all.iter().enumerate().all(|(i, bytes)| *bytes == packet(i)));
}

/// The Ethernet header of `load_ip`, for a router with the address 02:fe:00:00:00:01.
const HEADER: [u8; 14] = [2, 0xfe, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 8, 0];

#[test]
fn packets_without_an_ethernet_header_get_one() {
    let folder = Folder::new();
    let (one, two) = ([0x45, 1, 2, 3], [0x46; 30]);
    let packets: [(u64, &[u8], usize); 2] = [(0, &one, 4), (5, &two, 30)];
    // Raw IP by its number in files and by that of Linux's libpcap, and IPv4.
    for link in [101, 12, 228] {
        let file = folder.file("raw.pcap", &classic(false, true, link, &packets));
        let recording = pcap::load_ip(&file, 4, HEADER, &Progress::default()).unwrap();
        assert_eq!(recording.len(), 2);
        let mut device = pcap::open_loaded(&replay(&file, Speed::Full, Some(1)), Some(recording)).unwrap();
        device.control.set_admin(true).unwrap();
        let mut cache = Pool::new(64).unwrap().cache();
        let got = bytes(receive(&mut device, &mut cache, 2));
        assert_eq!(got, [[&HEADER[..], &one].concat(), [&HEADER[..], &two].concat()]);
        let why = pcap::load_ip(&file, 6, HEADER, &Progress::default()).unwrap_err().to_string();
        assert!(why.ends_with("packet 1 is no IPv6 packet"), "{why}");
    }
    let file = folder.file("ethernet.pcap", &classic(false, true, 1, &packets));
    let why = pcap::load_ip(&file, 4, HEADER, &Progress::default()).unwrap_err().to_string();
    assert!(why.ends_with("it has Ethernet headers"), "{why}");
    let empty = folder.file("empty.pcap", &classic(false, true, 101, &[(0, &[], 0)]));
    assert!(pcap::load_ip(&empty, 4, HEADER, &Progress::default()).is_err());
}
