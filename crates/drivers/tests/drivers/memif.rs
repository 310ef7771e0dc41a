//! memif tests: both sides of this driver in one process, and untrusted clients on the control channel.

mod memory;

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use buf::{Cache, Frame, Pool, Unsent};
use drivers::Device;
use drivers::memif::{Config, InterfaceState, Role, Secret, Sockets};
use infra::wait;

/// A directory for sockets, removed with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("volley-memif-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("memif.sock")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A router's sockets, on virtual time.
struct Side {
    sockets: Sockets,
    pool: Pool,
    now: u64,
}

impl Side {
    fn new(path: &Path) -> Side {
        let mut sockets = Sockets::new().unwrap();
        sockets.add_socket(1, path).unwrap();
        Side { sockets, pool: Pool::new(4096).unwrap(), now: 1 }
    }

    fn open(&mut self, config: &Config) -> Device {
        let mut device = self.sockets.open(config, &self.pool).unwrap();
        device.control.set_admin(true).unwrap();
        device
    }

    fn turn(&mut self) {
        self.now += 1_000_000;
        self.sockets.turn(self.now);
    }

    fn state(&self, id: u32) -> InterfaceState {
        self.sockets.interfaces(Some(&format!("memif1/{id}")), true).pop().unwrap()
    }

    fn reason(&self, id: u32) -> String {
        self.state(id).reason.unwrap_or_default()
    }
}

/// Calls `turn` of all sides until `so` returns true.
fn until(sides: &mut [&mut Side], what: &str, mut so: impl FnMut(&[&mut Side]) -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !so(sides) {
        assert!(Instant::now() < end, "timeout waiting for: {what}");
        sides.iter_mut().for_each(|s| s.turn());
        // Threads deliver the peers' messages; the sides' own time passes five times as fast.
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn connected(sides: &[&mut Side]) -> bool {
    sides.iter().all(|s| s.sockets.interfaces(None, false).iter().all(|i| i.connected))
}

fn config(id: u32, role: Role) -> Config {
    Config::new(1, id, role)
}

fn packet(n: u16, len: usize) -> Vec<u8> {
    n.to_ne_bytes().into_iter().cycle().take(len).collect()
}

fn send(device: &mut Device, queue: usize, cache: &mut Cache, all: &[Vec<u8>]) -> Result<(), Unsent> {
    let mut frame = Frame::new();
    for bytes in all {
        frame.alloc(cache, 1);
        let last = frame.len() - 1;
        assert!(frame.get(last).unwrap().fill_chained(bytes, cache));
        frame.note(buf::Flags::CHAINED);
    }
    let outcome = device.tx[queue].send(&mut frame, cache);
    frame.free(cache);
    outcome
}

fn receive(device: &mut Device, queue: usize, cache: &mut Cache) -> Vec<Vec<u8>> {
    let mut frame = Frame::new();
    device.rx[queue].poll(&mut frame, cache).unwrap();
    let all = frame.packets().map(|p| p.segments().flatten().copied().collect()).collect();
    frame.free(cache);
    all
}

#[test]
fn packets_of_all_sizes_pass_both_ways() {
    let place = Place::new("both");
    let (mut a, mut b) = (Side::new(&place.socket()), Side::new(&place.socket()));
    let pool = Pool::new(4096).unwrap();
    let mut cache = pool.cache();
    let mut servers: Vec<Device> = (0..2).map(|id| a.open(&config(id, Role::Server))).collect();
    let mut clients: Vec<Device> = (0..2).map(|id| b.open(&config(id, Role::Client))).collect();
    until(&mut [&mut a, &mut b], "the connection", connected);
    assert_eq!(
        (b.state(1).peer_interface, a.state(1).peer_interface),
        ("memif1/1".into(), "memif1/1".into())
    );
    for (i, (server, client)) in servers.iter_mut().zip(&mut clients).enumerate() {
        assert!(server.control.link().is_up() && client.control.link().is_up());
        let all: Vec<Vec<u8>> = (0..20)
            .map(|n| packet(n + 100 * i as u16, [60, 64, 1514, 2112, 2113, 9014][n as usize % 6]))
            .collect();
        assert_eq!(send(client, 0, &mut cache, &all), Ok(()));
        assert!(receive(server, 0, &mut cache) == all);
        assert_eq!(send(server, 0, &mut cache, &all), Ok(()));
        assert!(receive(client, 0, &mut cache) == all);
    }
    drop((servers, clients, cache));
    assert_eq!(pool.stats().used, 0);
}

/// A client that lends its buffers to a server. `pool` is the pool of these buffers.
struct Lender {
    sides: [Side; 2],
    server: Device,
    client: Device,
    pool: Pool,
    _place: Place,
}

fn lender(name: &str, ring_size: u16) -> Lender {
    let place = Place::new(name);
    let mut sides = [Side::new(&place.socket()), Side::new(&place.socket())];
    let pool = sides[1].pool.clone();
    let trusted = |role| Config { trusted: true, ring_size, ..config(0, role) };
    let server = sides[0].open(&trusted(Role::Server));
    let client = sides[1].open(&trusted(Role::Client));
    let [a, b] = &mut sides;
    until(&mut [a, b], "the connection", connected);
    Lender { sides, server, client, pool, _place: place }
}

#[test]
fn a_trusted_client_lends_its_own_buffers() {
    let Lender { mut sides, mut server, mut client, pool, _place } = lender("lends", 64);
    let mut cache = pool.cache();
    let there = Pool::new(4096).unwrap();
    let mut other = there.cache();
    let sizes = sides[1].state(0).regions;
    assert!(sizes.len() == 2 && sizes[1] == pool.window().len() as u64, "{sizes:?}");
    // The server can send once it has buffers: all slots of its ring.
    assert!(receive(&mut client, 0, &mut cache).is_empty());
    assert_eq!(pool.stats().lent, 64);
    let sizes = [60, 64, 1514, 2112, 2113, 9014];
    for round in 0..50 {
        let all: Vec<Vec<u8>> =
            (0..7).map(|n| packet(n + 100 * round, sizes[usize::from(n + round) % 6])).collect();
        assert_eq!(send(&mut client, 0, &mut cache, &all), Ok(()));
        assert!(receive(&mut server, 0, &mut other) == all, "to the server, in round {round}");
        assert_eq!(send(&mut server, 0, &mut other, &all), Ok(()));
        assert!(receive(&mut client, 0, &mut cache) == all, "to the client, in round {round}");
    }
    // A send frees the buffers of the send before. A packet larger than the ring is refused; others still go.
    let large = packet(7, 64 * 2112 + 1);
    assert_eq!(send(&mut client, 0, &mut cache, &[large[..65_000].to_vec(), packet(1, 60)]), Ok(()));
    assert_eq!(receive(&mut server, 0, &mut other).len(), 2);
    let many: Vec<Vec<u8>> = (0..65).map(|n| packet(n, 60)).collect();
    assert_eq!(send(&mut client, 0, &mut cache, &many), Err(Unsent::Full));
    assert_eq!((pool.stats().lent, receive(&mut server, 0, &mut other)), (128, many[..64].to_vec()));
    assert_eq!(send(&mut client, 0, &mut cache, &[Vec::new()]), Err(Unsent::Refused));
    // Not copied: the server sees the client's buffer. The buffer is not reused at once.
    drop(client);
    let [a, b] = &mut sides;
    until(&mut [a, b], "the end", |sides| sides[1].sockets.interfaces(None, false).is_empty());
    assert!(pool.stats().lent > 0, "the server may not know of the end yet");
    let gave_back = b.now;
    until(&mut [a, b], "the return", |_| pool.stats().lent == 0);
    assert!(b.now >= gave_back + 900_000_000, "{} ns", b.now - gave_back);
    drop((cache, other));
    assert_eq!((pool.stats().used, pool.stats().lost, there.stats().used), (0, 0, 0));
}

/// Buffers that were lent to a disconnected peer are not reused at once. The waiting time starts with the next turn, even if the last turn
/// was long ago. In this test, the device is reopened with another ring size.
#[test]
fn buffers_rest_after_a_reopen_between_turns() {
    let Lender { mut sides, server: _server, mut client, pool, _place } = lender("reopen", 64);
    let mut cache = pool.cache();
    assert!(receive(&mut client, 0, &mut cache).is_empty());
    assert_eq!(pool.stats().lent, 64);
    let [_, b] = &mut sides;
    b.now += 10_000_000_000;
    drop(client);
    let _anew = b.open(&Config { trusted: true, ring_size: 128, ..config(0, Role::Client) });
    assert_eq!(pool.stats().lent, 64);
    assert!(b.sockets.next_timeout().is_some_and(|at| at <= b.now), "a turn is due at once");
    b.turn();
    let rests_until = b.now + 1_000_000_000;
    assert_eq!(b.sockets.next_timeout().map(|at| at <= rests_until), Some(true));
    while b.now + 1_000_000 < rests_until {
        assert_eq!(pool.stats().lent, 64, "{} ns before the end", rests_until - b.now);
        b.turn();
    }
    b.turn();
    assert_eq!(pool.stats().lent, 0);
}

#[test]
fn an_exhausted_pool_lends_fewer_buffers() {
    let Lender { mut sides, mut server, mut client, pool, _place } = lender("poor", 64);
    let mut cache = pool.cache();
    let mut taken = Vec::new();
    while let Some(held) = buf::Held::alloc(&mut cache) {
        taken.push(held);
    }
    taken.drain(..3).for_each(|held| held.free(&mut cache));
    assert!(receive(&mut client, 0, &mut cache).is_empty());
    assert_eq!(pool.stats().lent, 3);
    let there = Pool::new(256).unwrap();
    let mut other = there.cache();
    let all: Vec<Vec<u8>> = (0..5).map(|n| packet(n, 60)).collect();
    assert_eq!(send(&mut server, 0, &mut other, &all), Err(Unsent::Full));
    assert!(receive(&mut client, 0, &mut cache) == all[..3]);
    taken.drain(..).for_each(|held| held.free(&mut cache));
    assert!(receive(&mut client, 0, &mut cache).is_empty());
    assert_eq!(pool.stats().lent, 64);
    drop(client);
    sides[1].turn();
}

/// Buffers that are added to the pool later lie outside the peer's mapping. Packets in them are copied, and the peer gets only mapped
/// buffers.
#[test]
fn a_grown_pool_lends_only_buffers_mapped_by_the_peer() {
    let Lender { sides: _sides, mut server, mut client, pool, _place } = lender("grown", 64);
    pool.grow(4096).unwrap();
    // The sender has only added buffers.
    let (mut cache, mut sender, there) = (pool.cache(), pool.cache(), Pool::new(4096).unwrap());
    let mut other = there.cache();
    assert!(receive(&mut client, 0, &mut cache).is_empty());
    assert_eq!(pool.stats().lent, 64);
    let sizes = [60, 1514, 2113, 9014];
    for round in 0..50 {
        let all: Vec<Vec<u8>> =
            (0..7).map(|n| packet(n + 100 * round, sizes[usize::from(n + round) % 4])).collect();
        assert_eq!(send(&mut client, 0, &mut sender, &all), Ok(()));
        assert!(receive(&mut server, 0, &mut other) == all, "to the server, in round {round}");
        assert_eq!(send(&mut server, 0, &mut other, &all), Ok(()));
        assert!(receive(&mut client, 0, &mut cache) == all, "to the client, in round {round}");
    }
    drop((client, cache, sender, other));
    assert_eq!((pool.stats().used, pool.stats().lost, pool.stats().refused), (0, 0, 0));
}

#[test]
fn a_tester_sends_and_receives_through_its_rings() {
    let place = Place::new("tester");
    let (mut a, mut b) = (Side::new(&place.socket()), Side::new(&place.socket()));
    let mut server = a.open(&config(0, Role::Server));
    let small = Config { ring_size: 64, ..config(0, Role::Client) };
    let mut tester = b.sockets.open_tester(&small).unwrap();
    assert_eq!(tester.send(0, 1, std::iter::repeat(&[1; 60][..])), Err(Unsent::Down));
    tester.set_admin(true).unwrap();
    until(&mut [&mut a, &mut b], "the connection", connected);
    let mut cache = a.pool.cache();
    let all: Vec<Vec<u8>> = (0..100).map(|n| packet(n, 60 + usize::from(n))).collect();
    let mut left = all.iter().map(|p| &p[..]);
    assert_eq!(tester.send(0, 40, left.by_ref()), Ok(40));
    assert_eq!(tester.send(0, 40, left.by_ref()), Ok(24), "the ring is full");
    assert_eq!(tester.send(0, 40, left.by_ref()), Ok(0));
    assert!(receive(&mut server, 0, &mut cache) == all[..64]);
    assert_eq!(tester.send(0, 40, left.by_ref()), Ok(36), "unsent packets stay in the iterator");
    assert!(receive(&mut server, 0, &mut cache) == all[64..]);
    assert_eq!(tester.send(0, 1, std::iter::once(&[0; 2049][..])), Err(Unsent::Refused));
    let mut seen = Vec::new();
    assert_eq!(send(&mut server, 0, &mut cache, &[packet(1, 60), packet(2, 3000)]), Ok(()));
    assert_eq!(tester.receive(|p| seen.push(p.to_vec())), Ok(2));
    let parts = [packet(1, 60), packet(2, 3000)[..2048].to_vec(), packet(2, 3000)[2048..].to_vec()];
    assert!(seen == parts);
}

#[test]
fn numbers_of_rings_and_queues_may_differ() {
    let place = Place::new("queues");
    let (mut a, mut b) = (Side::new(&place.socket()), Side::new(&place.socket()));
    let pool = Pool::new(4096).unwrap();
    let mut cache = pool.cache();
    let mut server = a.open(&Config { rx_queues: 2, tx_queues: 3, ..config(0, Role::Server) });
    let mut client = b.open(&Config { rx_queues: 2, tx_queues: 5, ring_size: 64, ..config(0, Role::Client) });
    until(&mut [&mut a, &mut b], "the connection", connected);
    for queue in 0..5u16 {
        send(&mut client, queue.into(), &mut cache, &[packet(queue, 100)]).unwrap();
    }
    let of = |queues: &[u16]| queues.iter().map(|q| packet(*q, 100)).collect::<Vec<_>>();
    assert!(receive(&mut server, 0, &mut cache) == of(&[0, 2, 4]), "the rings are spread over the queues");
    assert!(receive(&mut server, 1, &mut cache) == of(&[1, 3]));
    for queue in 0..3u16 {
        send(&mut server, queue.into(), &mut cache, &[packet(queue, 100)]).unwrap();
    }
    assert!(
        receive(&mut client, 0, &mut cache) == of(&[0, 2]),
        "queues without a ring of their own share one"
    );
    assert!(receive(&mut client, 1, &mut cache) == of(&[1]));
}

#[test]
fn a_queue_has_the_depth_of_its_smallest_ring() {
    let place = Place::new("depth");
    let (mut a, mut b) = (Side::new(&place.socket()), Side::new(&place.socket()));
    let mut server = a.open(&Config { rx_queues: 2, ..config(0, Role::Server) });
    let depths = |d: &Device| d.rx.iter().map(|q| q.depth()).collect::<Vec<_>>();
    assert_eq!(depths(&server), [1024; 2]);
    for (ring_size, tx_queues, expected) in [(64, 3, [64, 64]), (4096, 1, [4096, 1024]), (2, 1, [2, 1024])] {
        let mut client = b.open(&Config { ring_size, tx_queues, ..config(0, Role::Client) });
        until(&mut [&mut a, &mut b], "the connection", connected);
        assert_eq!(depths(&server), expected, "the ring sizes are the client's");
        assert_eq!(depths(&client), [usize::from(ring_size)]);
        client.control.set_admin(false).unwrap();
        until(&mut [&mut a, &mut b], "the end", |s| !s[0].state(0).connected);
        assert_eq!((depths(&server), depths(&client)), (vec![1024; 2], vec![ring_size.into()]));
    }
    server.control.set_admin(false).unwrap();
}

#[test]
fn a_restarted_side_connects_again() {
    let place = Place::new("anew");
    let (mut a, mut b) = (Side::new(&place.socket()), Side::new(&place.socket()));
    let pool = Pool::new(4096).unwrap();
    let mut cache = pool.cache();
    // The client starts first, and finds no server.
    let mut client = b.open(&config(0, Role::Client));
    until(&mut [&mut b], "no server is found", |s| s[0].reason(0).starts_with("no server listens on "));
    assert_eq!(send(&mut client, 0, &mut cache, &[packet(1, 60)]), Err(Unsent::Down));
    assert!(receive(&mut client, 0, &mut cache).is_empty() && !client.control.link().carrier);

    for round in 0..3 {
        let mut server = a.open(&config(0, Role::Server));
        // 1,000 turns are a second.
        until(&mut [&mut a, &mut b], "the connection", connected);
        send(&mut client, 0, &mut cache, &[packet(round, 60)]).unwrap();
        assert!(receive(&mut server, 0, &mut cache) == [packet(round, 60)]);
        if round == 1 {
            // The client goes down and comes up again; packets in transit are lost.
            send(&mut client, 0, &mut cache, &[packet(9, 60)]).unwrap();
            client.control.set_admin(false).unwrap();
            until(&mut [&mut a, &mut b], "the end", |s| !s[0].state(0).connected);
            assert_eq!(a.reason(0), "the client disconnected: the interface is set down");
            assert_eq!(send(&mut server, 0, &mut cache, &[packet(1, 60)]), Err(Unsent::Down));
            client.control.set_admin(true).unwrap();
            until(&mut [&mut a, &mut b], "the connection", connected);
            assert!(receive(&mut server, 0, &mut cache).is_empty());
        }
        drop(server);
        until(&mut [&mut a, &mut b], "the end", |s| !s[1].state(0).connected);
        assert!(!place.socket().exists(), "the last server removes the socket's file");
    }
    assert!(b.reason(0).contains("the interface was deleted"), "{}", b.reason(0));
    // A killed process leaves its socket file behind.
    let mut server = a.open(&config(0, Role::Server));
    until(&mut [&mut a, &mut b], "the connection", connected);
    let left = place.0.join("left");
    std::fs::hard_link(place.socket(), &left).unwrap();
    drop(server);
    a.turn();
    std::fs::rename(left, place.socket()).unwrap();
    server = a.open(&config(0, Role::Server));
    until(&mut [&mut a, &mut b], "the connection", connected);
    drop(server);
}

#[test]
fn invalid_clients_are_refused_with_the_reason() {
    let place = Place::new("refused");
    let (mut a, mut b) = (Side::new(&place.socket()), Side::new(&place.socket()));
    let secret = |s: &str| Some(Secret::new(s).unwrap());
    let _server = a.open(&Config { secret: secret("sesame"), ..config(0, Role::Server) });
    let wrong = b.open(&Config { secret: secret("simsim"), ..config(0, Role::Client) });
    until(&mut [&mut a, &mut b], "the refusal", |s| !s[1].reason(0).is_empty());
    assert_eq!(b.reason(0), "the server refused or disconnected: the secret for interface id 0 is wrong");
    drop(wrong);
    let _right = b.open(&Config { secret: secret("sesame"), ..config(0, Role::Client) });
    until(&mut [&mut a, &mut b], "the connection", |s| s[1].state(0).connected);
    let _nobody = b.open(&config(7, Role::Client));
    until(&mut [&mut a, &mut b], "the refusal", |s| !s[1].reason(7).is_empty());
    assert!(b.reason(7).ends_with("no server interface has id 7"), "{}", b.reason(7));
    let mut third = Side::new(&place.socket());
    let _second = third.open(&Config { secret: secret("sesame"), ..config(0, Role::Client) });
    until(&mut [&mut a, &mut third], "the refusal", |s| !s[1].reason(0).is_empty());
    assert!(third.reason(0).ends_with("interface id 0 is already connected"), "{}", third.reason(0));
    assert!(a.state(0).connected, "the first client keeps the interface");
    let mut fourth = Side::new(&place.socket());
    let taken = fourth.sockets.open(&config(1, Role::Server), &fourth.pool).err().unwrap().to_string();
    assert!(taken.contains(" is taken: another program listens on it"), "{taken}");
}

#[test]
fn a_worker_that_sleeps_is_woken() {
    let place = Place::new("sleep");
    let (mut a, mut b) = (Side::new(&place.socket()), Side::new(&place.socket()));
    let pool = Pool::new(4096).unwrap();
    let mut cache = pool.cache();
    let mut ends = [a.open(&config(0, Role::Server)), b.open(&config(0, Role::Client))];
    until(&mut [&mut a, &mut b], "the connection", connected);
    let readable = |d: &Device| wait::any(&[d.rx[0].fd().unwrap()], Duration::ZERO).unwrap();
    for _ in 0..4 {
        ends.swap(0, 1);
        let [from, to] = &mut ends;
        assert!(receive(to, 0, &mut cache).is_empty());
        assert!(!readable(to));
        // A polling side gets no signal.
        send(from, 0, &mut cache, &[packet(1, 60)]).unwrap();
        assert!(!readable(to));
        assert!(!to.rx[0].before_sleep(), "a packet is waiting");
        assert_eq!(receive(to, 0, &mut cache).len(), 1);
        assert!(to.rx[0].before_sleep());
        send(from, 0, &mut cache, &[packet(2, 60)]).unwrap();
        assert!(readable(to));
        assert_eq!(receive(to, 0, &mut cache).len(), 1);
        assert!(!readable(to));
    }
}

/// Connects to `path` as an untrusted client. Returns the socket; `None` if the connection is refused.
fn stranger(path: &Path) -> Option<OwnedFd> {
    // SAFETY: plain system calls; the descriptor is new, and zeros are a valid address.
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK, 0);
        let fd = OwnedFd::from_raw_fd(fd);
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as _;
        for (to, from) in address.sun_path.iter_mut().zip(path.to_str().unwrap().bytes()) {
            *to = from as _;
        }
        let len = size_of_val(&address) as _;
        (libc::connect(fd.as_raw_fd(), (&raw const address).cast(), len) == 0).then_some(fd)
    }
}

fn say(fd: &OwnedFd, bytes: &[u8]) {
    // SAFETY: the bytes live through the call.
    unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
}

/// Sends bytes with a file.
fn pass(fd: &OwnedFd, bytes: &[u8], file: OwnedFd) {
    // SAFETY: the bytes, the message and its control part live through the call.
    unsafe {
        let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut control = [0u64; 3];
        let head = control.as_mut_ptr().cast::<libc::cmsghdr>();
        (*head).cmsg_len = 20;
        ((*head).cmsg_level, (*head).cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        libc::CMSG_DATA(head).cast::<i32>().write_unaligned(file.as_raw_fd());
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), 24);
        assert_eq!(libc::sendmsg(fd.as_raw_fd(), &message, libc::MSG_NOSIGNAL), bytes.len() as isize);
    }
}

/// Returns a file whose last close blocks for a minute, and a stream that ends the wait when dropped.
fn slow_to_close() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (reader, _) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    while (&stream).write(&[0; 65_536]).is_ok() {}
    let linger = libc::linger { l_onoff: 1, l_linger: 60 };
    let len = size_of_val(&linger) as libc::socklen_t;
    let at = (&raw const linger).cast();
    // SAFETY: the option lives through the call.
    let set = unsafe { libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, at, len) };
    assert_eq!(set, 0);
    stream.set_nonblocking(false).unwrap();
    (stream.into(), reader)
}

/// Returns an ADD_REGION message, which may carry a file.
fn add_region() -> [u8; 128] {
    let mut bytes = [0; 128];
    bytes[0] = 4;
    bytes
}

#[test]
fn a_file_whose_close_hangs_does_not_block_others() {
    let place = Place::new("hang");
    let (mut a, mut b) = (Side::new(&place.socket()), Side::new(&place.socket()));
    let _server = a.open(&config(0, Role::Server));
    let begun = Instant::now();
    let mut readers = Vec::new();
    let mut rude = Vec::new();
    // Files before the secret and with any message; a client that reads nothing, and one that disconnects at once.
    for n in 0..6u8 {
        let Some(fd) = stranger(&place.socket()) else { panic!("the listener is full") };
        let (file, reader) = slow_to_close();
        readers.push(reader);
        match n % 3 {
            0 => pass(&fd, &add_region(), file),
            1 => pass(&fd, &[n; 128], file),
            _ => pass(&fd, b"short", file),
        }
        if n < 3 {
            rude.push(fd);
        }
        a.turn();
    }
    let _client = b.open(&config(0, Role::Client));
    until(&mut [&mut a, &mut b], "the connection of an honest client", connected);
    assert!(begun.elapsed() < Duration::from_secs(10), "no side waited");
    // The threads do not wait either: the kernel closes this kind of file at once when its thread ends.
    until(&mut [&mut a, &mut b], "the end of the threads", |s| s[0].sockets.sockets()[0].lingering == 0);
    assert!(connected(&[&mut a, &mut b]));
    drop((readers, rude));
}

#[test]
fn silent_strangers_are_disconnected_for_others() {
    let place = Place::new("silent");
    let (mut a, mut b) = (Side::new(&place.socket()), Side::new(&place.socket()));
    let _server = a.open(&config(0, Role::Server));
    let mut silent = Vec::new();
    until(&mut [&mut a], "forty strangers", |_| {
        silent.extend(stranger(&place.socket()));
        silent.len() >= 40
    });
    let _client = b.open(&config(0, Role::Client));
    let before = a.now;
    until(&mut [&mut a, &mut b], "the connection", connected);
    assert!(a.now < before + 4_000_000_000, "it did not wait for the other clients' timeout");
}

#[test]
fn misbehaving_strangers_do_no_harm() {
    let place = Place::new("strangers");
    let (mut a, mut b) = (Side::new(&place.socket()), Side::new(&place.socket()));
    let _server = a.open(&config(0, Role::Server));
    let _client = b.open(&config(0, Role::Client));
    until(&mut [&mut a, &mut b], "the connection", connected);
    // Silent clients, garbage, short messages, and messages out of order.
    let silent: Vec<_> = (0..15).filter_map(|_| stranger(&place.socket())).collect();
    a.turn();
    let loud: Vec<_> = [0usize, 1, 127, 128].into_iter().filter_map(|_| stranger(&place.socket())).collect();
    a.turn();
    for (fd, len) in loud.iter().zip([1, 64, 128, 128]) {
        say(fd, &vec![len as u8; len]);
    }
    for _ in 0..10 {
        a.turn();
    }
    // Five seconds (5,000 turns) later there is room again.
    for _ in 0..5_100 {
        a.turn();
    }
    let mut third = Side::new(&place.socket());
    let _other = a.open(&config(1, Role::Server));
    let _late = third.open(&config(1, Role::Client));
    until(&mut [&mut a, &mut b, &mut third], "the connection", connected);
    drop((silent, loud));
    a.turn();
    assert!(a.state(0).connected && a.sockets.as_fd().as_raw_fd() >= 0);
}
