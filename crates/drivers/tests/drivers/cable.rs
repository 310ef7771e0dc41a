//! A bridge of two ports: forwards each device's packets to the other device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use buf::{Cache, Flags, Frame};
use drivers::Device;

use crate::lab;

/// Packet counters.
#[derive(Default)]
pub struct Passed {
    pub packets: AtomicU64,
    /// GSO packets.
    pub gso: AtomicU64,
    /// Packets refused by the device.
    pub refused: AtomicU64,
}

/// The forwarding thread.
pub struct Cable {
    pub passed: Arc<Passed>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Cable {
    pub fn between(mut a: Device, mut b: Device) -> Cable {
        a.control.set_admin(true).unwrap();
        b.control.set_admin(true).unwrap();
        let (passed, stop) = (Arc::<Passed>::default(), Arc::<AtomicBool>::default());
        let (p, s) = (passed.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut cache = lab::cache();
            while !s.load(Ordering::Relaxed) {
                let moved = pass(&mut a, &mut b, &mut cache, &p) + pass(&mut b, &mut a, &mut cache, &p);
                if moved == 0 {
                    let fds = [a.rx[0].fd().unwrap(), b.rx[0].fd().unwrap()];
                    infra::wait::any(&fds, std::time::Duration::from_millis(20)).unwrap();
                }
            }
            lab::no_leak(&cache);
        });
        Cable { passed, stop, thread: Some(thread) }
    }

    /// Ends the thread and asserts that it did not fail.
    pub fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn pass(from: &mut Device, to: &mut Device, cache: &mut Cache, passed: &Passed) -> usize {
    let mut frame = Frame::new();
    from.rx[0].poll(&mut frame, cache).unwrap();
    let n = frame.len();
    if n > 0 {
        if frame.any().any(Flags::GSO) {
            let gso = frame.packets().filter(|p| p.flags().any(Flags::GSO)).count();
            passed.gso.fetch_add(gso as u64, Ordering::Relaxed);
        }
        passed.packets.fetch_add(n as u64, Ordering::Relaxed);
        let _ = to.tx[0].send(&mut frame, cache);
        passed.refused.fetch_add(frame.len() as u64, Ordering::Relaxed);
        frame.free(cache);
    }
    n
}
