//! The setting and the commands of MSS clamping.

use std::sync::LazyLock;

use model::cli::{Args, CliError, Output};
use model::family::Family;
use model::metrics::{Kind, Lines, Metric};
use model::schema::{Bad, Described, Schema, inline, number, words};
use net::feature::{self, App, Configured, Counter, Registrar, Shown};
use net::router::{InterfaceInfo, Router, RouterError};
use serde::Serialize;

use crate::node::{Clamping, Clamps, Mss};

/// Allowed limits of the MSS in bytes, for both families.
const MSS_SIZES: std::ops::RangeInclusive<u16> = wire::ipv4::MIN_MTU - 20..=u16::MAX - 40;

static LARGEST: Metric = Metric {
    name: "volley_interface_tcp_mss_clamp_bytes",
    kind: Kind::Gauge,
    labels: &["interface", "af", "direction"],
    help: "The limit of the TCP MSS option, on interfaces with a limit.",
};
static LOWERED: Metric = Metric {
    name: "volley_interface_tcp_mss_clamped_packets_total",
    kind: Kind::Counter,
    labels: &["interface", "af"],
    help: "Packets whose TCP MSS option was lowered, on interfaces with a limit.",
};

/// Sets the limit. If no direction is set, the limit applies to both directions.
fn resize(mss: &mut Mss, most: u16) {
    let clamping = if mss.clamping == Clamping::Off { Clamping::Both } else { mss.clamping };
    *mss = Mss { clamping, most };
}

fn direction(mss: Mss) -> Clamping {
    if mss.clamping == Clamping::Off { Clamping::Both } else { mss.clamping }
}

/// Returns the fields of `tcp-mss-clamp`.
fn clamps() -> &'static Schema<Clamps> {
    static SCHEMA: LazyLock<Schema<Clamps>> = LazyLock::new(|| {
        Schema::new(Clamps::default())
            .field(
                "ip4",
                number(MSS_SIZES).unit("bytes"),
                |c| c.0.ip4.most,
                |c, most| resize(&mut c.0.ip4, most),
                "The largest MSS of TCP over IPv4.",
            )
            .field(
                "direction",
                words(&Clamping::ALL, Clamping::direction),
                |c| direction(c.0.ip4),
                |c, clamping| c.0.ip4.clamping = clamping,
                "For IPv4: received packets (`rx`), sent packets (`tx`), or both.",
            )
            .field(
                "ip6",
                number(MSS_SIZES).unit("bytes"),
                |c| c.0.ip6.most,
                |c, most| resize(&mut c.0.ip6, most),
                "The largest MSS of TCP over IPv6.",
            )
            .field(
                "ip6-direction",
                words(&Clamping::ALL, Clamping::direction),
                |c| direction(c.0.ip6),
                |c, clamping| c.0.ip6.clamping = clamping,
                "For IPv6: received packets (`rx`), sent packets (`tx`), or both.",
            )
            .check(|clamps| {
                if *clamps == Clamps::default() {
                    return Err(Bad::new("", "the MSS is missing: set \"ip4\" or \"ip6\""));
                }
                for (mss, family, field) in
                    [(clamps.0.ip4, "ip4", "direction"), (clamps.0.ip6, "ip6", "ip6-direction")]
                {
                    if mss.clamping != Clamping::Off && mss.most == 0 {
                        return Err(Bad::new(field, format!("the MSS is missing: set \"{family}\"")));
                    }
                }
                Ok(())
            })
    });
    &SCHEMA
}

impl Described for Clamps {
    fn schema() -> &'static Schema<Self> {
        static SCHEMA: LazyLock<Schema<Clamps>> = LazyLock::new(|| {
            Schema::new(Clamps::default()).field(
                "tcp-mss-clamp",
                inline(clamps),
                |c| *c,
                |c, clamps| *c = clamps,
                "Lowers the MSS option of TCP in packets on the interface.",
            )
        });
        &SCHEMA
    }
}

impl Configured for Clamps {
    type Setting = Self;
    const COUNTERS: &'static [Counter<Self>] = &[
        Counter { metric: &LOWERED, labels: &["ip4"], is_used: |c| c.0.ip4.clamping != Clamping::Off },
        Counter { metric: &LOWERED, labels: &["ip6"], is_used: |c| c.0.ip6.clamping != Clamping::Off },
    ];
    const METRICS: &'static [&'static Metric] = &[&LARGEST];

    fn resolve(&self, _: &Router) -> Result<Self, RouterError> {
        Ok(*self)
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
            "{feature} needs an MSS: use \"set interface tcp-mss-clamp {interface} {family} enable {family}-mss 1400\", \
             or \"tcp-mss-clamp\" in a YAML file"
        ))
    }

    fn collect(router: &Router, i: &InterfaceInfo, out: &mut Lines) {
        let limits = router.setting::<Clamps>(i.index).0.each();
        for (family, mss) in Family::ALL.into_iter().zip(limits) {
            if mss.clamping != Clamping::Off {
                out.add(&LARGEST, &[&i.name, family.word(), mss.clamping.direction()], mss.most);
            }
        }
    }
}

/// Declares the setting and its commands.
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.setting::<Clamps>();
    let which = "{enable | rx | tx | disable}";
    let (mss4, mss6) = (clamps().syntax("ip4", "mss4"), clamps().syntax("ip6", "mss6"));
    r.command(
        &format!(
            "set interface tcp-mss-clamp <interface:interface> {{ip4 {which} [ip4-mss {mss4}] [ip6 {which}] \
             [ip6-mss {mss6}] | ip6 {which} [ip6-mss {mss6}]}}"
        ),
        "Lower the MSS option of TCP in packets on an interface, in both directions or one. A family that is not given \
         stays unchanged.",
        set,
    );
    r.command(
        "show interface tcp-mss-clamp",
        "Show the interfaces with MSS clamping, and the number of packets whose MSS was lowered.",
        |_, a| {
            let headings = ["Interface", "Family", "Direction", "MSS (bytes)", "Lowered packets"];
            Ok(feature::show(a, &headings, clamped, cells))
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

/// Returns the clamping that the arguments request for one family; `None` if they do not name the family.
fn wanted(a: &Args, family: Family, size: &str) -> Result<Option<Mss>, CliError> {
    let family = family.word();
    let most = a.get::<u16>(size);
    let Some(word) = a.behind(family) else {
        return most.map_or(Ok(None), |_| {
            Err(a.fault(
                size,
                format!(
                    "the direction of the MSS is missing: add {family} enable, {family} rx or {family} tx"
                ),
            ))
        });
    };
    let clamping = Clamping::ALL.into_iter().find(|clamping| clamping.word() == word);
    match (clamping, most) {
        (None, _) => Ok(Some(Mss::default())),
        (Some(clamping), Some(most)) => Ok(Some(Mss { clamping, most })),
        (Some(_), None) => {
            Err(a.fault("interface", format!("the MSS is missing: add it, such as {family}-mss 1400")))
        }
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

fn clamped(shown: &Shown<'_, Clamps>) -> Vec<Clamp> {
    let families = Family::ALL.into_iter().zip(shown.value.0.each()).zip(&shown.counted);
    let on = families.filter(|((_, mss), _)| mss.clamping != Clamping::Off);
    let row = |((family, mss), lowered): ((Family, Mss), &u64)| Clamp {
        interface: shown.interface.name.clone(),
        family: family.word(),
        direction: mss.clamping.direction(),
        mss_bytes: mss.most,
        lowered_packets: *lowered,
    };
    on.map(row).collect()
}

fn cells(clamp: &Clamp) -> Vec<String> {
    let Clamp { interface, family, direction, mss_bytes, lowered_packets } = clamp;
    vec![
        interface.clone(),
        family.to_string(),
        direction.to_string(),
        mss_bytes.to_string(),
        lowered_packets.to_string(),
    ]
}
