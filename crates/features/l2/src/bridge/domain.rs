//! Bridge domains and their ports, for the workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use infra::class_a::SlotReader;
use infra::class_b::Map;
use net::setting::{Setting, Switch};

use super::answer::Hosts;

/// A port of a bridge domain, as a setting of its interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BridgePort {
    /// The domain's index. 0 is no domain.
    pub(crate) domain: u32,
    /// The split-horizon group: no frame goes from a port of a group to another port of it. 0 is no group.
    pub group: u8,
    /// True if source addresses are learned.
    pub learn: bool,
    /// True if frames to a known station are sent to its port. If not, they are treated as frames to an unknown station.
    pub forward: bool,
    /// True if the port's frames are flooded.
    pub flood: bool,
    /// True if the port gets the frames to unknown stations, and no flooded ones.
    pub uu_fwd: bool,
    pub(crate) epoch: u8,
}

impl BridgePort {
    /// A port that learns, forwards and floods.
    pub const PLAIN: BridgePort =
        BridgePort { domain: 0, group: 0, learn: true, forward: true, flood: true, uu_fwd: false, epoch: 0 };
}

impl Setting for BridgePort {
    type Counts = ();
    const COUNTED: &'static str = "/feature/l2-bridge";

    fn switches(&self) -> Vec<Switch> {
        Vec::new()
    }
}

/// What a bridge domain does with frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// True if source addresses are learned.
    pub learn: bool,
    /// True if frames to a known station are sent to its port only. If not, they are treated as frames to an unknown station.
    pub forward: bool,
    /// True if frames to groups are flooded.
    pub flood: bool,
    /// True if frames to unknown stations are flooded.
    pub unknown: bool,
    /// True if ARP requests and neighbor solicitations for configured hosts are answered.
    pub arp_term: bool,
    /// True if broadcast ARP that is not answered goes only to the port for unknown unicast, if there is one. With a BVI, it is flooded, and
    /// goes to that port, too.
    pub arp_ufwd: bool,
    /// Time in seconds after which a learned address that is not heard any more is forgotten. 0 is never.
    pub age: u16,
    /// Maximum number of learned addresses.
    pub limit: u32,
}

impl Policy {
    /// A domain that learns any number of addresses, forwards and floods.
    pub const PLAIN: Policy = Policy {
        learn: true,
        forward: true,
        flood: true,
        unknown: true,
        arp_term: false,
        arp_ufwd: false,
        age: 0,
        limit: u32::MAX,
    };
}

/// A bridge domain, for the workers.
#[derive(Debug)]
pub(crate) struct Domain {
    pub learn: bool,
    pub forward: bool,
    pub flood: bool,
    pub unknown: bool,
    /// The hosts for which the domain answers; `None` if it does not.
    pub answers: Option<Arc<Hosts>>,
    /// See [`Policy::arp_ufwd`].
    pub arp_ufwd: bool,
    /// See [`age`](Self::age()).
    pub age: u16,
    /// Stations that were heard last at this time or before are unknown.
    pub since: Option<u16>,
    pub epoch: u8,
    pub limit: usize,
    /// Number of learned addresses, and of those that are being learned.
    pub learned: Arc<AtomicUsize>,
    /// The ports: their interfaces and split-horizon groups.
    pub members: Box<[(u32, u8)]>,
    /// The port that gets the frames to unknown stations, instead of all ports. It is not among `members`.
    pub uu_fwd: Option<u32>,
    /// The router's own interface in the domain.
    pub bvi: Option<Bvi>,
}

impl Domain {
    /// Returns the time in seconds after which a learned address that was not heard is void. 0 is never.
    pub(crate) fn age(&self, now: u16) -> u16 {
        match self.since {
            None => self.age,
            // At least 1: 0 is no limit.
            Some(heard) => {
                now.wrapping_sub(heard).max(1).min(if self.age == 0 { u16::MAX } else { self.age })
            }
        }
    }
}

/// The router's own interface in a bridge domain: its bridge virtual interface (BVI).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bvi {
    /// The interface, a loopback.
    pub interface: u32,
    /// The key of its Ethernet address, as in the MAC table. An entry with this key has no effect.
    pub key: u64,
    /// The split-horizon group. 0 is no group.
    pub group: u8,
}

/// What the workers share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub macs: Map,
    pub domains: SlotReader<Domain>,
}

impl Shared {
    /// Takes room for one more address of a domain. Returns false if there is none.
    pub(crate) fn may_learn(&self, domain: &Domain) -> bool {
        let more = |learned: usize| (learned < domain.limit).then_some(learned + 1);
        domain.learned.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// Returns the room of an address that was not learned, or was forgotten.
    pub(crate) fn forget(&self, domain: &Domain) {
        domain.learned.fetch_sub(1, Relaxed);
    }
}
