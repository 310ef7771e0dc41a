//! `ip4-redirect`: a feature of the output arc that reports a better first hop to a host (RFC 1812 section
//! 5.2.7.2).
//!
//! The host is on the network of the packet's next hop, and the packet leaves by its receive interface: the
//! host could have sent it there directly. The packet is forwarded nevertheless, and the host receives a
//! redirect, within the limits of other reports.
//!
//! Redirects are for hosts, never for networks, as the RFC requires. Packets with a source route, which must
//! not cause redirects, do not get here.
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
use net::ip::Ip;
use net::router::Hooks;
use net::setting::{Setting, Switch};

/// The feature, and its arc.
pub(crate) const FEATURE: &str = "ip4-redirect";
pub(crate) const ARC: &str = "ip4-output";

/// Whether hosts behind an interface are redirected to better first hops on its networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Redirects(pub bool);

impl Setting for Redirects {
    /// Redirects sent, by interface.
    type Counts = CounterSet<1>;
    const COUNTED: &'static str = "/feature/redirect";

    fn switches(&self) -> Vec<Switch> {
        vec![Switch { arc: ARC, feature: FEATURE, on: self.0 }]
    }
}

/// Adds the node.
///
/// # Errors
/// Fails without address space for the setting.
pub fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    let (tables, sent) = (t.clone(), hooks.setting::<Redirects>()?.counts);
    b.frame(move |s| Ip4Redirect::new(&tables, &sent, s.worker));
    b.feature(ARC, FEATURE, &[], &[]);
    Ok(())
}

edges! { pub enum Next { Continue = "next-feature", Lookup = "ip4-lookup" } }
reasons! {
    pub enum Reason {
        Limit = "unredirected-limit", Info, counted, "not redirected, but forwarded: too many reports to the packet's source, or in total";
        NoBuffer = "unredirected-no-buffer", Warn, counted, "not redirected, but forwarded: no buffer was free";
    }
}

struct Ip4Redirect {
    interfaces: SlotReader<Interface>,
    adjacencies: SlotReader<Adjacency>,
    reporter: Reporter<Ipv4Addr>,
    /// The redirects for the packets of a frame.
    redirects: Vec<Held>,
    /// Redirects sent, by interface.
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

    /// Returns the redirect for a packet, which begins with its IPv4 header; `None` if there is no better
    /// first hop.
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
        Some(self.reporter.report(cx, p, message, |_, _| Some(own.address)))
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
