//! Neighbours as the main thread knows them.

use buf::Held;

use super::Router;

impl Router {
    /// An ARP packet that concerns this router.
    pub(crate) fn punted_arp(&mut self, _now: u64, _worker: usize, packet: Held) {
        packet.free(&mut self.bufs);
    }

    /// A worker asks for the Ethernet address of a next hop.
    pub(crate) fn punted_ask(&mut self, _now: u64, _worker: usize, packet: Held) {
        packet.free(&mut self.bufs);
    }

    /// Does what is due at `now`.
    pub(crate) fn handle_timeouts(&mut self, _now: u64) {}
}
