//! `ip4-redirect` is a feature of the output arc that reports a better first hop to a host (RFC 1812 section
//! 5.2.7.2).
//!
//! There is a better first hop if the packet leaves by the interface that received it, and the sending host
//! is on the same network as the packet's next hop: the host could have sent the packet there directly. The
//! packet is forwarded nevertheless. The host receives a redirect, within the limits for ICMP errors.
//!
//! A redirect is for a single destination host, never for a network, as the RFC requires. Packets with a
//! source route, which must not cause redirects, do not get to this node.
//!
//! IPv6 redirects (RFC 4861 section 8) are not sent.

use std::io;
use std::net::Ipv4Addr;

use buf::{FRAME_SIZE, Flags, Frame, Held, Packet};
use graph::{Builder, Cx, FrameNode, GraphError, Out, Verdict, edges, reasons};
use infra::class_a::SlotReader;
use infra::counters::{CounterSet, Lane};
use wire::Ipv4Header;
use wire::icmpv4::{kind, redirect};

use net::Tables;
use net::adjacency::Adjacency;
use net::icmp::{Message, Reporter, Unreported};
use net::interface::Interface;
use net::ip::{Ip, Limit};
use net::router::Hooks;
use net::setting::{Setting, Switch};

/// Name of the feature.
pub(crate) const FEATURE: &str = "ip4-redirect";
/// Name of the feature's arc.
pub(crate) const ARC: &str = "ip4-output";

/// Whether the router sends redirects to hosts on an interface's link when there is a better first hop on the
/// same network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Redirects(pub bool);

impl Setting for Redirects {
    /// Number of redirects sent, by interface.
    type Counts = CounterSet<1>;
    const COUNTED: &'static str = "/feature/redirect";

    fn switches(&self) -> Vec<Switch> {
        vec![Switch { arc: ARC, feature: FEATURE, on: self.0 }]
    }
}

/// Adds the node.
///
/// # Errors
/// Fails if address space for the table of settings cannot be reserved.
pub fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    let (tables, sent) = (t.clone(), hooks.setting::<Redirects>()?.counts);
    b.frame(move |s| Ip4Redirect::new(&tables, &sent, s.worker));
    b.feature(ARC, FEATURE, &[], &[]);
    Ok(())
}

edges! { pub enum Next { Continue = "next-feature", Lookup = "ip4-lookup" } }
reasons! {
    pub enum Reason {
        Limit = "unredirected-limit", Info, counted, "the packet was forwarded without a redirect: the rate limit of ICMP errors is exceeded, for its source or in total";
        NoBuffer = "unredirected-no-buffer", Warn, counted, "the packet was forwarded without a redirect: no buffer was free";
    }
}

struct Ip4Redirect {
    interfaces: SlotReader<Interface>,
    adjacencies: SlotReader<Adjacency>,
    reporter: Reporter<Ipv4Addr>,
    /// The redirects for the packets of the current frame.
    redirects: Vec<Held>,
    /// Number of redirects sent, by interface.
    sent: Lane<1>,
}

impl Ip4Redirect {
    fn new(t: &Tables, sent: &CounterSet<1>, worker: usize) -> io::Result<Ip4Redirect> {
        Ok(Ip4Redirect {
            interfaces: t.interfaces.clone(),
            adjacencies: t.adjacencies.clone(),
            reporter: Reporter::default(),
            redirects: Vec::with_capacity(FRAME_SIZE),
            sent: sent.lane(worker)?,
        })
    }

    /// Returns the redirect for a packet, which must begin with its IPv4 header; `None` if there is no better
    /// first hop. An error says why the redirect was not made.
    fn redirect(&mut self, cx: &mut Cx<'_>, p: &mut Packet<'_>) -> Option<Result<Held, Unreported>> {
        let next_hop = Ipv4Addr::of(self.adjacencies.get(cx.guard, p.fwd())?.next_hop)?;
        let source = p.peek::<Ipv4Header>().src();
        let own = self.interfaces.get(cx.guard, p.rx_if())?.address_beside(source)?;
        if !own.prefix().contains(next_hop) || next_hop == source {
            return None;
        }
        let message = Message { kind: kind::REDIRECT, code: redirect::HOST, rest: next_hop.to_bits() };
        // The source must be the router address that the host uses: it accepts no redirect from another (RFC
        // 1122 section 3.2.2.2).
        Some(self.reporter.report(cx, p, message, Limit::Common, |_, _| Some(own.address)))
    }
}

impl FrameNode for Ip4Redirect {
    const NAME: &'static str = FEATURE;
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = net::trace::ethernet;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let (mut limited, mut no_buffer) = (0, 0);
        for mut p in frame.packets() {
            let link = usize::from(p.l2_len());
            if p.rx_if() != p.tx_if() || p.flags().any(Flags::LOCAL_ORIGIN) || !p.advance(link) {
                continue;
            }
            match self.redirect(cx, &mut p) {
                Some(Ok(held)) => {
                    self.sent.add(p.rx_if(), [1]);
                    self.redirects.push(held);
                }
                Some(Err(Unreported::Source | Unreported::Limit)) => limited += 1,
                Some(Err(Unreported::NoBuffer)) => no_buffer += 1,
                Some(Err(Unreported::Forbidden | Unreported::NoAddress)) | None => {}
            }
            p.rewind_to_l2();
        }
        out.count(Reason::Limit, limited);
        out.count(Reason::NoBuffer, no_buffer);
        self.redirects.drain(..).for_each(|redirect| out.emit(Next::Lookup, redirect));
        out.all(Verdict::Next(Next::Continue));
    }
}
