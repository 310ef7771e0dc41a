//! The main thread's loop. One iteration handles punted packets, expired timers, and work left over from changes.

use std::collections::HashMap;
use std::sync::Arc;

use buf::layout::DATA_ROOM;
use buf::{Frame, Held, Packet};
use graph::{Builder, EdgeId, GraphError, MainReason, PuntReason, Punted};
use infra::quiesce::Domain;

use super::Router;
use super::events::Events;
use super::kinds::KindInfo;
use super::state::States;
use crate::Unused;
use crate::ip::{Source, SourceNames};
use crate::setting::{Attached, Setting, Settings};

/// Maximum number of punted packets handled in one iteration of the main thread's loop, so that commands do not wait long.
const TURN: usize = 256;

/// A handler for packets that are punted for one reason. `now` is in nanoseconds of the monotonic clock. `R` is the type of the returned
/// reason: an enum declared with [`Builder::main_reasons`], or [`MainReason`].
///
/// # Errors
/// If the packet is not used. The error is the reason.
pub type PuntHandler<R = MainReason> =
    fn(&mut Router, now: u64, worker: usize, &mut Packet<'_>) -> Result<(), R>;

/// A handler with any type of reasons.
type AnyHandler =
    Arc<dyn Fn(&mut Router, u64, usize, &mut Packet<'_>) -> Result<(), MainReason> + Send + Sync>;

/// The declarations for the main thread that features make while the graph is built.
pub struct Hooks {
    handlers: HashMap<PuntReason, AnyHandler>,
    inject: HashMap<&'static str, EdgeId>,
    pub(crate) settings: Settings,
    pub(super) states: States,
    pub(super) events: Events,
    pub(super) sources: SourceNames,
    pub(super) kinds: Vec<KindInfo>,
    pub(super) interface_kinds: Vec<&'static str>,
    pub(super) port_modes: u8,
    pub(super) domain: Domain,
    buffers: usize,
}

impl Hooks {
    /// Creates empty hooks. `domain` is the quiescence domain of the features' settings and tables. `buffers` is the number of packet
    /// buffers.
    pub fn new(domain: &Domain, buffers: usize) -> Hooks {
        Hooks {
            handlers: HashMap::new(),
            inject: HashMap::new(),
            settings: Settings::new(domain),
            states: States::default(),
            events: Events::default(),
            sources: SourceNames::default(),
            kinds: Vec::new(),
            interface_kinds: Vec::new(),
            port_modes: 0,
            domain: domain.clone(),
            buffers,
        }
    }

    /// Returns the number of packet buffers that the router has at the start.
    pub fn buffers(&self) -> usize {
        self.buffers
    }

    /// Declares a setting of interfaces, unless it is declared already. Returns the handle by which nodes read it.
    ///
    /// # Errors
    /// If address space for the setting cannot be reserved.
    pub fn setting<T: Setting>(&mut self) -> Result<Attached<T>, GraphError> {
        self.settings.declare().map_err(|e| GraphError(format!("{}: {e}", T::COUNTED)))
    }

    /// Declares a punt reason with the name `name`. Each worker punts at most `rate` packets per second for it; `handler` handles them on
    /// the main thread.
    pub fn punt<R: Into<MainReason> + 'static>(
        &mut self,
        b: &mut Builder,
        name: &'static str,
        rate: u32,
        handler: PuntHandler<R>,
    ) -> PuntReason {
        let reason = b.punt_reason(name, rate);
        let handler: AnyHandler =
            Arc::new(move |router, now, worker, p| handler(router, now, worker, p).map_err(Into::into));
        self.handlers.insert(reason, handler);
        reason
    }

    /// Declares a source of routes. `distance` is 1 to 253: see [`Source`]. The feature then adds routes with [`Router::add_route_from`].
    ///
    /// # Errors
    /// If the name is taken, the distance is not 1 to 253, or there are too many sources.
    pub fn source(&mut self, name: &'static str, distance: u8) -> Result<Source, GraphError> {
        self.sources.register(name, distance)
    }

    /// Lets the main thread send packets to `node` (see [`Router::send`]).
    ///
    /// # Errors
    /// If there are too many nodes that the main thread can send packets to.
    pub fn inject(&mut self, b: &mut Builder, node: &'static str) -> Result<(), GraphError> {
        self.inject.insert(node, b.inject_to(node)?);
        Ok(())
    }
}

impl Router {
    /// Does one iteration of the main thread's loop: handles punted packets and timers that have expired by `now` (nanoseconds of the
    /// monotonic clock), calls the features' [`Turn`](super::Turn) callbacks, and updates routes after changes of interfaces and routes.
    /// Returns true if there may be more to do at once.
    pub fn poll(&mut self, now: u64) -> bool {
        self.wake.clear();
        self.now = now;
        let mut handled = 0;
        for worker in 0..self.ports.len() {
            while handled < TURN
                && let Some(Punted { reason, packet }) = self.ports[worker].punted()
            {
                handled += 1;
                self.exchanged += 1;
                self.punted(now, worker, reason, packet);
            }
        }
        self.handle_timeouts(now);
        self.tables.utc.adjust(now);
        self.measure_load(now);
        self.publish_own();
        self.send_probes();
        self.turn_features(now);
        let mut more = self.settle_routes();
        more |= self.ip4.routes.collect(&mut self.near);
        more |= self.ip6.routes.collect(&mut self.near);
        more |= self.near.adjacencies.collect();
        self.domain.collect();
        // Share buffers, but keep a reserve of one for each worker: messages sent from the reserve free
        // buffers that no cache holds.
        self.bufs.share(self.workers());
        self.bufs.publish();
        more || handled >= TURN
    }

    /// Passes a punted packet to the handler for its reason, and counts the result.
    pub(super) fn punted(&mut self, now: u64, worker: usize, reason: PuntReason, mut held: Held) {
        let mut packet = held.packet();
        let interface = packet.rx_if();
        let unused = match self.hooks.handlers.get(&reason).cloned() {
            Some(handler) => handler(self, now, worker, &mut packet).err(),
            None => Some(Unused::Unexpected.into()),
        };
        held.free(&mut self.bufs);
        self.outcomes.done(reason, interface, unused);
    }

    /// Sends a packet into a worker's graph at `node`, which a feature must have declared with [`Hooks::inject`]. Returns false if the
    /// packet could not be sent and was dropped.
    pub fn send(&mut self, worker: usize, node: &str, packet: Held) -> bool {
        self.exchanged += 1;
        let (edge, port) = (self.hooks.inject.get(node), self.ports.get_mut(worker));
        let refused = match edge.zip(port) {
            Some((edge, port)) => port.inject(*edge, packet).map_err(|packet| (packet, Unused::Busy)),
            None => Err((packet, Unused::Unexpected)),
        };
        let Err((mut packet, why)) = refused else { return true };
        self.outcomes.ended(packet.packet().rx_if(), why);
        packet.free(&mut self.bufs);
        false
    }

    /// Sends an Ethernet frame on an interface, through the graph. Returns false if the frame could not be sent and was dropped.
    pub fn send_frame(&mut self, interface: u32, frame: &[u8]) -> bool {
        self.send_to(0, interface, "interface-output", frame)
    }

    /// Sends Ethernet frames, each with its interface, at once: the main thread gives them to the devices directly, outside the graph. This
    /// is for the last frames of interfaces that [leave](super::Leaves): the workers may be busy. Returns false if a frame could not be
    /// sent.
    pub fn send_at_once(&mut self, frames: impl IntoIterator<Item = (u32, Vec<u8>)>) -> bool {
        let (mut frame, mut device, mut all_sent) = (Frame::new(), None, true);
        for (interface, bytes) in frames {
            let by = self.near.interfaces.get(interface).map(|i| i.parent);
            if by != device || frame.room() == 0 {
                all_sent &= self.hand_over(device, &mut frame);
                device = by;
            }
            let packet = self.packet(&bytes);
            all_sent &= packet.is_some_and(|packet| match frame.push(packet) {
                Ok(()) => true,
                Err(packet) => {
                    packet.free(&mut self.bufs);
                    false
                }
            });
        }
        all_sent & self.hand_over(device, &mut frame)
    }

    /// Gives packets to a device directly, outside the graph. Frees the packets that the device did not accept. Returns true if it accepted
    /// all packets.
    fn hand_over(&mut self, device: Option<u32>, frame: &mut Frame) -> bool {
        if frame.is_empty() {
            return true;
        }
        let port = device.and_then(|device| self.tx_ports.get(device));
        let before = frame.len();
        let taken = port.is_some_and(|port| port.queue(0).send(frame, &mut self.bufs).is_ok());
        let left = frame.len();
        self.sent_at_once += (before - left) as u64;
        frame.free(&mut self.bufs);
        taken && left == 0
    }

    /// Returns the number of frames that were sent by [`send_at_once`](Self::send_at_once). The counters of nodes and interfaces do not
    /// include them.
    pub fn sent_at_once(&self) -> u64 {
        self.sent_at_once
    }

    /// Returns a packet of the router's own with these bytes, in as many buffers as they need. `None` if too few buffers are free beyond
    /// the reserve of one for each worker.
    pub fn packet(&mut self, bytes: &[u8]) -> Option<Held> {
        let reserve = self.workers();
        let needed = bytes.len().div_ceil(DATA_ROOM).max(1);
        if self.bufs.has(needed + reserve) { self.last_packet(bytes) } else { None }
    }

    /// Like [`packet`](Self::packet), but may use the reserve of one buffer per worker. The reserve is for messages that make workers free
    /// buffers.
    pub fn last_packet(&mut self, bytes: &[u8]) -> Option<Held> {
        let mut held = Held::alloc(&mut self.bufs)?;
        let mut p = held.packet();
        p.set_flags(buf::Flags::LOCAL_ORIGIN);
        if p.fill_chained(bytes, &mut self.bufs) {
            return Some(held);
        }
        held.free(&mut self.bufs);
        None
    }

    /// Returns the time of the last call of [`poll`](Self::poll), in nanoseconds of the monotonic clock. The workers use the same
    /// clock.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.ports.len()
    }
}
