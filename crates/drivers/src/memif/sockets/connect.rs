//! The client's side: connects to servers and creates memory for them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use infra::mem::Promise;

use super::{AT_ONCE, ClientSide, Side, Sockets};
use crate::kernel::sys;
use crate::memif::bell::Bell;
use crate::memif::channel::{self, Channel, Means, Received};
use crate::memif::message::{Direction, Message};
use crate::memif::preparing::Preparing;
use crate::memif::region::{self, Region};
use crate::memif::ring::Ring;
use crate::memif::{Layout, client, former};

/// Memory that a client offers.
pub(super) struct Memory {
    layout: Layout,
    /// Size in bytes and file of each region.
    regions: Vec<(u64, Arc<OwnedFd>)>,
    /// The event descriptor of each ring, in the layout's order.
    bells: Vec<Arc<Bell>>,
    /// Receive rings and transmit rings, until the queues take them.
    rings: (Vec<Ring>, Vec<Ring>),
    /// The connection's number in [`Former`](former::Former); `None` if the server is trusted.
    watched: Option<u64>,
}

impl Sockets {
    pub(super) fn read_server(&mut self, key: (u32, u32)) {
        for _ in 0..AT_ONCE {
            let Some(Side::Client(c)) = self.interfaces.get(&key).map(|e| &e.side) else { return };
            let Some(channel) = &c.channel else { return };
            let event = match channel.receive() {
                Received::Message(m, _) => client::Event::Message(m),
                Received::Garbage(what) => client::Event::End(what),
                Received::Failed(e) => client::Event::Closed(self.unreachable(key.0, &e)),
                Received::Closed => client::Event::Closed("the server closed the connection".into()),
                Received::Begun => continue,
                Received::Nothing => return,
            };
            self.drive(key, event);
        }
        self.more = true;
    }

    /// Returns an error text: why the connection to the server of socket `id` failed.
    fn unreachable(&self, id: u32, e: &io::Error) -> String {
        let Some(at) = self.sockets.get(&id).map(|s| s.path.display()) else { return e.to_string() };
        match e.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                format!("no server listens on {at}")
            }
            _ => format!("cannot connect to {at}: {e}"),
        }
    }

    pub(super) fn drive(&mut self, key: (u32, u32), event: client::Event) {
        let now = self.now;
        let Some(Side::Client(c)) = self.interfaces.get_mut(&key).map(|e| &mut e.side) else { return };
        let actions = c.machine.handle(now, event);
        self.act(key, actions);
    }

    pub(super) fn act(&mut self, key: (u32, u32), actions: Vec<client::Action>) {
        for action in actions {
            let Some(entry) = self.interfaces.get_mut(&key) else { return };
            let Side::Client(c) = &mut entry.side else { return };
            let failed = match action {
                client::Action::Connect => {
                    let Some(socket) = self.sockets.get(&key.0) else { return };
                    let means =
                        self.signals.clone().map(|signals| Means { bell: self.bell.clone(), signals });
                    let Some(means) = means else { return };
                    match Channel::connect(&socket.path, &means, &socket.crew) {
                        Ok(channel) => {
                            c.channel = Some(channel);
                            None
                        }
                        Err(e) => Some(client::Event::Closed(self.unreachable(key.0, &e))),
                    }
                }
                client::Action::Make(layout) => match self.make(key, layout) {
                    Ok(()) => None,
                    Err(e) => Some(client::Event::End(format!("cannot create the memory: {e}"))),
                },
                client::Action::Send(message) => {
                    let file = c.memory.as_ref().and_then(|m| m.file(&message));
                    match &c.channel {
                        Some(channel) => channel
                            .send(&message, file.as_ref().map(|file| file.as_fd()))
                            .err()
                            .map(|e| client::Event::Closed(format!("the connection broke: {e}"))),
                        None => None,
                    }
                }
                client::Action::Attach(peer, interface) => {
                    // The server has mapped the memory by now. The rings are in the first region.
                    let (Some(memory), Some(socket)) = (&c.memory, self.sockets.get(&key.0)) else { return };
                    let Some((_, file)) = memory.regions.first() else { return };
                    // A trusted server may use the memory as it likes.
                    let how = if memory.watched.is_some() { region::seal_filled } else { region::seal };
                    let seal = move |files: &[BorrowedFd<'_>]| files.iter().try_for_each(|file| how(*file));
                    match Preparing::begin(&socket.crew, &self.bell, &[file.as_fd()], self.now, seal) {
                        Ok(sealing) => {
                            c.sealing = Some((sealing, peer, interface));
                            None
                        }
                        Err(e) => Some(client::Event::End(format!("cannot seal the memory: {e}"))),
                    }
                }
                client::Action::Close(why) => {
                    (c.channel, c.memory, c.filling, c.sealing) = (None, None, None, None);
                    let lent = entry.disconnected(why);
                    self.resting.push((None, lent));
                    None
                }
            };
            if let Some(event) = failed {
                return self.drive(key, event);
            }
        }
    }
}

impl Sockets {
    /// Creates a client's memory, and starts to allocate its pages.
    fn make(&mut self, key: (u32, u32), layout: Layout) -> Result<(), String> {
        let gone = || "the interface was deleted".to_string();
        let (entry, socket) = self.interfaces.get_mut(&key).zip(self.sockets.get(&key.0)).ok_or_else(gone)?;
        let Side::Client(c) = &mut entry.side else { return Err(gone()) };
        // A trusted server may use all memory as it likes, including the pool's.
        let trusted = entry.shared.config.trusted;
        if !trusted {
            self.former.check(key, former::OF_CLIENT)?;
        }
        let mut memory = make(layout, c).map_err(|e| e.to_string())?;
        let (Some(own), Some(channel)) = (memory.own(), &c.channel) else { return Err(gone()) };
        let watched = match trusted {
            true => None,
            false => Some(self.former.begin(key, &[own], channel.release(), former::OF_CLIENT)?),
        };
        let len = memory.regions.first().map_or(0, |(len, _)| *len);
        let account = socket.account.clone();
        let fill = move |files: &[BorrowedFd<'_>]| {
            // This thread keeps the reservation while it allocates pages, even if the connection has ended.
            let promise = if trusted { Promise::of(len) } else { Promise::to_stranger(len, &account) };
            let promise = promise.map_err(|e| e.to_string())?;
            files.iter().try_for_each(|file| region::fill(*file)).map_err(|e| e.to_string())?;
            Ok(Some(promise).filter(Promise::is_blind).map(Arc::new))
        };
        let filling = Preparing::begin(&socket.crew, &self.bell, &[own], self.now, fill);
        let filling = filling.map_err(|e| e.to_string())?;
        memory.watched = watched;
        (c.memory, c.filling) = (Some(memory), Some(filling));
        Ok(())
    }

    /// Offers the memory to the server, if its pages are allocated by now.
    pub(super) fn look_at_filled(&mut self, key: (u32, u32)) {
        let now = self.now;
        let Some(Side::Client(c)) = self.interfaces.get_mut(&key).map(|e| &mut e.side) else { return };
        let Some(filled) = c.filling.as_ref().and_then(|filling| filling.poll(now)) else { return };
        c.filling = None;
        let Some(memory) = &c.memory else { return };
        let sizes = memory.regions.iter().map(|(len, _)| *len).collect();
        let offered = filled.map_err(|e| format!("cannot allocate the memory: {e}")).and_then(|promise| {
            let (Some(watched), Some(own)) = (memory.watched, memory.own()) else { return Ok(()) };
            promise.into_iter().for_each(|promise| self.former.keep(watched, promise, false));
            self.former.watch_changes(watched, own)
        });
        let event = offered.map_or_else(client::Event::End, |()| client::Event::Made(sizes));
        self.drive(key, event);
    }

    /// Starts to pass packets, if the memory is sealed by now, so that the server cannot remove pages from it. Ends the connection if the
    /// server has changed the memory by a system call before.
    pub(super) fn look_at_sealed(&mut self, key: (u32, u32)) {
        let now = self.now;
        let Some(entry) = self.interfaces.get_mut(&key) else { return };
        let Side::Client(c) = &mut entry.side else { return };
        let Some(sealed) = c.sealing.as_ref().and_then(|(sealing, ..)| sealing.poll(now)) else { return };
        let (Some((_, peer, interface)), Some(signals)) = (c.sealing.take(), &self.signals) else { return };
        let Some(memory) = &mut c.memory else { return };
        // Pages cannot be removed any more.
        if memory.watched.is_some_and(|watched| self.former.is_changed(watched)) {
            let why = "the peer has removed pages of the memory, or written to it by a system call";
            return self.drive(key, client::Event::End(why.into()));
        }
        let sizes = memory.regions.iter().map(|(len, _)| *len).collect();
        let (rx, tx) = std::mem::take(&mut memory.rings);
        match sealed.and_then(|()| entry.shared.attach(rx, tx, signals, c.pool.as_ref())) {
            Ok(()) => entry.connected(now, peer, interface, sizes),
            Err(why) => self.drive(key, client::Event::End(why)),
        }
    }
}

impl Memory {
    /// Returns the file that was created for this connection; never the file of a pool, because all clients share
    /// it.
    fn own(&self) -> Option<BorrowedFd<'_>> {
        self.regions.first().map(|(_, file)| file.as_fd())
    }

    /// Returns the file to send with a message.
    fn file(&self, message: &Message) -> Option<Arc<dyn AsFd + Send + Sync>> {
        match message {
            Message::AddRegion { index, .. } => {
                self.regions.get(usize::from(*index)).map(|(_, file)| file.clone() as _)
            }
            Message::AddRing(r) => {
                self.bells.get(self.layout.place(r.direction, r.index)).map(|bell| bell.clone() as _)
            }
            _ => None,
        }
    }
}

/// Creates a client's memory with its rings, which are complete before the server sees them. If the client lends
/// buffers, its pool's memory is another region.
fn make(layout: Layout, client: &ClientSide) -> io::Result<Memory> {
    let (pool, channel) = (client.pool.as_ref(), client.channel.as_ref().ok_or(io::ErrorKind::NotConnected)?);
    let len = if pool.is_some() { layout.rings_len() } else { layout.len() };
    let (region, file) = Region::create(channel::MEMORY_NAME, len)?;
    let mut regions = vec![(len as u64, Arc::new(file))];
    let mapped: Arc<[Region]> = [region].into();
    if let Some(pool) = pool {
        regions.push((pool.window().len() as u64, Arc::new(pool.file()?)));
    }
    let bell = |_| Ok(Arc::new(channel.bell(sys::eventfd()?)));
    let bells: Vec<_> = layout.rings().map(bell).collect::<io::Result<_>>()?;
    let mut rings = (Vec::new(), Vec::new());
    let ring = if pool.is_some() { Ring::lending } else { Ring::own };
    for ((direction, number, _), bell) in layout.rings().zip(&bells) {
        let ring = ring(mapped.clone(), &layout, direction, number, bell.clone());
        let ring = ring.ok_or_else(|| io::Error::other("the rings do not fit into the memory"))?;
        match direction {
            Direction::ToClient => rings.0.push(ring),
            Direction::ToServer => rings.1.push(ring),
        }
    }
    Ok(Memory { layout, regions, bells, rings, watched: None })
}
