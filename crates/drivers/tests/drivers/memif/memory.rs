//! Tests of peers that keep the memory of ended connections.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;

use super::*;

/// Returns this process's shared memory files with length `len`, each by a new descriptor.
fn shared_memory(len: u64) -> Vec<File> {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let named = files.filter(|path| {
        std::fs::read_link(path).is_ok_and(|to| to.starts_with("/memfd:volley-memif (deleted)"))
    });
    let numbers = named.filter_map(|path| path.file_name()?.to_str()?.parse().ok());
    // SAFETY: no thread of this test closes files meanwhile.
    let copies = numbers
        .filter_map(|n| unsafe { BorrowedFd::borrow_raw(n) }.try_clone_to_owned().ok().map(File::from));
    copies.filter(|file| file.metadata().is_ok_and(|about| about.len() == len)).collect()
}

/// Connects a client repeatedly to a server whose process keeps the memory of each connection: it keeps the result of `take` for each
/// memory file. Ends when the client cannot connect any more, and releases the memory. Asserts that the client gives `why` as the reason.
/// Returns the server's side, the client's side, and the client's device. `ring_size` must differ between tests, because the memory is
/// found by its size.
fn keep_memory<K>(
    place: &Place,
    ring_size: u16,
    why: &str,
    take: impl Fn(File) -> K,
) -> (Side, Side, Device) {
    let (mut a, mut b) = (Side::new(&place.socket()), Side::new(&place.socket()));
    let with = |role| Config { ring_size, buffer_size: 2112, ..config(0, role) };
    let client = b.open(&with(Role::Client));
    let mut kept = Vec::new();
    for round in 0..20 {
        let server = a.open(&with(Role::Server));
        let refused = |s: &[&mut Side]| s[0].reason(0).contains("former connections");
        until(&mut [&mut b, &mut a], "the connection", |s| s[0].state(0).connected || refused(s));
        if b.state(0).connected {
            kept.extend(shared_memory(b.state(0).regions[0]).into_iter().map(&take));
        } else {
            assert!(round > 0, "nothing was held");
            break;
        }
        drop(server);
        until(&mut [&mut a, &mut b], "the end", |s| !s[1].state(0).connected);
    }
    until(&mut [&mut a, &mut b], why, |s| s[1].reason(0).contains(why));
    drop(kept);
    (a, b, client)
}

/// A peer that keeps the files of ended connections cannot connect until it closes them. The kernel charges this memory to the router as
/// long as the peer has the file.
#[test]
fn a_peer_that_keeps_the_memory_of_former_connections_gets_no_more() {
    let place = Place::new("keeps");
    let (mut a, mut b, _client) = keep_memory(&place, 64, "the peer still uses the memory of", |file| file);
    let _server = a.open(&Config { ring_size: 64, ..config(0, Role::Server) });
    until(&mut [&mut a, &mut b], "the connection after the release", connected);
}

/// A peer that keeps pages of ended connections in sockets cannot connect until it closes the sockets. The kernel charges these pages to
/// the router.
#[test]
fn a_peer_that_keeps_pages_of_former_connections_gets_no_more() {
    let place = Place::new("pages");
    let splice = |file: File| {
        let (from, to) = UnixStream::pair().unwrap();
        // SAFETY: no memory is involved.
        let sent = unsafe { libc::sendfile(from.as_raw_fd(), file.as_raw_fd(), std::ptr::null_mut(), 65536) };
        assert!(sent > 0);
        to
    };
    let (mut a, mut b, _client) = keep_memory(&place, 128, "the peer still uses the memory of", splice);
    let _server = a.open(&Config { ring_size: 128, ..config(0, Role::Server) });
    until(&mut [&mut a, &mut b], "the connection after the release", connected);
}

/// A peer that has opened the memory with `O_PATH` can open it again after the proof of release, and use its pages. So it cannot connect
/// until the operator sets the interface down and up.
#[test]
fn a_peer_that_hides_its_use_of_memory_gets_no_more_until_the_operator_allows_it() {
    let place = Place::new("hides");
    let again = |file: File| {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        File::options().read(true).custom_flags(libc::O_PATH).open(path).unwrap()
    };
    let (mut a, mut b, mut client) =
        keep_memory(&place, 256, "the router cannot detect whether peers still use the memory of", again);
    let _server = a.open(&Config { ring_size: 256, ..config(0, Role::Server) });
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        [&mut a, &mut b].into_iter().for_each(Side::turn);
        assert!(!b.state(0).connected);
        std::thread::sleep(Duration::from_millis(20));
    }
    for up in [false, true] {
        client.control.set_admin(up).unwrap();
        b.turn();
    }
    until(&mut [&mut a, &mut b], "the connection that the operator allowed", connected);
}
