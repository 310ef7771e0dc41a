//! The running capture, if any: its packets and interfaces, its progress, and its destination.

use std::time::SystemTime;

use infra::quiesce::Domain;
use model::cli::{Args, CliError};
use net::feature::App;
use net::router::{InterfaceInfo, Router};

use crate::destination::{Destination, FILE_HEADER, PACKET_HEADER};
use crate::request::{Request, Scope};
use crate::rings::{Captured, Point, Rings};

/// Approximate maximum number of copies that one call of [`Progress::take`] takes from the workers.
const A_TURN: usize = 256;
/// Interval in nanoseconds at which copies for a file are taken from the workers. A ring with room for 1,024 copies can then take two
/// million packets per second.
const TURN_NS: u64 = 500_000;

/// The captures of a router: the feature's state.
pub(crate) struct Captures {
    pub(crate) rings: Rings,
    /// The running capture; `None` if no capture runs.
    pub(crate) running: Option<Capture>,
    /// The result of the last capture that ended.
    pub(crate) last: Option<String>,
}

impl Captures {
    pub(crate) fn new(domain: &Domain) -> Captures {
        Captures { rings: Rings::new(domain), running: None, last: None }
    }

    /// Returns the captures of a router.
    ///
    /// # Errors
    /// Fails if the router does not have this feature.
    pub(crate) fn of(router: &mut Router) -> Result<&mut Captures, CliError> {
        Ok(router.state_mut()?)
    }
}

impl Drop for Captures {
    /// Ends the running capture when the router ends: writes all waiting copies, and completes the file.
    fn drop(&mut self) {
        if let Some(capture) = self.running.take() {
            capture.finish(&self.rings);
        }
    }
}

/// A running capture.
pub(crate) struct Capture {
    points: Vec<Point>,
    scope: Scope,
    pub(crate) progress: Progress,
    pub(crate) to: Destination,
}

/// The progress of a capture.
pub(crate) struct Progress {
    /// Number of packets captured so far.
    pub(crate) packets: u64,
    /// The capture ends after this many packets.
    pub(crate) most: u64,
    /// Size in bytes of a file with the packets captured so far, including the file header.
    pub(crate) bytes: u64,
    /// The capture ends before a file with its packets would exceed this size in bytes.
    pub(crate) most_bytes: u64,
    /// True if the capture has reached a limit.
    pub(crate) complete: bool,
    /// Number of copies lost before the capture began.
    lost_before: u64,
    /// Nanoseconds to add to the time of the monotonic clock to get universal time.
    epoch: u64,
}

impl Progress {
    /// Returns the progress before the first packet.
    pub(crate) fn new(most: u64, most_bytes: u64) -> Progress {
        Progress {
            packets: 0,
            most,
            bytes: FILE_HEADER,
            most_bytes,
            complete: false,
            lost_before: 0,
            epoch: 0,
        }
    }

    /// Passes up to about [`A_TURN`] packets to `each`, with the universal time of each in nanoseconds, until
    /// the capture reaches a limit. Returns the number of copies taken.
    pub(crate) fn take(&mut self, rings: &Rings, mut each: impl FnMut(&Captured, u64)) -> usize {
        rings.take(A_TURN, |captured| {
            let bytes = self.bytes + PACKET_HEADER + captured.bytes().len() as u64;
            self.complete |= bytes > self.most_bytes;
            if !self.complete {
                (self.packets, self.bytes) = (self.packets + 1, bytes);
                self.complete = self.packets == self.most;
                each(captured, captured.time.saturating_add(self.epoch));
            }
        })
    }

    /// Returns the number of this capture's copies that were lost because a ring was full.
    pub(crate) fn lost(&self, rings: &Rings) -> u64 {
        rings.lost() - self.lost_before
    }
}

impl Capture {
    /// Returns a text about the packets captured so far.
    pub(crate) fn summary(&self, rings: &Rings) -> String {
        let lost = match self.progress.lost(rings) {
            0 => String::new(),
            lost => format!(", {lost} lost because they arrived faster than they were read"),
        };
        format!("{} packets {}{lost}", self.progress.packets, self.to.became())
    }

    /// True if the capture includes this interface.
    fn has(&self, router: &Router, interface: &InterfaceInfo) -> bool {
        match &self.scope {
            Scope::Any => true,
            Scope::Device(name) => {
                router.interface(interface.parent).is_ok_and(|device| device.name == *name)
            }
        }
    }

    /// If `on`, switches on the features that copy packets, on all current interfaces of the capture. If not, switches them off.
    fn switch(&self, router: &mut Router, on: bool) {
        let has = router.interfaces().filter(|i| self.has(router, i)).map(|i| i.index);
        switch(router, &self.points, &has.collect::<Vec<u32>>(), on);
    }

    /// Writes copies to the file, if the destination is a file. Returns true if the capture must end: it has
    /// reached a limit, the file cannot be continued, or the client has disconnected.
    fn turn(&mut self, rings: &Rings) -> bool {
        match &mut self.to {
            Destination::File(sink) => {
                if !sink.is_full() {
                    self.progress.take(rings, |captured, time| sink.write(captured, time));
                }
                self.progress.complete || sink.is_over()
            }
            Destination::Client(client) => !client.is_there(),
        }
    }

    /// Takes the waiting copies, and completes the file. Returns a text about the result.
    fn finish(mut self, rings: &Rings) -> String {
        if let Destination::File(sink) = &mut self.to {
            // More copies may arrive until the features are switched off.
            let mut waiting = rings.waiting();
            while waiting > 0 && !self.progress.complete && !sink.is_over() {
                let taken = self.progress.take(rings, |captured, time| sink.write(captured, time));
                waiting = if taken > 0 { waiting.saturating_sub(taken) } else { 0 };
            }
        }
        self.summary(rings) + &self.to.finish()
    }
}

/// Switches the features at these points on or off for interfaces.
fn switch(router: &mut Router, points: &[Point], interfaces: &[u32], on: bool) {
    for point in points {
        let (arc, feature) = point.feature();
        let done = router.arcs().enable_all(arc, feature, interfaces.iter().copied(), on);
        debug_assert!(done.is_ok(), "{done:?}");
    }
}

/// Checks that no capture runs. If the running capture belongs to a client that is not an admin and the caller is an admin, ends that
/// capture first.
///
/// # Errors
/// Fails if a capture still runs.
pub(crate) fn must_be_free<C: App>(c: &mut C, a: &Args) -> Result<(), CliError> {
    let now = c.now();
    // The client of the running capture may have disconnected a moment ago.
    turn(c.router_mut(), now);
    match &Captures::of(c.router_mut())?.running {
        None => Ok(()),
        Some(Capture { to: Destination::Client(client), .. })
            if client.yields && a.call().role.is_admin() =>
        {
            end(c.router_mut());
            Ok(())
        }
        Some(_) => Err(CliError::new(
            "a capture is already running: \"pcap trace status\" shows it, \"pcap trace off\" ends it",
        )),
    }
}

/// Begins a capture. No other capture may be running; see [`must_be_free`].
///
/// # Errors
/// Fails if the router does not have this feature.
pub(crate) fn begin<C: App>(
    c: &mut C,
    request: Request,
    mut progress: Progress,
    to: Destination,
) -> Result<(), CliError> {
    let now = c.now();
    let router = c.router_mut();
    let rings = Captures::of(router)?.rings.clone();
    let Request { points, scope, keep, filter } = request;
    rings.begin(&points, keep as usize, filter);
    let utc = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    progress.epoch = (utc.as_nanos() as u64).saturating_sub(now);
    progress.lost_before = rings.lost();
    let capture = Capture { points, scope, progress, to };
    capture.switch(router, true);
    Captures::of(router)?.running = Some(capture);
    Ok(())
}

/// Ends the running capture, if any. Returns a text about its result.
pub(crate) fn end(router: &mut Router) -> Option<String> {
    let capture = Captures::of(router).ok()?.running.take()?;
    capture.switch(router, false);
    let captures = Captures::of(router).ok()?;
    let text = capture.finish(&captures.rings);
    captures.last = Some(text.clone());
    Some(text)
}

/// Handles a new interface: the running capture may include it.
pub(crate) fn follow(router: &mut Router, index: u32) {
    let Ok(Captures { running: Some(capture), .. }) = router.state() else { return };
    if router.interface(index).is_ok_and(|interface| capture.has(router, interface)) {
        let points = capture.points.clone();
        switch(router, &points, &[index], true);
    }
}

/// Writes the captured copies to the file, and ends the capture if it is complete or cannot continue. `now` is the present time in
/// nanoseconds. Returns the time of the next call; `None` if no file is being written.
pub(crate) fn turn(router: &mut Router, now: u64) -> Option<u64> {
    let captures = Captures::of(router).ok()?;
    let capture = captures.running.as_mut()?;
    if capture.turn(&captures.rings) {
        let text = end(router).unwrap_or_default();
        tracing::info!("{text}");
        return None;
    }
    matches!(capture.to, Destination::File(_)).then_some(now + TURN_NS)
}
