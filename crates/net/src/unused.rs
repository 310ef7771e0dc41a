//! Reasons why a punted packet was not used. A feature that handles punted packets may have more reasons of its own.
//!
//! A punt handler returns a reason for every packet that it does not use, so that every packet is counted. Broken packets, and packets
//! that find a table or a ring full, count as dropped. Valid messages that this router does not need are ignored, and count as events.

use graph::reasons;

reasons! {
    /// The reason why a punted packet was not used.
    pub enum Unused {
        Unexpected = "unexpected", Error, "no feature handles this packet";
        Malformed = "malformed", Error, "an ARP, Neighbor Discovery or MLD message has a wrong length, address or option";
        Gone = "interface-gone", Info, "the packet's input interface was removed, or lost its link, before the packet was handled";
        Busy = "worker-busy", Warn, "the ring from the main thread to the worker is full";
        Full = "table-full", Warn, "the neighbor table is full";
        Answers = "too-many-answers", Warn, "too many delayed answers are pending";
        OwnStation = "own-station", Info, counted, "the sender is another interface of this router on the same link";
        OffLink = "off-link-sender", Info, counted, "the sender's address is not in a connected network of the interface";
        NotForUs = "not-for-us", Info, counted, "the requested address is not an address of this router on this interface";
        NotAsked = "not-asked", Info, counted, "an unsolicited announcement came from a neighbor that is not in the table";
        Static = "static-neighbor", Info, counted, "the message is from a static neighbor, whose entry never changes";
        NotOverriding = "not-overriding", Info, counted, "the advertised Ethernet address differs from the known one, and the override flag is not set";
        NoLinkAddress = "no-link-address", Info, counted, "the message has no link-layer address option";
        Tentative = "tentative-target", Info, counted, "the requested address is still tentative";
        NotAdvertising = "not-advertising", Info, counted, "a router solicitation arrived on an interface that sends no router advertisements";
        NoGroup = "no-group", Info, counted, "an MLD query is for groups that the interface has not joined";
    }
}
