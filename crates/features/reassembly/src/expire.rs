//! `ip4-reassembly-expire` and `ip6-reassembly-expire` drop the fragments of expired datagrams when the main
//! thread sends a message. If the first fragment of such a datagram has arrived, its source gets an ICMP
//! error (RFC 1122 section 3.3.2, RFC 792; RFC 8200 section 4.5).

use std::sync::Arc;

use buf::{Frame, Held};
use graph::{Cx, FrameNode, Out, Reasons, Verdict, edges, reasons};

use net::ip::{Cause, CauseInfo, Limit};

use crate::datagrams::Datagrams;
use crate::family::Fragmented;
use crate::fragment::Key;
use crate::shards::Shards;

/// Maximum number of datagrams of one shard that are removed per message. If there are more, the main thread sends another message.
const MOST: usize = 64;

edges! {
    /// The edges. The names are those of the IPv4 nodes; see [`FrameNode::EDGES`].
    pub enum Next { Report = "ip4-icmp-error" }
}
reasons! {
    pub enum Reason {
        Full = "full-timed-out", Warn, "the other fragments of a datagram for this router did not arrive in time";
    }
}

reasons! {
    /// Drop reasons with an ICMP error to the packet's source.
    enum Reported {
        Timeout = "reassembly-timeout", Warn, "the first fragment of a datagram whose other fragments did not arrive in time";
    }
}

/// Describes the ICMP error that the source of an expired datagram gets.
pub fn report<A: Fragmented>() -> CauseInfo {
    let (kind, code) = A::TIMEOUT;
    CauseInfo {
        kind,
        code,
        limit: Limit::Common,
        reason: &Reported::INFO[usize::from(Reported::Timeout.code())],
    }
}

pub struct ReassemblyExpire<A: Fragmented> {
    datagrams: Arc<Shards<Datagrams<Key<A>, Held>>>,
    /// The cause of the ICMP errors.
    cause: Cause,
}

impl<A: Fragmented> ReassemblyExpire<A> {
    /// Returns the node. It reports `cause` to the sources of expired datagrams.
    pub fn new(datagrams: &Arc<Shards<Datagrams<Key<A>, Held>>>, cause: Cause) -> ReassemblyExpire<A> {
        ReassemblyExpire { datagrams: datagrams.clone(), cause }
    }
}

impl<A: Fragmented> FrameNode for ReassemblyExpire<A> {
    const NAME: &'static str = A::FULL.expire;
    type Next = Next;
    type Drop = Reason;
    const EDGES: &'static [&'static str] = &[A::NODES.report];

    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let mut went = 0;
        for mut table in self.datagrams.each() {
            table.expire(cx.now, MOST, |first, mut held| {
                went += 1;
                if first {
                    held.packet().set_fwd(self.cause.to_raw());
                    out.emit(Next::Report, held);
                } else {
                    out.drop(Reason::Full, held);
                }
            });
        }
        cx.bufs.note_kept(-went);
        out.all(Verdict::Consume);
    }
}
