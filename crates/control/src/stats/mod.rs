//! VPP's statistics segment: a memory file with counters, which monitoring programs map ([`image`] describes the format).
//!
//! The main thread collects the numbers in slices ([`snapshot`]). A thread of its own arranges them and writes the segment ([`segment`]).
//! Another thread sends the file to the programs that connect ([`serve`]). Nothing is collected before the first program has connected.
//! Then the numbers are updated at an interval, and when interfaces are added or removed.

mod image;
mod segment;
mod serve;
mod snapshot;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::time;

use crate::app::{Context, Statistics};
use crate::cli::Packets;
use segment::Segment;
use snapshot::{Arranger, Collection, Snapshot};

/// The longest time between two checks for added or removed interfaces.
const LOOK: Duration = Duration::from_millis(100);

/// The settings of a segment.
pub struct Settings {
    /// Size in bytes.
    pub size: u64,
    /// True to add a separate entry for each counter of each node, such as `/nodes/ip4-lookup/clocks`.
    pub per_node: bool,
    /// Time between two updates.
    pub interval: Duration,
    /// True if the segment shows the counters of the first worker as those of the main thread, as VPP without workers does. This is
    /// so if the operator has not configured workers.
    pub merged: bool,
}

/// The number of the request that a snapshot answers, and the snapshot.
type Numbers = (u64, Snapshot);

/// Serves the segment to the programs that connect to `listener`, as long as the calling `LocalSet` runs.
///
/// # Errors
/// If there is not enough memory for the segment, or if a thread cannot be started.
pub fn start(listener: &Packets, context: &Rc<RefCell<Context>>, settings: Settings) -> io::Result<()> {
    let segment = Segment::new(settings.size)?;
    let statistics = context.borrow().statistics.clone();
    serve::start(listener, segment.for_readers()?, statistics.clone())?;
    // One snapshot may wait while the segment's thread writes another. The main thread never waits for that thread.
    let (send, numbers) = sync_channel(1);
    thread::Builder::new()
        .name("volley_stats".into())
        .spawn(move || write(segment, &numbers, &statistics))?;
    tokio::task::spawn_local(collect(context.clone(), settings, send));
    Ok(())
}

/// Collects snapshots, and sends them to the thread that writes the segment.
async fn collect(context: Rc<RefCell<Context>>, settings: Settings, to: SyncSender<Numbers>) {
    let (statistics, elapsed) = {
        let c = context.borrow();
        (c.statistics.clone(), c.started.elapsed())
    };
    // Computed once: the two clocks drift apart, and the time of the start must not move.
    let started = SystemTime::now().checked_sub(elapsed).and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    let mut due = Instant::now();
    loop {
        tokio::select! {
            () = statistics.asked() => {}
            () = time::sleep(settings.interval.min(LOOK)) => context.borrow_mut().note_interfaces(),
        }
        if !statistics.is_read() || (statistics.is_fresh() && Instant::now() < due) {
            continue;
        }
        due = Instant::now() + settings.interval;
        let asked = statistics.last_asked();
        let mut collection = Collection::new(settings.merged, settings.per_node, started.unwrap_or_default());
        let snapshot = loop {
            if let Some(snapshot) = collection.slice(&context.borrow()) {
                break snapshot;
            }
            tokio::task::yield_now().await;
        };
        // If the segment's thread is still busy with earlier numbers, the new ones are dropped. The next round has newer ones.
        if to.try_send((asked, snapshot)).is_err() {
            time::sleep(Duration::from_millis(1)).await;
            statistics.ask();
        }
    }
}

/// Writes each received snapshot into the segment, until the sender is dropped.
fn write(mut segment: Segment, numbers: &Receiver<Numbers>, statistics: &Statistics) {
    let (mut arranger, mut warned) = (Arranger::default(), false);
    while let Ok((asked, snapshot)) = numbers.recv() {
        let failed = segment.publish(&arranger.entries(&snapshot)).err();
        let before = std::mem::replace(&mut warned, failed.is_some());
        match failed {
            Some(e) if !before => tracing::warn!("the statistics segment is no longer updated: {e}"),
            None if before => tracing::info!("the statistics segment is updated again"),
            _ => {}
        }
        statistics.published(asked);
    }
}
