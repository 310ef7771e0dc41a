//! Why the main thread has no use for a packet that a worker gave it.
//!
//! Every handler of punted packets returns one of these for a packet that changes nothing, so that none ends unseen. What is broken
//! or found no room is dropped. What others rightly send, and this router needs not, is ignored: an event.

use graph::reasons;

reasons! {
    /// Why the main thread has no use for a packet.
    pub enum Unused {
        Unexpected = "unexpected", Error, "a worker handed over a packet that no feature handles";
        Malformed = "malformed", Error, "a message of ARP, Neighbor Discovery or Multicast Listener Discovery with a wrong length, address or option";
        Gone = "interface-gone", Info, "the interface that the packet came in by went away meanwhile";
        Busy = "worker-busy", Warn, "a worker did not take a packet from the main thread: its ring is full";
        Full = "table-full", Warn, "the table of neighbors has no room for another entry";
        Answers = "too-many-answers", Warn, "too many delayed answers wait to be sent";
        OwnStation = "own-station", Info, counted, "another interface of this router on the same link sent the message";
        OffLink = "off-link-sender", Info, counted, "the sender's address is on no network of the interface";
        NotForUs = "not-for-us", Info, counted, "a request for an address that the router does not have on this interface";
        NotAsked = "not-asked", Info, counted, "a station made itself known that this router did not ask for";
        Static = "static-neighbor", Info, counted, "a message of a neighbor whose Ethernet address the operator has set";
        NotOverriding = "not-overriding", Info, counted, "an advertisement of another Ethernet address that does not override the known one";
        NoLinkAddress = "no-link-address", Info, counted, "a message that does not say which Ethernet address its sender has";
        Tentative = "tentative-target", Info, counted, "a request for an address that this router does not use yet";
        NotAdvertising = "not-advertising", Info, counted, "a host asked for routers where this router does not advertise itself";
        NoGroup = "no-group", Info, counted, "a query for groups that the interface has not joined";
        NoPing = "no-ping", Info, counted, "an echo reply that no ping waits for";
    }
}
