//! The transmit queue: the kernel reads packets out of the router's buffers, and says later which it has read.

use std::sync::Arc;

use buf::layout::DATA_ROOM;
use buf::{Cache, Frame, Held, Lent, TxCaps, TxQueue, Unsent};
use libc::xdp_desc;

use super::ring::Ring;
use super::{PLACE, Socket};
use crate::kernel::netdev::Netdev;

/// System calls for one frame, at most. The kernel sends only some packets a call.
const CALLS: u32 = 64;

pub(super) struct XdpTx {
    pub(super) ring: Ring<xdp_desc>,
    pub(super) completion: Ring<u64>,
    pub(super) socket: Arc<Socket>,
    pub(super) dev: Arc<Netdev>,
    /// The buffers that the kernel has; `None` once the queue is given up.
    pub(super) lent: Option<Lent>,
}

impl Drop for XdpTx {
    fn drop(&mut self) {
        self.socket.outlive(self.lent.take());
    }
}

/// Puts a packet into the ring, which has room. One that cannot be lent is freed: it was looked at before.
fn put(ring: &mut Ring<xdp_desc>, lent: &mut Lent, held: Held, cache: &mut Cache) -> isize {
    let packet = held.snapshot();
    match lent.lend(held) {
        Ok(place) => {
            let addr = place as u64 | u64::from(packet.offset) << 48;
            ring.put(xdp_desc { addr, len: packet.len.into(), options: 0 });
            1
        }
        Err(held) => {
            held.free(cache);
            0
        }
    }
}

/// A copy, in one buffer, of the first packet; `None` when it is too large, or no buffer is free.
#[cold]
fn joined(frame: &mut Frame, cache: &mut Cache) -> Option<Held> {
    let first = frame.get(0)?;
    if first.total_len() > DATA_ROOM {
        return None;
    }
    let mut copy = Held::alloc(cache)?;
    let (mut packet, mut at) = (copy.packet(), 0);
    for segment in first.segments() {
        packet.room_mut().get_mut(at..at + segment.len())?.copy_from_slice(segment);
        at += segment.len();
    }
    packet.set_len(at);
    Some(copy)
}

impl XdpTx {
    /// Frees what was sent.
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

    /// Moves packets from the front of the frame into the ring, as far as there is room and they can be lent.
    fn fill(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        let Some(lent) = &mut self.lent else { return Err(Unsent::Gone) };
        let room = self.ring.room(frame.len() as u32) as usize;
        let fit = (0..room).take_while(|i| frame.snapshot(*i).is_some_and(|p| lent.takes(&p))).count();
        let mut given = 0;
        let ring = &mut self.ring;
        frame.drain_front(fit, |held| given += put(ring, lent, held, cache));
        let outcome = if frame.is_empty() {
            Ok(())
        } else if fit == room {
            Err(Unsent::Full)
        } else if let Some(copy) = joined(frame, cache) {
            match lent.takes(&copy.snapshot()) {
                true => {
                    frame.free_front(1, cache);
                    given += put(ring, lent, copy, cache);
                    Ok(())
                }
                false => {
                    copy.free(cache);
                    Err(Unsent::Refused)
                }
            }
        } else {
            Err(Unsent::Refused)
        };
        self.ring.submit();
        cache.note_kept(given);
        outcome
    }

    /// Has the kernel send what is in the ring.
    fn kick(&mut self, cache: &mut Cache) -> Result<(), Unsent> {
        for _ in 0..CALLS {
            if self.ring.waiting() == 0 || !self.ring.needs_wakeup() {
                break;
            }
            let said = self.socket.wake_sender();
            self.reap(cache);
            match said.map_err(|e| e.raw_os_error()) {
                // It has sent some, and wants to be asked again.
                Ok(()) | Err(Some(libc::EAGAIN | libc::EINTR)) => {}
                // The queue behind it is full: what is in the ring goes with the next frame.
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
                _ if frame.is_empty() => return Ok(()),
                // One had to be copied; the others follow. Or there is room now.
                Ok(()) => {}
                Err(Unsent::Full) if frame.len() < before && kicked.is_ok() => {}
                Err(why) => return Err(kicked.err().unwrap_or(why)),
            }
        }
    }

    fn caps(&self) -> TxCaps {
        TxCaps { gso: false, csum: false }
    }
}
