//! `ip4-sv-reassembly-expire` drops the fragments of expired datagrams whose first fragment has not arrived. The main thread sends
//! this node a message when datagrams have expired.

use buf::Frame;
use graph::{Cx, FrameNode, NoNext, Out, Verdict, reasons};

use crate::shallow::{INFO, Known};

/// Maximum number of datagrams of a shard that one message removes; the main thread sends another message if
/// there are more.
const MOST: usize = 64;

reasons! {
    pub enum Reason {
        TimedOut = "sv-timed-out", Warn, "the first fragment of its datagram did not arrive in time";
    }
}

pub struct Ip4SvReassemblyExpire(Known);

impl Ip4SvReassemblyExpire {
    pub fn new(known: &Known) -> Ip4SvReassemblyExpire {
        Ip4SvReassemblyExpire(known.clone())
    }
}

impl FrameNode for Ip4SvReassemblyExpire {
    const NAME: &'static str = INFO.expire;
    type Next = NoNext;
    type Drop = Reason;

    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Frame, out: &mut Out<'_, NoNext, Reason>) {
        let mut went = 0;
        for mut table in self.0.each() {
            table.expire(cx.now, MOST, |held| {
                went += 1;
                out.drop(Reason::TimedOut, held);
            });
        }
        cx.bufs.note_kept(-went);
        out.all(Verdict::Consume);
    }
}
