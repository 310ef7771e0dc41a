//! An in-memory cable: frames sent at one end are received at the other, in order.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use buf::{Cache, Frame, Gone, Held, RxQueue, TxCaps, TxQueue, Unsent};

/// Makes one direction of a link that holds at most `depth` frames. If the link is full, the sender gets [`Unsent::Full`].
///
/// The two ends may be on different threads: a mutex protects the frames in the link. Each end locks the mutex once per burst.
pub fn cable(depth: usize) -> (Box<dyn TxQueue>, Box<dyn RxQueue>) {
    let wire = Wire(Arc::new(Mutex::new(VecDeque::with_capacity(depth))));
    (Box::new(Sending { wire: wire.clone(), depth }), Box::new(Receiving { wire }))
}

#[derive(Clone)]
struct Wire(Arc<Mutex<VecDeque<Held>>>);

impl Wire {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Held>> {
        // A panic cannot leave the queue half changed: a frame is either in it or not.
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
                // Not reached: no more than `frame.room()` frames are taken.
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
