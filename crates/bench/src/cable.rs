//! A cable in memory: what goes in at one end comes out at the other, in order.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use buf::{Cache, Frame, Gone, Held, RxQueue, TxCaps, TxQueue, Unsent};

/// One direction of a link that holds `depth` frames at most; beyond them the sender is told that it is full.
///
/// Its ends may be on different threads. Each is locked once a burst.
pub fn cable(depth: usize) -> (Box<dyn TxQueue>, Box<dyn RxQueue>) {
    let wire = Wire(Arc::new(Mutex::new(VecDeque::with_capacity(depth))));
    (Box::new(Sending { wire: wire.clone(), depth }), Box::new(Receiving { wire }))
}

#[derive(Clone)]
struct Wire(Arc<Mutex<VecDeque<Held>>>);

impl Wire {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Held>> {
        // Nothing can be half done: a frame is in the queue or not.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Sending {
    wire: Wire,
    depth: usize,
}

impl TxQueue for Sending {
    fn send(&mut self, frame: &mut Frame, _: &mut Cache) -> Result<(), Unsent> {
        let mut wire = self.wire.lock();
        let room = self.depth.saturating_sub(wire.len()).min(frame.len());
        frame.drain_front(room, |held| wire.push_back(held));
        if frame.is_empty() { Ok(()) } else { Err(Unsent::Full) }
    }

    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }
}

struct Receiving {
    wire: Wire,
}

impl RxQueue for Receiving {
    fn poll(&mut self, frame: &mut Frame, _: &mut Cache) -> Result<(), Gone> {
        let mut wire = self.wire.lock();
        let n = frame.room().min(wire.len());
        for held in wire.drain(..n) {
            if let Err(held) = frame.push(held) {
                // There was room: it was asked for.
                held.discard();
            }
        }
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.wire.lock().drain(..).for_each(Held::discard);
    }
}
