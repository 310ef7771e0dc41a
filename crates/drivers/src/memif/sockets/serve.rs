//! The server's side: accepts clients and attaches their regions and rings.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::{AT_ONCE, Entry, Prepared, ServerConnection, Side, Sockets};
use crate::memif::channel::{Channel, File, Received};
use crate::memif::former;
use crate::memif::message::Direction;
use crate::memif::preparing::Preparing;
use crate::memif::region::{self, Region};
use crate::memif::ring::Ring;
use crate::memif::server::{self, Listed, Plan, Server};
use crate::memif::{SECOND, Secret};

/// Number of a socket's clients without an interface at which the oldest of them can be evicted to make room for another.
const MOST_STRANGERS: usize = 16;
/// Nanoseconds that a client has to ask for an interface before it can be evicted for another client.
const TIME_TO_SPEAK: u64 = SECOND / 10;
/// Number of hanging threads of disconnected peers at which a socket accepts no more clients.
const MOST_LINGERING: usize = 64;
/// Nanoseconds for which no client is accepted after an attempt to accept one has failed.
const PAUSE: u64 = SECOND;

/// Returns the nanoseconds for which no new client is accepted after clients have left `bytes` of memory: 1 s per GiB, at most 4 s. When
/// the router closes the last file, the kernel frees that memory, which costs this router 0.1 s per GiB.
fn to_free(bytes: u64) -> u64 {
    (bytes.min(4 << 30) * (SECOND >> 10)) >> 20
}

impl Sockets {
    /// Accepts the clients that have connected to a socket.
    pub(super) fn accept(&mut self, id: u32) {
        for _ in 0..AT_ONCE {
            let Some(channel) = self.next_client(id).unwrap_or_else(|e| self.pause(id, &e)) else { return };
            self.make_room(id);
            let number = self.next_number;
            self.next_number += 1;
            let (machine, actions) = Server::new(self.now);
            let since = self.now;
            self.connections.insert(
                number,
                ServerConnection { socket: id, channel, machine, interface: None, prepared: None, since },
            );
            self.act_for_client(number, actions);
        }
        self.more = true;
    }

    /// Returns the next client of a socket, if one has connected. Also starts a thread that waits for the following client, unless too
    /// many threads hang or the socket pauses.
    fn next_client(&mut self, id: u32) -> io::Result<Option<Channel>> {
        let (means, lingering) = (self.means(), self.lingering(id));
        let Some((socket, means)) = self.sockets.get_mut(&id).zip(means) else { return Ok(None) };
        let Some(listener) = &socket.listener else { return Ok(None) };
        let mut come = None;
        if let Some(next) = &socket.next {
            come = match next.receive() {
                Received::Nothing => return Ok(None),
                Received::Begun => socket.next.take(),
                other => {
                    socket.next = None;
                    let Received::Failed(e) = other else { return Err(io::ErrorKind::BrokenPipe.into()) };
                    return Err(e);
                }
            };
        }
        socket.pause = socket.pause.max(self.now + to_free(socket.freed.take()));
        if socket.next.is_none() && self.now >= socket.pause {
            let hangs = || {
                io::Error::other(
                    "too many threads hang while the kernel closes file descriptors of former peers",
                )
            };
            let next = match lingering {
                MOST_LINGERING.. => Err(hangs()),
                _ => Channel::accept(listener, &means, &socket.crew, &socket.freed),
            };
            match next {
                Ok(next) => socket.next = Some(next),
                Err(e) => drop(self.pause(id, &e)),
            }
        }
        Ok(come)
    }

    /// If at least [`MOST_STRANGERS`] clients of the socket have no interface yet, evicts the oldest of them. It is not evicted within its
    /// first [`TIME_TO_SPEAK`], unless there are at least four times as many such clients.
    fn make_room(&mut self, id: u32) {
        let strangers = self.connections.iter().filter(|(_, c)| c.socket == id && c.interface.is_none());
        let oldest = strangers.clone().map(|(number, c)| (*number, c.since)).next();
        let count = strangers.count();
        let Some((number, since)) = oldest.filter(|_| count >= MOST_STRANGERS) else { return };
        if self.now >= since + TIME_TO_SPEAK || count >= 4 * MOST_STRANGERS {
            self.serve(
                number,
                server::Event::End("evicted: no INIT received, and other clients are waiting".into()),
            );
        }
    }

    /// Stops accepting clients for [`PAUSE`] after the error `why`. Most likely, descriptors or threads have run out. Always returns
    /// `None`.
    fn pause(&mut self, id: u32, why: &io::Error) -> Option<Channel> {
        let now = self.now;
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.pause = now + PAUSE;
            let why = format!("cannot accept clients: {why}");
            if socket.refusals.is_news(now, &why) {
                tracing::warn!("memif socket {}: {why}", socket.path.display());
            }
        }
        None
    }

    /// Logs that a client without an interface was refused, unless a refusal for the same reason was logged before.
    fn refused(&mut self, id: u32, why: &str) {
        let now = self.now;
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        if socket.refusals.is_news(now, why) {
            tracing::warn!("memif socket {}: a client was refused: {why}", socket.path.display());
        }
    }

    /// Forgets the logged refusals, so that all refusals are logged again.
    pub(super) fn forget_refusals(&mut self, id: u32) {
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.refusals.forget();
        }
    }

    pub(super) fn read_client(&mut self, number: u64) {
        for _ in 0..AT_ONCE {
            let Some(c) = self.connections.get(&number) else { return };
            let event = match c.channel.receive() {
                Received::Message(m, file) => server::Event::Message(m, file),
                Received::Garbage(what) => server::Event::End(what),
                Received::Closed | Received::Failed(_) => server::Event::Closed,
                Received::Begun => continue,
                Received::Nothing => return,
            };
            self.serve(number, event);
        }
        self.more = true;
    }

    pub(super) fn serve(&mut self, number: u64, event: server::Event<File>) {
        let Some(c) = self.connections.get_mut(&number) else { return };
        let (socket, own) = (c.socket, c.interface);
        let (interfaces, now) = (&self.interfaces, self.now);
        let listed = |id| {
            let entry = interfaces.get(&(socket, id))?;
            let Side::Server(connection) = &entry.side else { return None };
            let config = &entry.shared.config;
            Some(Listed {
                up: entry.shared.is_up(),
                barred: now < entry.barred_until,
                taken: connection.is_some() && own != Some((socket, id)),
                secret: config.secret.as_ref().map(Secret::bytes),
                trusted: config.trusted,
                name: config.name(),
            })
        };
        let actions = c.machine.handle(event, listed);
        self.act_for_client(number, actions);
    }

    pub(super) fn act_for_client(&mut self, number: u64, actions: Vec<server::Action<File>>) {
        let mut actions = actions.into_iter();
        while let Some(action) = actions.next() {
            let Some(c) = self.connections.get_mut(&number) else { return };
            let done = match action {
                server::Action::Send(message) => match c.channel.send(&message, None) {
                    Ok(()) => Ok(()),
                    Err(_) => return self.serve(number, server::Event::Closed),
                },
                server::Action::Claim(id) => {
                    let key = (c.socket, id);
                    c.interface = Some(key);
                    if let Some(entry) = self.interfaces.get_mut(&key) {
                        entry.side = Side::Server(Some(number));
                    }
                    Ok(())
                }
                server::Action::Attach(plan) => match self.prepare_client(number, &plan) {
                    Ok((regions, watched)) => {
                        let after = actions.collect();
                        if let Some(c) = self.connections.get_mut(&number) {
                            c.prepared = Some(Prepared { regions, watched, plan, after });
                        }
                        return;
                    }
                    Err(why) => Err(why),
                },
                server::Action::Close(why) => {
                    self.close_client(number, why);
                    return;
                }
            };
            if let Err(why) = done {
                return self.serve(number, server::Event::End(why));
            }
        }
    }

    /// Starts mapping a client's regions. Also returns the connection's number in [`former::Former`], or `None` if the client is trusted.
    fn prepare_client(
        &mut self,
        number: u64,
        plan: &Plan<File>,
    ) -> Result<(Preparing<Vec<Region>>, Option<u64>), String> {
        let gone = || "the interface was deleted".to_string();
        let c = self.connections.get(&number).ok_or_else(gone)?;
        let key = c.interface.ok_or_else(gone)?;
        let entry = self.interfaces.get(&key).ok_or_else(gone)?;
        let socket = self.sockets.get(&c.socket).ok_or_else(gone)?;
        let trusted = entry.shared.config.trusted;
        let (mut files, mut sizes, mut total) = (Vec::new(), Vec::new(), 0u64);
        for (i, (size, file)) in plan.regions.iter().enumerate() {
            total = total.saturating_add(*size);
            if !trusted && total > region::MOST {
                return Err(format!("the regions together have more than {} bytes", region::MOST));
            }
            let File::Memory(file) = file else { return Err(format!("region {i} is not shared memory")) };
            files.push(file.as_fd());
            sizes.push(*size);
        }
        let watched = match trusted {
            true => None,
            false => Some(self.former.begin(key, &files, c.channel.release(), former::OF_SERVER)?),
        };
        let account = socket.account.clone();
        let map = move |files: &[BorrowedFd<'_>]| {
            let region = |(i, (file, size)): (usize, (&BorrowedFd<'_>, u64))| {
                let region = Region::of_peer(*file, size, (!trusted).then_some(&account));
                region.map_err(|e| format!("region {i} is unusable: {e}"))
            };
            files.iter().zip(sizes).enumerate().map(region).collect()
        };
        let preparing = Preparing::begin(&socket.crew, &self.bell, &files, self.now, map);
        let preparing = preparing.map_err(|e| format!("cannot map the client's memory: {e}"))?;
        Ok((preparing, watched))
    }

    /// Attaches a client's rings once its memory is mapped.
    pub(super) fn look_at_prepared(&mut self, number: u64) {
        let now = self.now;
        let Some(c) = self.connections.get_mut(&number) else { return };
        let Some(mapped) = c.prepared.as_ref().and_then(|prepared| prepared.regions.poll(now)) else {
            return;
        };
        let Some(Prepared { plan, after, watched, .. }) = c.prepared.take() else { return };
        match (watched, &mapped) {
            (Some(watched), Ok(regions)) => self.keep_promises(watched, regions),
            // The router has touched no page: the client may offer the memory again.
            (Some(watched), Err(_)) => self.former.forget(watched),
            (None, _) => {}
        }
        match mapped.and_then(|regions| self.attach_client(number, plan, regions)) {
            Ok(()) => self.act_for_client(number, after),
            Err(why) => self.serve(number, server::Event::End(why)),
        }
    }

    /// Keeps the reservations for a client's memory until the client releases it. If the client has allocated all pages itself, the kernel
    /// charges them to the client, and nothing is reserved.
    fn keep_promises(&mut self, watched: u64, regions: &[Region]) {
        let promises = || regions.iter().filter_map(Region::promise);
        match promises().all(|promise| promise.bytes() == 0) {
            true => self.former.forget(watched),
            false => promises().for_each(|promise| self.former.keep(watched, promise, true)),
        }
    }

    fn attach_client(&mut self, number: u64, plan: Plan<File>, regions: Vec<Region>) -> Result<(), String> {
        let entry = self.connections.get(&number).and_then(|c| c.interface);
        let entry = entry.and_then(|key| self.interfaces.get_mut(&key)).ok_or("the interface was deleted")?;
        let signals = self.signals.as_ref().ok_or("the interface was deleted")?;
        let sizes = plan.regions.iter().map(|(size, _)| *size).collect();
        let regions: Arc<[Region]> = regions.into();
        let rings = |planned: Vec<server::PlannedRing<File>>, direction| {
            let ring = |r: server::PlannedRing<File>| {
                let place = (r.region, r.offset, r.log2_size);
                let File::Bell(bell) = r.bell else {
                    return Err("a ring has no eventfd".into());
                };
                Ring::of_peer(regions.clone(), place, direction, Arc::new(bell))
            };
            planned.into_iter().map(ring).collect::<Result<Vec<_>, _>>()
        };
        let rx = rings(plan.to_server, Direction::ToServer)?;
        let tx = rings(plan.to_client, Direction::ToClient)?;
        entry.shared.attach(rx, tx, signals, None)?;
        entry.connected(self.now, plan.peer, plan.peer_interface, sizes);
        Ok(())
    }

    fn close_client(&mut self, number: u64, why: String) {
        let Some(c) = self.connections.remove(&number) else { return };
        match c.interface.and_then(|key| self.interfaces.get_mut(&key)) {
            Some(entry) => {
                entry.side = Side::Server(None);
                // A server lends nothing.
                drop(entry.disconnected(why));
            }
            None => {
                let asked = c.machine.asked().and_then(|id| self.interfaces.get_mut(&(c.socket, id)));
                // Shows the reason on the interface while it has no client. A fault of the last client stays shown
                // while the interface is blocked.
                let now = self.now;
                let idle = |e: &&mut Entry| matches!(e.side, Side::Server(None)) && now >= e.barred_until;
                if let Some(entry) = asked.filter(idle) {
                    entry.reason = Some(format!("a client was refused: {why}"));
                }
                self.refused(c.socket, &why);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_after_a_client_depends_on_its_memory() {
        assert_eq!(to_free(0), 0);
        assert!((3_000_000..5_000_000).contains(&to_free(4 << 20)), "an honest client takes milliseconds");
        assert!((SECOND * 99 / 100..=SECOND).contains(&to_free(1 << 30)));
        assert_eq!(to_free(u64::MAX), to_free(4 << 30));
    }
}
