//! The main thread's work for the router, in turns. In each turn, the main thread does all work that is due.
//!
//! A turn begins at the first of these events:
//!
//! - a worker wakes the main thread;
//! - a timer expires;
//! - the kernel reports a changed link;
//! - [`LONGEST_TURN`] has passed since the previous turn;
//! - the devices are due for their check, once a second.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use net::router::Stirred;
use tokio::net::unix::pipe;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::app::Context;

/// Interval at which the devices are checked for changes that the kernel does not report.
const DEVICES: Duration = Duration::from_secs(1);
/// The longest time between two turns of the router.
const LONGEST_TURN: Duration = Duration::from_millis(100);

/// A file that becomes readable at an event; its contents do not matter.
pub(super) struct Bell(pipe::Receiver);

impl Bell {
    pub(super) fn new(file: OwnedFd) -> io::Result<Bell> {
        // The executor can watch any pollable file. It is wrapped as the receiver of a pipe, because that type accepts any file unchecked.
        pipe::Receiver::from_owned_fd_unchecked(file).map(Bell)
    }

    /// Waits for an event.
    async fn rung(&self) -> io::Result<()> {
        self.0.readable().await?;
        // Read everything, so that the executor waits for the next event.
        while self.0.try_read(&mut [0; 8]).is_ok() {}
        Ok(())
    }

    /// Waits for an event of a file that must not be read. Each event is reported once, so the caller must handle all events before the
    /// next call.
    async fn stirred(&self) -> io::Result<()> {
        self.0.readable().await?;
        let _ = self.0.try_io(|| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        Ok(())
    }
}

/// Waits for an event of `bell`. Without a bell, waits for ever.
async fn rung(bell: &Option<Bell>) -> io::Result<()> {
    match bell {
        Some(bell) => bell.rung().await,
        None => std::future::pending().await,
    }
}

/// Calls a feature's function after each event on the feature's file descriptor. Then wakes the router's loop, because the
/// feature's timeouts may have changed.
pub(super) async fn watch(context: Rc<RefCell<Context>>, file: Bell, stirred: Stirred) {
    loop {
        if let Err(e) = file.stirred().await {
            tracing::error!("cannot watch a file descriptor of the router any more: {e}");
            return;
        }
        let mut c = context.borrow_mut();
        let now = c.now();
        stirred(&mut c.system.router, now);
        c.system.router.doorbell().ring();
    }
}

/// Runs the router's turns.
pub(super) async fn turns(context: Rc<RefCell<Context>>, bell: Bell, links: Option<Bell>) -> io::Result<()> {
    let mut devices = interval(DEVICES);
    devices.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let (more, next) = {
            let mut c = context.borrow_mut();
            let now = c.now();
            let tidy = c.tidy();
            let more = c.system.router.poll(now) | (tidy == Some(Duration::ZERO));
            let longest = tidy.map_or(LONGEST_TURN, |time| time.min(LONGEST_TURN));
            if c.system.router.take_links_suspected() {
                c.system.look_at_links();
            }
            let next = c.system.router.next_timeout().map(|t| Duration::from_nanos(t.saturating_sub(now)));
            (more, next.map_or(longest, |d| d.min(longest)))
        };
        if more {
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            rung = bell.rung() => rung?,
            () = sleep_until(Instant::now() + next) => {}
            changed = rung(&links) => {
                changed?;
                context.borrow_mut().system.look_at_links();
            }
            _ = devices.tick() => {
                let mut context = context.borrow_mut();
                context.system.look_at_links();
                context.system.reopen_devices();
                context.look_at_confirmation();
                context.look_around();
                if let Some(keeper) = &mut context.keeper {
                    keeper.look();
                }
                context.log.flush();
            }
        }
    }
}
