//! `ip4-reassembly-expire`: told by the main thread that the time of some datagrams is over, drops what came of them. A
//! datagram whose first fragment came is reported to its source (RFC 1122 section 3.3.2, RFC 792).

use buf::Frame;
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};

use super::Reassembly;
use crate::icmp::Cause;

/// Datagrams of a shard that go at once; the main thread tells again if there are more.
const MOST: usize = 64;

edges! { pub enum Next { Report = "ip4-icmp-error" } }
reasons! {
    pub enum Reason {
        Full = "full-timed-out", Warn, "other fragments of its datagram, which is for this router, did not come in time";
        Shallow = "sv-timed-out", Warn, "the first fragment of its datagram did not come in time";
    }
}

pub struct Ip4ReassemblyExpire {
    tables: Reassembly,
}

impl Ip4ReassemblyExpire {
    pub fn new(tables: &Reassembly) -> Ip4ReassemblyExpire {
        Ip4ReassemblyExpire { tables: tables.clone() }
    }
}

impl FrameNode for Ip4ReassemblyExpire {
    const NAME: &'static str = super::EXPIRE;
    type Next = Next;
    type Drop = Reason;

    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let mut went = 0;
        for mut table in self.tables.full().each() {
            table.expire(cx.now, MOST, |first, mut held| {
                went += 1;
                if first {
                    held.packet().set_fwd(Cause::ReassemblyTimeout.to_raw());
                    out.emit(Next::Report, held);
                } else {
                    out.drop(Reason::Full, held);
                }
            });
        }
        for mut table in self.tables.shallow().each() {
            table.expire(cx.now, MOST, |held| {
                went += 1;
                out.drop(Reason::Shallow, held);
            });
        }
        cx.bufs.note_kept(-went);
        out.all(Verdict::Consume);
    }
}
