//! Tests that feature fields stay with their packets on the way through a graph.

use std::sync::{Arc, Mutex};

use buf::{FeatureField, Frame};

use super::toys::{DROP, HOLD, Kept, Spec, Toy};
use super::{Rig, refused};
use crate::{Cx, EdgeId, FrameNode, NoNext, NoReason, Out, PUNT, Verdict};

/// Writes the number of each packet into two fields. Only packets with even numbers get the second field.
struct Write(FeatureField<u32>, FeatureField<[u8; 3]>);

impl FrameNode for Write {
    const NAME: &'static str = "write";
    type Next = NoNext;
    type Drop = NoReason;

    fn run(&mut self, _: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, NoNext, NoReason>) {
        out.each(frame, |_, p| {
            let n = p.hash();
            *p.feature_mut(self.0) = n;
            if n % 2 == 0 {
                *p.feature_mut(self.1) = [n as u8; 3];
            }
            Verdict::Edge(EdgeId::from_raw(0))
        });
    }
}

/// For each packet: its number, and its two fields.
type Seen = Arc<Mutex<Vec<(u32, u32, [u8; 3])>>>;

struct Read(FeatureField<u32>, FeatureField<[u8; 3]>, Seen);

impl FrameNode for Read {
    const NAME: &'static str = "read";
    type Next = NoNext;
    type Drop = NoReason;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, _: &mut Out<'_, NoNext, NoReason>) {
        let mut seen = self.2.lock().expect("a list");
        seen.extend(frame.packets().map(|p| (p.hash(), p.feature(self.0), p.feature(self.1))));
        drop(seen);
        frame.free(cx.bufs);
    }
}

const NOT_YET: &str = "the feature \"third\" has no field: install it before the features that read it";

#[test]
fn fields_survive_edges_holding_punts_and_injection() {
    let seen = Seen::default();
    let mut back = None;
    let mut fields = None;
    let mut rig = Rig::new(|b, log| {
        let first = b
            .feature_field::<u32>("first", |n, text| text.push_str(&format!("number {n}")))
            .expect("a field");
        let second = b
            .feature_field::<[u8; 3]>("second", |n, text| text.push_str(&format!("{n:?}")))
            .expect("a field");
        assert_eq!(b.field_of::<u32>("third").err().map(|e| e.0).as_deref(), Some(NOT_YET));
        fields = Some((b.field_of::<u32>("first").expect("it has one"), second));
        b.punt_reason("toy", 1_000_000);
        b.edge("source", "write").expect("an edge");
        b.frame(move |_| Ok(Write(first, second)));
        b.edge("write", "a").expect("an edge");
        Toy::install(b, log, &Kept::default(), "a", &["read", "b", PUNT]).expect("a toy");
        Toy::install(b, log, &Kept::default(), "b", &["read"]).expect("a toy");
        let to = seen.clone();
        b.frame(move |_| Ok(Read(first, second, to.clone())));
        back = Some(b.inject_to("read").expect("an edge"));
    });
    let way = |id: u32| match id % 5 {
        0 => vec![0],
        1 => vec![1, 0],
        2 => vec![HOLD, 1, HOLD, 0],
        3 => vec![2],
        _ => vec![DROP],
    };
    let n = 200u32;
    rig.source.push((0..n).map(|id| Spec { id, bytes: way(id), ..Spec::default() }).collect());
    let (tracer, source) = (rig.blueprint.tracer().clone(), rig.blueprint.node("source").expect("a node"));
    tracer.add(source, 3, None);
    rig.turn();
    let (first, _) = fields.expect("fields");
    while let Some(mut punted) = rig.port.punted() {
        let p = punted.packet.packet();
        assert_eq!(p.feature(first), p.hash());
        rig.port.inject(back.expect("an edge"), punted.packet).map_err(|p| p.discard()).expect("room");
    }
    rig.turn();
    let mut all = std::mem::take(&mut *seen.lock().expect("a list"));
    all.sort_unstable();
    let expected =
        (0..n).filter(|id| id % 5 != 4).map(|id| (id, id, if id % 2 == 0 { [id as u8; 3] } else { [0; 3] }));
    assert!(all.into_iter().eq(expected));
    rig.ends_clean();
    let told = |trace| {
        let entries = tracer.entries();
        let of = entries.iter().filter(|e| e.trace == trace).map(|e| tracer.describe(e));
        of.map(|text| text.lines().collect::<Vec<_>>().join("|")).collect::<Vec<_>>()
    };
    // The node that writes the fields, and the nodes after it. Zeros are not shown. The last node freed the
    // packet.
    let (one, two) = ("  first: number 1", "  first: number 2|  second: [2, 2, 2]");
    assert_eq!(told(2), ["", one, one, one, one]);
    assert_eq!(told(3), ["", two, &format!("{two}|  held"), &format!("{two}|  held"), two]);
}

#[test]
fn fields_that_exceed_the_room_stop_the_start() {
    let text = refused(|b, _| {
        b.feature_field::<[u32; 12]>("nat44", |_, _| ())?;
        b.feature_field::<[u32; 5]>("acl", |_, _| ()).map(|_| ())
    });
    assert_eq!(
        text,
        "the graph cannot be built: the field of the feature \"acl\" (20 bytes) does not fit into the 64 bytes \
         that all features share: \"nat44\" has 48"
    );
}
