//! The transmit queue: the kernel reads packets from the router's buffers and reports later which ones it has read.

use std::sync::Arc;

use buf::layout::DATA_ROOM;
use buf::{Cache, Frame, Held, Lent, Packet, TxCaps, TxQueue, Unsent};
use libc::xdp_desc;

use super::ring::Ring;
use super::{PLACE, Socket};
use crate::kernel::netdev::Netdev;

/// Maximum number of system calls per frame. The kernel sends a limited number of packets per call.
const CALLS: u32 = 64;

pub(super) struct XdpTx {
    pub(super) ring: Ring<xdp_desc>,
    pub(super) completion: Ring<u64>,
    pub(super) socket: Arc<Socket>,
    pub(super) dev: Arc<Netdev>,
    /// Buffers lent to the kernel; `None` once the queue is dropped.
    pub(super) lent: Option<Lent>,
}

impl Drop for XdpTx {
    fn drop(&mut self) {
        self.socket.outlive(self.lent.take());
    }
}

/// Returns the kernel's descriptor of a packet.
#[inline]
fn descriptor(place: usize, offset: u16, len: u16) -> xdp_desc {
    xdp_desc { addr: place as u64 | u64::from(offset) << 48, len: len.into(), options: 0 }
}

/// Copies a packet into one buffer of the pool's window, the memory that the kernel has mapped. So the copy can be lent to the kernel.
/// Returns the copy.
///
/// # Errors
/// If the packet is empty or too large for one buffer, or no buffer of the window is free.
fn copied(packet: &Packet<'_>, lent: &Lent, cache: &mut Cache) -> Result<Held, Unsent> {
    if packet.total_len().wrapping_sub(1) >= DATA_ROOM {
        return Err(Unsent::Refused);
    }
    let mut copy = lent.alloc(cache).ok_or(Unsent::Full)?;
    let (mut to, mut at) = (copy.packet(), 0);
    for segment in packet.segments() {
        let Some(room) = to.room_mut().get_mut(at..at + segment.len()) else { break };
        room.copy_from_slice(segment);
        at += segment.len();
    }
    to.set_len(at);
    Ok(copy)
}

/// Copies packets from the front of the frame, and puts the copies into the ring, at most `room`. Stops at the first packet that can be
/// lent without a copy. A packet needs a copy if it has several buffers, an empty first buffer, or a buffer that was added to the pool
/// after the kernel mapped the pool. Returns the number of copies.
///
/// # Errors
/// If the next packet could not be copied.
#[cold]
fn put_copies(
    ring: &mut Ring<xdp_desc>,
    lent: &mut Lent,
    (frame, room): (&mut Frame, usize),
    cache: &mut Cache,
) -> (isize, Result<(), Unsent>) {
    let (mut copies, mut outcome) = (Frame::new(), Ok(()));
    while copies.len() < room && frame.snapshot(copies.len()).is_some_and(|p| !lent.takes(&p) || p.len == 0) {
        let Some(packet) = frame.get(copies.len()) else { break };
        match copied(&packet, lent, cache) {
            // An empty frame has room for all packets of another frame.
            Ok(copy) => drop(copies.push(copy)),
            Err(why) => {
                outcome = Err(why);
                break;
            }
        }
    }
    frame.free_front(copies.len(), cache);
    let given =
        lent.lend_front(&mut copies, room, |place, offset, len| ring.put(descriptor(place, offset, len)));
    copies.free(cache);
    (given as isize, outcome)
}

impl XdpTx {
    /// Frees the buffers of sent packets.
    fn reap(&mut self, cache: &mut Cache) {
        let Some(lent) = &mut self.lent else { return };
        let n = self.completion.ready(u32::MAX);
        let mut freed = 0;
        for _ in 0..n {
            let place = self.completion.take().map_or(usize::MAX, |addr| (addr & PLACE) as usize);
            if let Some(held) = lent.back(place) {
                held.free(cache);
                freed += 1;
            }
        }
        if n > 0 {
            self.completion.release();
            cache.note_kept(-freed);
        }
    }

    /// Moves packets, or copies of them, from the front of the frame into the ring while there is room.
    fn fill(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        let Some(lent) = &mut self.lent else { return Err(Unsent::Gone) };
        let (ring, mut given) = (&mut self.ring, 0);
        let outcome = loop {
            let room = ring.room(frame.len() as u32) as usize;
            let fit = lent.lend_front(frame, room, |place, offset, len| {
                ring.put(descriptor(place, offset, len));
            });
            given += fit as isize;
            if frame.is_empty() {
                break Ok(());
            }
            if fit == room {
                break Err(Unsent::Full);
            }
            let (copies, outcome) = put_copies(ring, lent, (frame, room - fit), cache);
            given += copies;
            if outcome.is_err() {
                break outcome;
            }
        };
        ring.submit();
        cache.note_kept(given);
        outcome
    }

    /// Makes the kernel send the packets in the ring.
    fn kick(&mut self, cache: &mut Cache) -> Result<(), Unsent> {
        for _ in 0..CALLS {
            if self.ring.waiting() == 0 || !self.ring.needs_wakeup() {
                break;
            }
            let said = self.socket.wake_sender();
            self.reap(cache);
            match said.map_err(|e| e.raw_os_error()) {
                // The kernel sent some packets and needs another call.
                Ok(()) | Err(Some(libc::EAGAIN | libc::EINTR)) => {}
                // The interface's queue is full: the packets in the ring go out with the next frame.
                Err(Some(libc::ENOBUFS | libc::EBUSY)) => break,
                Err(_) => return Err(self.why()),
            }
        }
        Ok(())
    }

    #[cold]
    fn why(&self) -> Unsent {
        match self.dev.flags() {
            Ok(flags) if flags & libc::IFF_RUNNING != 0 => Unsent::Full,
            Ok(_) => Unsent::Down,
            Err(_) => Unsent::Gone,
        }
    }
}

impl TxQueue for XdpTx {
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        self.reap(cache);
        loop {
            let before = frame.len();
            let filled = self.fill(frame, cache);
            let kicked = self.kick(cache);
            match filled {
                Ok(()) => return Ok(()),
                // The ring may have room now.
                Err(Unsent::Full) if frame.len() < before && kicked.is_ok() => {}
                Err(why) => return Err(kicked.err().unwrap_or(why)),
            }
        }
    }

    fn caps(&self) -> TxCaps {
        TxCaps { gso: false, csum: false }
    }
}
