//! The largest segments of TCP, lowered as they pass.

use model::cli::{Args, CliError, Output, PAGE, Rows, Table};
use model::family::Family;
use model::metrics::{Kind, Lines, Metric};
use model::yaml::{Fields, Node, Reader, Text};
use net::feature::{self, App, Configured, Registrar};
use net::ip::PerFamily;
use net::router::{InterfaceInfo, Router, RouterError};
use serde::Serialize;

use crate::node::{Clamping, Clamps, Mss};

/// Bytes of a TCP segment over IPv4 that there may be at most: those of a packet without its headers.
const MSS_SIZES: std::ops::RangeInclusive<u16> = wire::ipv4::MIN_MTU - 20..=u16::MAX - 40;

static LARGEST: Metric = Metric {
    name: "volley_interface_tcp_mss_clamp_bytes",
    kind: Kind::Gauge,
    labels: &["interface", "af", "direction"],
    help: "The largest segment that TCP may agree on in packets that pass by the interface, where that is lowered.",
};
static LOWERED: Metric = Metric {
    name: "volley_interface_tcp_mss_clamped_packets_total",
    kind: Kind::Counter,
    labels: &["interface", "af"],
    help: "Packets in which the largest segment of TCP was lowered, of interfaces where it is.",
};

impl Configured for Clamps {
    type Setting = Self;
    const METRICS: &'static [&'static Metric] = &[&LARGEST, &LOWERED];

    fn resolve(&self, _: &Router) -> Result<Self, RouterError> {
        Ok(*self)
    }

    fn read(r: &mut Reader, fields: &mut Fields<'_>) -> Self {
        fields.take("tcp-mss-clamp").map(|node| read(r, node)).map(Clamps).unwrap_or_default()
    }

    fn write(&self, to: &mut Text<'_>) {
        let clamped = [("ip4", "direction", self.0.ip4), ("ip6", "ip6-direction", self.0.ip6)]
            .into_iter()
            .filter_map(|(family, direction, Mss { clamping, most })| match clamping {
                Clamping::Off => None,
                Clamping::Both => Some(format!("{family}: {most}")),
                one => Some(format!("{family}: {most}, {direction}: {}", one.word())),
            });
        let clamped: Vec<String> = clamped.collect();
        to.field("tcp-mss-clamp", (!clamped.is_empty()).then(|| format!("{{ {} }}", clamped.join(", "))));
    }

    fn dump(&self, interface: &str) -> Vec<String> {
        let on = Family::ALL.into_iter().zip(self.0.each()).filter(|(_, mss)| mss.clamping != Clamping::Off);
        let line = |(family, Mss { clamping, most }): (Family, Mss)| {
            let (which, family) = (clamping.word(), family.word());
            format!("set interface tcp-mss-clamp {interface} {family} {which} {family}-mss {most}")
        };
        on.map(line).collect()
    }

    fn way(feature: &str, interface: &str) -> Option<String> {
        let family = Mss::family_of(feature)?;
        Some(format!(
            "{feature} is set with its size: \"set interface tcp-mss-clamp {interface} {family} enable {family}-mss 1400\", \
             in a YAML file \"tcp-mss-clamp\""
        ))
    }

    fn collect(router: &Router, i: &InterfaceInfo, out: &mut Lines) {
        let limits = router.setting::<Clamps>(i.index).0.each();
        for ((family, mss), lowered) in Family::ALL.into_iter().zip(limits).zip(router.counted::<Self>(i)) {
            if mss.clamping != Clamping::Off {
                out.add(&LARGEST, &[&i.name, family.word(), mss.clamping.direction()], mss.most);
                out.add(&LOWERED, &[&i.name, family.word()], lowered);
            }
        }
    }

    fn examples() -> Vec<Self> {
        let all = [Clamping::Off, Clamping::Rx, Clamping::Tx, Clamping::Both];
        let mss = |clamping, most| match clamping {
            Clamping::Off => Mss::default(),
            clamping => Mss { clamping, most },
        };
        let pairs = all.into_iter().flat_map(|ip4| all.map(|ip6| (mss(ip4, 1400), mss(ip6, 1380))));
        pairs.map(|(ip4, ip6)| Clamps(PerFamily { ip4, ip6 })).collect()
    }
}

/// `tcp-mss-clamp`: the largest segment over each family, and whether of packets in one direction only.
fn read(r: &mut Reader, node: &Node) -> PerFamily<Mss> {
    let mut fields = r.fields(node);
    let mut said = false;
    let all = [("ip4", "direction"), ("ip6", "ip6-direction")].map(|(family, direction)| {
        let words = [("both", Clamping::Both), ("rx", Clamping::Rx), ("tx", Clamping::Tx)];
        let word = fields.take(direction).map(|n| (n.at, r.word(n, &words.map(|(word, _)| word))));
        let most = fields.take(family).map(|n| r.number(n, MSS_SIZES));
        said |= most.is_some() || word.is_some();
        if most.is_none()
            && let Some((at, _)) = word
        {
            r.fault(at, format!("the largest segment is missing: \"{family}\""));
        }
        let word = word.and_then(|(_, word)| word).unwrap_or("both");
        let clamping = words.into_iter().find(|(name, _)| *name == word).map(|(_, clamping)| clamping);
        let mss = |most| Some(Mss { clamping: clamping?, most });
        most.flatten().and_then(mss)
    });
    fields.end(r);
    if !said {
        r.fault(node.at, "the largest segment is missing: \"ip4\" or \"ip6\"");
    }
    let [ip4, ip6] = all.map(Option::unwrap_or_default);
    PerFamily { ip4, ip6 }
}

/// Declares the setting and its commands.
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.setting::<Clamps>();
    let which = "{enable | rx | tx | disable}";
    r.command(
        &format!(
            "set interface tcp-mss-clamp <interface:interface> {{ip4 {which} [ip4-mss <mss4:u16>] [ip6 {which}] \
             [ip6-mss <mss6:u16>] | ip6 {which} [ip6-mss <mss6:u16>]}}"
        ),
        "Lower the largest segment that TCP's ends tell each other, in packets that pass by an interface, or in one direction only. \
         A family of which nothing is said stays as it is.",
        set,
    );
    r.command(
        "show interface tcp-mss-clamp",
        "Show where TCP's largest segments are lowered, and in how many packets.",
        |_, a| {
            let table = Table::new(&[
                "Interface",
                "Family",
                "Direction",
                "Largest segment (bytes)",
                "Lowered packets",
            ]);
            Ok(Output::rows(Clamped { next: 0, table }, a.json()))
        },
    );
}

fn set<C: App>(c: &mut C, a: &Args) -> Result<Output<C>, CliError> {
    let (ip4, ip6) = (wanted(a, Family::V4, "mss4")?, wanted(a, Family::V6, "mss6")?);
    feature::set(c, a, |Clamps(limits)| {
        limits.ip4 = ip4.unwrap_or(limits.ip4);
        limits.ip6 = ip6.unwrap_or(limits.ip6);
    })
}

/// What is said of a family.
fn wanted(a: &Args, family: Family, size: &str) -> Result<Option<Mss>, CliError> {
    let family = family.word();
    let most = a.get::<u16>(size);
    let Some(word) = a.behind(family) else {
        return most.map_or(Ok(None), |_| Err(a.fault(size, format!("a size without \"{family} enable\""))));
    };
    let clamping = Clamping::ALL.into_iter().find(|clamping| clamping.word() == word);
    match (clamping, most) {
        (None, _) => Ok(Some(Mss::default())),
        (Some(clamping), Some(most)) if MSS_SIZES.contains(&most) => Ok(Some(Mss { clamping, most })),
        (Some(_), Some(_)) => {
            let message =
                format!("the largest segment is {} to {} bytes", MSS_SIZES.start(), MSS_SIZES.end());
            Err(a.fault(size, message))
        }
        (Some(_), None) => Err(a.fault("interface", format!("it needs a size: {family}-mss 1400, say"))),
    }
}

#[derive(Serialize)]
struct Clamp {
    interface: String,
    family: &'static str,
    direction: &'static str,
    mss_bytes: u16,
    lowered_packets: u64,
}

/// Interfaces with a largest segment, from an index on.
struct Clamped {
    next: u32,
    table: Table,
}

impl<C: App> Rows<C> for Clamped {
    type Row = Clamp;

    fn next(&mut self, c: &C, page: &mut Vec<Clamp>) -> bool {
        let router = c.router();
        let mut last = None;
        for i in router.interfaces_from(self.next).take(PAGE) {
            let limits = router.setting::<Clamps>(i.index).0;
            let lowered = router.attached::<Clamps>().map(|mss| mss.counts.read(i.index)).unwrap_or_default();
            for ((family, mss), lowered_packets) in Family::ALL.into_iter().zip(limits.each()).zip(lowered) {
                if mss.clamping == Clamping::Off {
                    continue;
                }
                let (interface, mss_bytes, direction) = (i.name.clone(), mss.most, mss.clamping.direction());
                let family = family.word();
                page.push(Clamp { interface, family, direction, mss_bytes, lowered_packets });
            }
            last = Some(i.index);
        }
        self.next = last.map_or(0, |last| last + 1);
        last.is_some()
    }

    fn text(&mut self, page: &[Clamp], out: &mut String) {
        for clamp in page {
            self.table.row(vec![
                clamp.interface.clone(),
                clamp.family.into(),
                clamp.direction.into(),
                clamp.mss_bytes.to_string(),
                clamp.lowered_packets.to_string(),
            ]);
        }
        self.table.flush(out);
    }
}
