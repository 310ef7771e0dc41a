//! Traffic with a given number of flows, for routers that balance or track flows. Each flow is a four-tuple.

use super::build::{Ends, Fault};
use super::describe::{Field, Traffic};
use crate::engine::run::Flow;
use crate::sessions::{Tuple, tuples, with};

impl Traffic {
    /// Returns the traffic's flows. Their frames use `count` four-tuples in turn, in pseudorandom order, and vary in nothing else.
    /// All four-tuples have the same addresses, source ports of RFC 4814, and as few destination ports as possible.
    ///
    /// # Errors
    /// As [`flows`](Self::flows). Also if there are several kinds of frames (which would multiply the flows), the kind is not UDP, or
    /// fields other than the ports vary.
    pub fn in_flows(&self, ends: &Ends, count: u32) -> Result<Vec<Flow>, Fault> {
        let ports = [Field::SourcePort, Field::DestinationPort];
        let mut kinds = self.flows.iter().flat_map(|flow| &flow.frames);
        if kinds.clone().count() > 1 {
            return Err(Fault(
                "each kind of frame would have its own flows: use traffic with one kind of frame".into(),
            ));
        }
        if kinds.any(|kind| kind.vary.iter().any(|vary| !ports.contains(&vary.field))) {
            return Err(Fault(
                "fields other than the ports vary, which makes additional flows: use traffic in which only ports vary"
                    .into(),
            ));
        }
        let mut flows = self.flows(ends)?;
        for template in flows.iter_mut().flat_map(|flow| &mut flow.templates) {
            let tuple = Tuple::of(&template.bytes);
            let made = tuple.and_then(|of| with(template, &tuples(of, count, self.seed)));
            *template = made.ok_or_else(|| {
                Fault(
                    "the flows would differ in their UDP ports, but this traffic has none: use UDP traffic"
                        .into(),
                )
            })?;
        }
        Ok(flows)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use drivers::pktgen::{Maker, Stream};
    use wire::Mac;

    use super::*;
    use crate::traffic::{Family, How, Kind, Protocol, Vary, builtin};

    fn ends(reverse: bool) -> Ends {
        Ends::rfc(Mac([2; 6]), Mac([4; 6]), reverse)
    }

    #[test]
    fn all_flows_have_equally_many_frames() -> Result<(), Box<dyn std::error::Error>> {
        for (traffic, count) in [("rfc2544", 1), ("rfc2544", 1000), ("rfc5180", 70_000)] {
            for reverse in [false, true] {
                let traffic = builtin(traffic, 84).ok_or("built in")?;
                let flows = traffic.in_flows(&ends(reverse), count)?;
                let stream = Stream { templates: flows[0].templates.clone(), ..Stream::default() };
                let (mut maker, mut room) = (Maker::new(&stream)?, vec![0; buf::layout::DATA_ROOM]);
                let mut seen = HashMap::<Tuple, u32>::new();
                for _ in 0..3 * count {
                    let len = maker.make(&mut room);
                    *seen.entry(Tuple::of(&room[..len]).ok_or("UDP")?).or_default() += 1;
                }
                assert_eq!(seen.len(), count as usize);
                assert!(seen.values().all(|n| *n == 3));
            }
        }
        Ok(())
    }

    #[test]
    fn traffic_with_its_own_flows_is_refused() {
        let said = |kind: Kind| {
            let mut traffic = builtin("rfc2544", 64).expect("built in");
            traffic.flows[0].frames = vec![Kind { size: 64, ..kind }];
            traffic.in_flows(&ends(false), 5).map_or_else(|e| e.0, |_| "nothing".into())
        };
        let mix = builtin("imix", 0).expect("built in");
        assert!(
            mix.in_flows(&ends(false), 5)
                .is_err_and(|e| e.0.contains("each kind of frame would have its own"))
        );
        let udp = Kind::udp(Family::Ipv4, 64);
        assert_eq!(said(udp.clone()), "nothing");
        assert!(said(Kind { protocol: Protocol::Icmp, ..udp.clone() }).contains("UDP ports"));
        let vary = |field| vec![Vary { field, how: How::Random, min: 0, max: 9, step: 1 }];
        assert_eq!(said(Kind { vary: vary(Field::SourcePort), ..udp.clone() }), "nothing");
        assert!(said(Kind { vary: vary(Field::Source), ..udp }).contains("fields other than the ports"));
    }
}
