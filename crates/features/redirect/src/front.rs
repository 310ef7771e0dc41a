//! The setting and the commands of redirects.

use std::sync::LazyLock;

use model::metrics::{Kind, Metric};
use model::schema::{Described, Schema, truth};
use net::feature::{self, App, Configured, Counter, Registrar, Shown};
use net::router::{Router, RouterError};
use serde::Serialize;

use crate::node::{ARC, FEATURE, Redirects};

static SENT: Metric = Metric {
    name: "volley_interface_ip_redirects_total",
    kind: Kind::Counter,
    labels: &["interface"],
    help: "ICMP redirects sent to hosts on the interface's link, on interfaces that send redirects.",
};

impl Described for Redirects {
    fn schema() -> &'static Schema<Self> {
        static SCHEMA: LazyLock<Schema<Redirects>> = LazyLock::new(|| {
            Schema::new(Redirects::default()).field(
                "ip-redirects",
                truth(),
                |r| r.0,
                |r, on| r.0 = on,
                "Reports better first hops on the interface's network to hosts, by ICMP redirects (RFC 1812 section \
                 5.2.7.2). IPv4 only.",
            )
        });
        &SCHEMA
    }
}

impl Configured for Redirects {
    type Setting = Self;
    const COUNTERS: &'static [Counter<Self>] =
        &[Counter { metric: &SENT, labels: &[], is_used: |redirects| redirects.0 }];

    fn resolve(&self, _: &Router) -> Result<Self, RouterError> {
        Ok(*self)
    }

    fn dump(&self, interface: &str) -> Vec<String> {
        self.0.then(|| format!("set interface ip redirects {interface} enable")).into_iter().collect()
    }

    fn way(feature: &str, interface: &str) -> Option<String> {
        let way = || {
            format!(
                "{feature} has its own setting: use \"set interface ip redirects {interface} enable\", or \
                 \"ip-redirects\" in a YAML file"
            )
        };
        (feature == FEATURE).then(way)
    }

    fn switch_by_name(&mut self, arc: &str, feature: &str, on: bool) -> bool {
        let known = (arc, feature) == (ARC, FEATURE);
        self.0 = if known { on } else { self.0 };
        known
    }
}

/// Declares the setting and its commands.
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.setting::<Redirects>();
    r.command(
        "set interface ip redirects <interface:interface> [{enable | disable}]",
        "Enable or disable ICMP redirects on an interface: they report better first hops on its network to hosts.",
        |c, a| {
            let on = !a.has("disable");
            feature::set(c, a, |redirects: &mut Redirects| redirects.0 = on)
        },
    );
    r.command(
        "show interface ip redirects",
        "Show the interfaces with ICMP redirects enabled, and the number of redirects sent.",
        |_, a| Ok(feature::show(a, &["Interface", "Sent redirects"], row, cells)),
    );
}

#[derive(Serialize)]
struct Sending {
    interface: String,
    sent_redirects: u64,
}

fn row(shown: &Shown<'_, Redirects>) -> Vec<Sending> {
    let sent_redirects = shown.counted.iter().sum();
    vec![Sending { interface: shown.interface.name.clone(), sent_redirects }]
}

fn cells(sending: &Sending) -> Vec<String> {
    vec![sending.interface.clone(), sending.sent_redirects.to_string()]
}
