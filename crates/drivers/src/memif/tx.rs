//! The transmit queue: copies packets into the buffers of a ring to the peer.

use std::sync::Arc;

use buf::{Cache, FRAME_SIZE, Flags, Frame, Packet, TxCaps, TxQueue, Unsent};

use infra::clock::tsc;

use super::lending::Lending;
use super::patience::Ticks;
use super::region;
use super::ring::{Fault, NEXT, Place, Ring};
use super::shared::Shared;
use super::signal::{Pace, Signals};

/// A ring to send packets to.
pub(super) struct TxRing {
    pub(super) ring: Ring,
    /// The router's buffers lent to the peer, if packets are not copied.
    pub(super) lending: Option<Lending>,
    signals: Arc<Signals>,
    pace: Arc<Pace>,
    /// Ticks spent on signals since this counter was last reset.
    signaling: Ticks,
    /// True after a fault of the peer: nothing is sent any more.
    broken: bool,
    /// The empty buffers examined so far, from the next slot on.
    places: Vec<Place>,
}

// SAFETY: the addresses in `places` are those of the ring, and are written anew in each call.
unsafe impl Send for TxRing {}

/// The reason why a packet was not sent.
#[derive(Debug, PartialEq)]
pub(super) enum Stop {
    For(Unsent),
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}

impl TxRing {
    pub(super) fn new(
        ring: Ring,
        lending: Option<Lending>,
        signals: Arc<Signals>,
        pace: Arc<Pace>,
    ) -> TxRing {
        let most = usize::from(ring.memory().state().size).max(FRAME_SIZE);
        TxRing { ring, lending, signals, pace, signaling: 0, broken: false, places: Vec::with_capacity(most) }
    }

    /// Sends packets from the front of the frame: copies and frees them, or lends them to the peer. Returns the reason if packets are left.
    pub(super) fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Stop> {
        let Some(lending) = &mut self.lending else {
            let (sent, outcome) = self.copy(frame);
            frame.free_front(sent, cache);
            return outcome;
        };
        let (used, outcome) = lending.send(&mut self.ring, frame, cache);
        if used > 0 {
            self.signal()?;
        }
        outcome
    }

    /// Copies packets from the front of the frame into the ring. Returns the number sent, and the reason if packets are left.
    pub(super) fn copy(&mut self, frame: &mut Frame) -> (usize, Result<(), Stop>) {
        let free = match self.ring.available() {
            Ok(free) => free,
            Err(fault) => return (0, Err(fault.into())),
        };
        self.places.clear();
        // As many buffers as the packets need if each fits into one.
        if let Err(fault) = self.look_at(frame.len(), free) {
            return (0, Err(fault.into()));
        }
        let (mut sent, mut used) = (0, 0);
        let mut outcome = Ok(());
        for packet in frame.packets() {
            let bytes = packet.bytes();
            let (one, len) = (!packet.flags().any(Flags::CHAINED), bytes.len());
            match self.places.get(usize::from(used)) {
                Some(place) if one && len.wrapping_sub(1) < place.len as usize => {
                    let place = Place { len: len as u32, ..*place };
                    // SAFETY: the place had `place.len` bytes at least within a region that the ring keeps mapped; the
                    // packet's buffer is none of them.
                    unsafe { region::copy(bytes.as_ptr(), place.at.as_ptr(), len) };
                    self.ring.filled(used, place);
                    used += 1;
                }
                _ => match self.put_parts(&packet, used, free) {
                    Ok(parts) => used += parts,
                    Err(stop) => {
                        outcome = Err(stop);
                        break;
                    }
                },
            }
            sent += 1;
        }
        if used > 0 {
            self.ring.advance(used);
            self.ring.will_write(FRAME_SIZE as u16);
            if let Err(fault) = self.signal() {
                outcome = Err(fault.into());
            }
        }
        (sent, outcome)
    }

    /// Sends the next `most` packets, or as many as there is room for. Stops at a packet that is empty or does not fit into its buffer.
    /// Returns the number sent, or [`Unsent::Refused`] if no packet was sent although there was room.
    pub(super) fn send_ready<'a>(
        &mut self,
        most: usize,
        packets: impl Iterator<Item = &'a [u8]>,
    ) -> Result<usize, Stop> {
        let free = self.ring.available()?;
        self.places.clear();
        let n = self.look_at(most, free)?;
        let mut sent = 0;
        for (place, bytes) in self.places[..n].iter().zip(packets) {
            if bytes.len().wrapping_sub(1) >= place.len as usize {
                break;
            }
            // SAFETY: the place has room for so many bytes within a region that the ring keeps mapped; the packet lies
            // elsewhere.
            unsafe { region::copy(bytes.as_ptr(), place.at.as_ptr(), bytes.len()) };
            self.ring.filled(sent, Place { len: bytes.len() as u32, ..*place });
            sent += 1;
        }
        if sent == 0 {
            return if n == 0 || most == 0 { Ok(0) } else { Err(Stop::For(Unsent::Refused)) };
        }
        self.ring.advance(sent);
        self.signal()?;
        Ok(usize::from(sent))
    }

    /// Sends the peer a signal, if it wants one.
    fn signal(&mut self) -> Result<(), Fault> {
        if !self.ring.wants_signal() {
            return Ok(());
        }
        // The file was checked to be an event descriptor when the peer connected.
        let begun = tsc();
        let paced = self.pace.take(|| drop(self.signals.ring(self.ring.bell())));
        self.signaling += tsc().saturating_sub(begun);
        paced
    }

    /// Extends `places` to the first `n` empty buffers, or to all `free` ones if there are fewer. Returns the length of `places`.
    fn look_at(&mut self, n: usize, free: u16) -> Result<usize, Fault> {
        let (had, n) = (self.places.len() as u16, n.min(usize::from(free)) as u16);
        if had < n {
            self.ring.empty(had..n, &mut self.places)?;
        }
        Ok(self.places.len())
    }

    /// Copies a packet into as many buffers as it needs, from slot `from` on. Returns the number of buffers.
    #[cold]
    #[inline(never)]
    fn put_parts(&mut self, packet: &Packet<'_>, from: u16, free: u16) -> Result<u16, Stop> {
        let total = packet.total_len();
        if total == 0 {
            return Err(Stop::For(Unsent::Refused));
        }
        // All buffers are examined before the first descriptor is written, because writing a descriptor overwrites the size of its buffer.
        let (mut room, mut parts) = (0, 0);
        while room < total {
            let at = usize::from(from) + parts;
            if self.look_at(at + 1, free)? <= at {
                // The packet does not fit even into an empty ring.
                let never = from == 0 && free == self.ring.memory().state().size;
                return Err(Stop::For(if never { Unsent::Refused } else { Unsent::Full }));
            }
            room += self.places[at].len as usize;
            parts += 1;
        }
        let mut left = total;
        let (mut slot, mut done) = (from, 0);
        let last = from + parts as u16 - 1;
        for mut bytes in packet.segments() {
            while !bytes.is_empty() {
                let place = self.places[usize::from(slot)];
                let n = bytes.len().min(place.len as usize - done);
                let (now, after) = bytes.split_at(n);
                // SAFETY: done + n ≤ the room of the place, which lies within a region that the ring keeps mapped; the
                // packet's buffers are none of them.
                unsafe { region::copy(now.as_ptr(), place.at.as_ptr().add(done), n) };
                (bytes, done, left) = (after, done + n, left - n);
                if done == place.len as usize || left == 0 {
                    let flags = if slot == last { 0 } else { NEXT };
                    self.ring.filled(slot, Place { len: done as u32, flags, ..place });
                    (slot, done) = (slot + 1, 0);
                }
            }
        }
        Ok(parts as u16)
    }
}

/// A transmit queue. It gets its ring when a peer connects, and loses it when the peer disconnects. Queues without a
/// ring of their own share the existing rings.
pub(super) struct MemifTx {
    shared: Arc<Shared>,
    queue: usize,
}

impl MemifTx {
    pub(super) fn new(shared: Arc<Shared>, queue: usize) -> MemifTx {
        MemifTx { shared, queue }
    }
}

impl TxQueue for MemifTx {
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        let Some(port) = self.shared.tx_port(self.queue) else { return Err(Unsent::Down) };
        let mut port = port.lock().unwrap_or_else(|e| e.into_inner());
        let Some(ring) = port.as_mut().filter(|r| !r.broken) else { return Err(Unsent::Down) };
        let mut since = tsc();
        let sent = ring.send(frame, cache);
        // Time spent on signals is not time spent waiting for memory.
        since += std::mem::take(&mut ring.signaling);
        let looked = self.shared.patience.look(&mut since);
        sent.and(looked.map(drop).map_err(Stop::Fault)).map_err(|stop| match stop {
            Stop::For(unsent) => unsent,
            Stop::Fault(fault) => {
                ring.broken = true;
                self.shared.fail(fault);
                Unsent::Down
            }
        })
    }

    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }
}
