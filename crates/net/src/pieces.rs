//! Helpers to cut one packet into several.

use buf::{Flags, Packet};

/// A reader of a packet's bytes in order, over all its buffers.
pub struct Payload<'a, I> {
    now: &'a [u8],
    rest: I,
}

impl<'a, I: Iterator<Item = &'a [u8]>> Payload<'a, I> {
    /// Returns a reader that begins `skip` bytes after the packet's start.
    pub fn behind(mut rest: I, mut skip: usize) -> Payload<'a, I> {
        for s in &mut rest {
            match s.get(skip..) {
                Some(now) => return Payload { now, rest },
                None => skip -= s.len(),
            }
        }
        Payload { now: &[], rest }
    }

    /// Fills `to` with the next bytes. Returns `false` if fewer are left.
    pub fn copy(&mut self, mut to: &mut [u8]) -> bool {
        while !to.is_empty() {
            if self.now.is_empty() {
                match self.rest.next() {
                    Some(s) => self.now = s,
                    None => return false,
                }
            }
            let n = to.len().min(self.now.len());
            let (now, later) = self.now.split_at(n);
            let (front, back) = std::mem::take(&mut to).split_at_mut(n);
            front.copy_from_slice(now);
            (self.now, to) = (later, back);
        }
        true
    }
}

/// Sets the length and flags of `to`, a piece of the packet `from`, and copies the metadata of `from`.
pub fn inherit(to: &mut Packet<'_>, from: &Packet<'_>, flags: Flags, len: usize) {
    to.set_len(len);
    to.set_flags(flags);
    to.set_fib(from.fib());
    to.set_rx_if(from.rx_if());
    to.set_tx_if(from.tx_if());
    to.set_fwd(from.fwd());
    to.set_hash(from.hash());
    *to.cold_mut() = *from.cold();
    to.copy_features(from);
}
