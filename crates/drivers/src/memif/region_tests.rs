//! Tests of a peer's memory: refused files, reserved pages, and seals.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use infra::mem::{Account, SMALL};
use proptest::prelude::*;

use super::region::{self, MemoryFile, Region};

fn memfd(flags: u32, len: i64, seals: i32) -> OwnedFd {
    // SAFETY: plain system calls; the descriptor is new.
    unsafe {
        let fd = libc::memfd_create(c"peer".as_ptr(), flags);
        assert!(fd >= 0 && libc::ftruncate(fd, len) == 0);
        assert!(seals == 0 || libc::fcntl(fd, libc::F_ADD_SEALS, seals) == 0);
        OwnedFd::from_raw_fd(fd)
    }
}

#[test]
fn memory_that_can_be_truncated_is_refused() {
    let refused = |file: &OwnedFd, len: u64| {
        assert!(Region::of_peer(file.as_fd(), len, None).is_ok() || len != 8192);
        Region::of_peer(file.as_fd(), len, Some(&Account::default())).err().unwrap_or_default()
    };
    let sealed = memfd(libc::MFD_ALLOW_SEALING, 8192, libc::F_SEAL_SHRINK);
    assert_eq!(refused(&sealed, 8192), "");
    assert_eq!(refused(&sealed, 8193), "the peer announced 8193 bytes, but the memory has 8192 bytes");
    assert_eq!(refused(&sealed, 0), "the peer announced 0 bytes, but the memory has 8192 bytes");
    assert_eq!(
        refused(&sealed, u64::MAX),
        format!("the peer announced {} bytes, but the memory has 8192 bytes", u64::MAX)
    );
    let unsealed = memfd(libc::MFD_ALLOW_SEALING, 8192, 0);
    let why = Region::of_peer(unsealed.as_fd(), 8192, Some(&Account::default())).err().unwrap();
    assert!(why.starts_with("it is not sealed against shrinking"));
    // A trusted peer may provide such memory, but cannot shrink it any more.
    Region::of_peer(unsealed.as_fd(), 8192, None).unwrap();
    let unsealed = File::from(unsealed);
    assert_eq!(unsealed.set_len(0).unwrap_err().raw_os_error(), Some(libc::EPERM));
    let grown = memfd(libc::MFD_ALLOW_SEALING, 8192, libc::F_SEAL_GROW | libc::F_SEAL_SEAL);
    assert!(refused(&grown, 8192).starts_with("it is not sealed against shrinking"));
    let read_only = memfd(libc::MFD_ALLOW_SEALING, 8192, libc::F_SEAL_SHRINK | libc::F_SEAL_WRITE);
    assert!(
        Region::of_peer(read_only.as_fd(), 8192, Some(&Account::default()))
            .err()
            .unwrap()
            .starts_with("it cannot be mapped")
    );
    let closed = memfd(libc::MFD_ALLOW_SEALING, 8192, libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL);
    assert!(refused(&closed, 8192).starts_with("it cannot be sealed against the removal of pages"));
    let again = memfd(libc::MFD_ALLOW_SEALING, 8192, libc::F_SEAL_SHRINK);
    drop(Region::of_peer(again.as_fd(), 8192, Some(&Account::default())).unwrap());
    let why = Region::of_peer(again.as_fd(), 8192, Some(&Account::default())).err().unwrap();
    assert!(why.ends_with("a client must create new memory"), "{why}");
    let large = memfd(libc::MFD_ALLOW_SEALING, 2 << 30, libc::F_SEAL_SHRINK);
    assert!(refused(&large, 2 << 30).contains("an untrusted peer may provide"));
    let null = OwnedFd::from(File::open("/dev/null").unwrap());
    assert!(MemoryFile::new(null).is_err(), "a file that is not memory is not accessed further");
}

/// A file that a peer passes several times counts once.
#[test]
fn the_pages_of_a_file_count_once() {
    let files = [3 << 20, 5 << 20].map(|len| {
        let file = memfd(libc::MFD_ALLOW_SEALING, 8 << 20, 0);
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len) }, 0);
        file
    });
    let copy = files[0].try_clone().unwrap();
    let all = [&files[0], &copy, &files[1], &files[0]].map(|file| file.as_fd());
    assert_eq!(region::allocated(all.into_iter()), 8 << 20);
    assert_eq!(region::allocated(std::iter::empty()), 0);
}

/// Allocated bytes are no measure of missing pages: a peer can have pages beyond the end of its file.
#[test]
fn pages_without_contents_are_missing_wherever_others_are_allocated() {
    let file = memfd(libc::MFD_ALLOW_SEALING, 8 << 20, libc::F_SEAL_SHRINK);
    let contents = file.try_clone().unwrap();
    File::from(contents).write_all_at(&[0; 1 << 20], 0).unwrap();
    // SAFETY: no memory is involved.
    let beyond = unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 8 << 20, 7 << 20) };
    assert_eq!((beyond, region::allocated([file.as_fd()].into_iter())), (0, 8 << 20));
    let region = Region::of_peer(file.as_fd(), 8 << 20, Some(&Account::default())).unwrap();
    assert_eq!(region.promised(), 7 << 20);
}

proptest! {
    #[test]
    fn every_missing_page_counts(
        pages in proptest::collection::vec(any::<bool>(), 1..40),
        cut in 0u64..4096,
        mapped in any::<proptest::sample::Index>(),
    ) {
        let len = (pages.len() as u64 * 4096) - cut;
        let file = memfd(libc::MFD_ALLOW_SEALING, len as i64, libc::F_SEAL_SHRINK);
        let contents = File::from(file.try_clone().unwrap());
        for (page, _) in pages.iter().enumerate().filter(|(_, present)| **present) {
            contents.write_all_at(&[1], page as u64 * 4096).unwrap();
        }
        // A mapping may be shorter than the file.
        let mapped = mapped.index(len as usize) as u64 + 1;
        let pages = &pages[..mapped.div_ceil(4096) as usize];
        let missing = pages.iter().filter(|present| !**present).count() as u64;
        let region = Region::of_peer(file.as_fd(), mapped, Some(&Account::default())).unwrap();
        prop_assert_eq!(region.promised(), missing * 4096);
    }
}

/// A server finds no page missing in the memory that a client has filled.
#[test]
fn filled_memory_has_no_missing_page() {
    let (_own, file) = Region::create(c"own", 1 << 20).unwrap();
    region::fill(file.as_fd()).unwrap();
    assert_eq!(Region::of_peer(file.as_fd(), 1 << 20, Some(&Account::default())).unwrap().promised(), 0);
}

/// True if pages can be removed from a file.
fn can_be_punched(file: &OwnedFd) -> bool {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: no memory is involved.
    unsafe { libc::fallocate(file.as_raw_fd(), mode, 0, 4096) == 0 }
}

#[test]
fn mapped_memory_is_sealed_against_hole_punching() {
    let peers = memfd(libc::MFD_ALLOW_SEALING, 8192, libc::F_SEAL_SHRINK);
    assert!(can_be_punched(&peers));
    let _mapped = Region::of_peer(peers.as_fd(), 8192, Some(&Account::default())).unwrap();
    assert!(!can_be_punched(&peers));
    // The router's own file is sealed after the peer has mapped it.
    let (_own, file) = Region::create(c"own", 8192).unwrap();
    let _by_peer = Region::of_peer(file.as_fd(), 8192, None).unwrap();
    assert!(can_be_punched(&file));
    region::seal(file.as_fd()).unwrap();
    region::seal(file.as_fd()).unwrap();
    assert!(!can_be_punched(&file));
}

#[test]
fn created_memory_is_complete_when_it_is_sealed() {
    for (removes, touches) in [(false, false), (false, true), (true, false)] {
        let (region, file) = Region::create(c"test", 3 * SMALL).unwrap();
        if touches {
            region.touch();
        } else {
            region::fill(file.as_fd()).unwrap();
        }
        if removes {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            // SAFETY: no memory is involved.
            let removed = unsafe {
                libc::fallocate(file.as_raw_fd(), mode, SMALL as libc::off_t, SMALL as libc::off_t)
            };
            assert_eq!(removed, 0);
        }
        let sealed = region::seal_filled(file.as_fd());
        assert_eq!(sealed.err().is_some_and(|why| why.contains("(4096 bytes)")), removes);
    }
}
