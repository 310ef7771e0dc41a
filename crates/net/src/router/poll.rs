//! The router's turn: what workers punted, what is due.

use std::collections::HashMap;

use buf::layout::DATA_ROOM;
use buf::{Held, Packet};
use graph::{Builder, EdgeId, GraphError, PuntReason, Punted};
use infra::quiesce::Domain;

use super::Router;
use super::events::Events;
use super::state::States;
use crate::Unused;
use crate::ip::{KindInfo, Source, SourceNames};
use crate::setting::{Attached, Setting, Settings};

/// Punted packets handled in one turn, so that commands are not kept waiting.
const TURN: usize = 256;

/// What a feature does with a packet that was punted for its reason.
///
/// # Errors
/// Why there is no use for the packet.
pub type PuntHandler = fn(&mut Router, now: u64, worker: usize, &mut Packet<'_>) -> Result<(), Unused>;

/// How features and the main thread meet: filled while the graph is built.
pub struct Hooks {
    handlers: HashMap<PuntReason, PuntHandler>,
    inject: HashMap<&'static str, EdgeId>,
    pub(crate) settings: Settings,
    pub(super) states: States,
    pub(super) events: Events,
    pub(super) sources: SourceNames,
    pub(crate) kinds: Vec<KindInfo>,
    pub(crate) interface_kinds: Vec<&'static str>,
    pub(crate) port_modes: u8,
    pub(super) domain: Domain,
    buffers: usize,
}

impl Hooks {
    /// Nothing yet; tables are read within sections of `domain`, and there are so many packet buffers.
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

    /// Packet buffers that there are at the start.
    pub fn buffers(&self) -> usize {
        self.buffers
    }

    /// Declares a setting of interfaces, or gives what was declared.
    ///
    /// # Errors
    /// When the address space for it is not to be had.
    pub fn setting<T: Setting>(&mut self) -> Result<Attached<T>, GraphError> {
        self.settings.declare().map_err(|e| GraphError(format!("{}: {e}", T::COUNTED)))
    }

    /// Declares why packets are punted, how many a second one worker lets through, and who handles them.
    pub fn punt(
        &mut self,
        b: &mut Builder,
        name: &'static str,
        rate: u32,
        handler: PuntHandler,
    ) -> PuntReason {
        let reason = b.punt_reason(name, rate);
        self.handlers.insert(reason, handler);
        reason
    }

    /// Declares a source of routes, with its distance (1 to 253): see [`Source`]. Who keeps it adds routes with
    /// [`Router::add_route_from`].
    ///
    /// # Errors
    /// When the name is taken, the distance is the router's own, or there are too many.
    pub fn source(&mut self, name: &'static str, distance: u8) -> Result<Source, GraphError> {
        self.sources.register(name, distance)
    }

    /// Lets the main thread send packets to `node` (see [`Router::send`]).
    ///
    /// # Errors
    /// When there are too many such nodes.
    pub fn inject(&mut self, b: &mut Builder, node: &'static str) -> Result<(), GraphError> {
        self.inject.insert(node, b.inject_to(node)?);
        Ok(())
    }
}

impl Router {
    /// Handles what workers punted, what is due at `now` (nanoseconds of the monotonic clock), what features do in each turn, and
    /// routes that follow a change of an interface. Returns whether there may be more to do at once.
    pub fn poll(&mut self, now: u64) -> bool {
        self.wake.clear();
        self.now = now;
        let mut handled = 0;
        for worker in 0..self.ports.len() {
            while handled < TURN
                && let Some(Punted { reason, packet }) = self.ports[worker].punted()
            {
                handled += 1;
                self.punted(now, worker, reason, packet);
            }
        }
        self.handle_timeouts(now);
        self.tables.utc.adjust(now);
        self.balance(now);
        self.publish_own();
        self.send_probes();
        self.turn_features(now);
        let mut more = self.settle_routes();
        more |= self.ip4.routes.collect(&mut self.near);
        more |= self.ip6.routes.collect(&mut self.near);
        more |= self.near.adjacencies.collect();
        self.domain.collect();
        // Except the reserve: messages from it free buffers that lie in no cache.
        self.bufs.share(self.workers());
        self.bufs.publish();
        more || handled >= TURN
    }

    /// Gives a punted packet to whoever handles its reason, and counts what became of it.
    pub(super) fn punted(&mut self, now: u64, worker: usize, reason: PuntReason, mut held: Held) {
        let mut packet = held.packet();
        let interface = packet.rx_if();
        let unused = match self.hooks.handlers.get(&reason) {
            Some(handler) => handler(self, now, worker, &mut packet).err(),
            None => Some(Unused::Unexpected),
        };
        held.free(&mut self.bufs);
        self.outcomes.done(reason, interface, unused);
    }

    /// Sends a packet into a worker's graph, at a node that some feature named in [`Hooks::inject`]; one that cannot go
    /// is dropped, and `false` returned.
    pub fn send(&mut self, worker: usize, node: &str, packet: Held) -> bool {
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

    /// A packet of the router's own with these bytes, in as many buffers as it takes; `None` when too few are free.
    pub fn packet(&mut self, bytes: &[u8]) -> Option<Held> {
        let reserve = self.workers();
        let needed = bytes.len().div_ceil(DATA_ROOM).max(1);
        if self.bufs.has(needed + reserve) { self.last_packet(bytes) } else { None }
    }

    /// As [`packet`](Self::packet), from the last buffers, one a worker, which are kept for what makes buffers free.
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

    /// When the last turn was, nanoseconds of the monotonic clock, which is the workers' clock.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.ports.len()
    }
}
