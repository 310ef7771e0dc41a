//! Hosts of bridge domains whose Ethernet addresses are configured, as objects of the configuration: their domains answer ARP requests and
//! neighbor solicitations for them. And the command for them.

use std::net::IpAddr;
use std::ops::Bound;

use model::cli::{Args, CliError, Output, PAGE, Rows};
use model::key::{Key, Kind, Need};
use model::object::{Change, Object, Refused, View, World, refuse};
use model::schema::{Parsed, Valued, parsed};
use model::yaml::{self, quoted};
use net::feature::App;
use net::objects::Host;
use serde::Serialize;
use wire::Mac;

use super::Bridges;
use super::commands::domain;
use super::objects::{DOMAIN, id_of};

/// The Ethernet address of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgeHost(pub Mac);

impl Kind for BridgeHost {
    /// The domain's number, and the host's address.
    type Key = (u32, IpAddr);
    const NAME: &'static str = "bridge-host";
    const PHASE: u16 = 117;

    fn title((id, ip): &(u32, IpAddr)) -> String {
        format!("the host {ip} of bridge domain {id}")
    }
}

impl BridgeHost {
    /// Returns the key of a host of a domain.
    pub fn key(id: u32, ip: IpAddr) -> Key {
        Key::of::<BridgeHost>(&(id, ip))
    }
}

impl<W: Host> Object<W> for BridgeHost {
    fn validate(
        &self,
        (_, ip): &(u32, IpAddr),
        _: &View<'_, W>,
        _: &<W as World>::Abilities,
    ) -> Result<(), Refused> {
        if ip.is_multicast() || ip.is_unspecified() {
            return refuse(format!("{ip} is no address of a host"));
        }
        if !self.0.is_unicast() {
            return refuse(format!("{} is no address of a station", self.0));
        }
        Ok(())
    }

    fn apply(&self, (id, ip): &(u32, IpAddr), _: Option<&Self>, world: &mut W) -> Result<(), Refused> {
        Ok(world.router().state_mut::<Bridges>()?.set_host(*id, *ip, Some(self.0))?)
    }

    fn withdraw(&self, (id, ip): &(u32, IpAddr), world: &mut W) -> Result<(), Refused> {
        Ok(world.router().state_mut::<Bridges>()?.set_host(*id, *ip, None)?)
    }

    fn dump(&self, (id, ip): &(u32, IpAddr), _: bool) -> Vec<String> {
        vec![format!("set bridge-domain arp entry {id} {ip} {}", self.0)]
    }

    fn needs(&self, (id, _): &(u32, IpAddr), to: &mut dyn FnMut(Need)) {
        to(Need::new(&DOMAIN, *id));
    }
}

impl Valued for BridgeHost {
    type Form = Parsed<Mac>;

    fn names() -> Parsed<(u32, IpAddr)> {
        let read = |text: &str| {
            let (id, ip) = text.split_once(' ').unwrap_or((text, ""));
            let ip = ip.parse().map_err(|_| {
                format!("\"{text}\": expected the number of a bridge domain, a space and an IP address")
            })?;
            Ok((id_of(id)?, ip))
        };
        let write = |(id, ip): &(u32, IpAddr)| quoted(&format!("{id} {ip}"));
        parsed("a bridge domain and an IP address", &["10 192.0.2.5", "7 2001:db8::5"], read, write)
    }

    fn form() -> Parsed<Mac> {
        let read = |text: &str| text.parse().map_err(|_| format!("\"{text}\" is no Ethernet address"));
        parsed("an Ethernet address", &["02:00:00:00:00:01"], read, |mac| yaml::mac(*mac))
    }

    fn value(&self) -> Mac {
        self.0
    }

    fn with(mac: Mac) -> BridgeHost {
        BridgeHost(mac)
    }
}

/// Adds or removes hosts of a domain.
pub(super) fn host<C: App>(c: &mut C, a: &Args) -> Result<Output<C>, CliError> {
    let bd = a.need("bd")?;
    if domain(c, bd).is_none() {
        return Err(a.fault(
            "bd",
            format!("there is no bridge domain {bd}: use \"create bridge-domain {bd}\" first"),
        ));
    }
    if a.has("del-all") {
        let all = c.store().tree().range(Key::beginning::<BridgeHost>(bd));
        let changes = all.map(|(key, _)| Change::remove(key.clone())).collect();
        c.transact(changes)?;
        return Ok(Output::none());
    }
    let (ip, mac) = (a.need::<IpAddr>("ip")?, a.need::<Mac>("mac")?);
    let key = BridgeHost::key(bd, ip);
    let change = match a.has("del") {
        false => Change::set(key, BridgeHost(mac)),
        true => {
            let there = c.store().get(&key).and_then(|value| value.get::<BridgeHost>());
            if there.is_none_or(|there| there.0 != mac) {
                return Err(
                    a.fault("ip", format!("bridge domain {bd} has no host {ip} with the address {mac}"))
                );
            }
            Change::remove(key)
        }
    };
    c.transact(vec![change]).map_err(|e| a.about("ip", e))?;
    Ok(Output::none())
}

/// A host of a domain.
#[derive(Serialize)]
pub(super) struct HostRow {
    bridge_domain: u32,
    ip: IpAddr,
    mac: String,
}

/// Lists the hosts of domains, page by page.
pub(super) struct Hosts {
    /// The domain, and the address behind which to begin.
    next: (u32, Bound<IpAddr>),
    only: Option<u32>,
}

impl Hosts {
    /// Lists the hosts of all domains, or of one.
    pub(super) fn of(only: Option<u32>) -> Hosts {
        Hosts { next: (only.unwrap_or(0), Bound::Unbounded), only }
    }
}

impl<C: App> Rows<C> for Hosts {
    type Row = HostRow;

    fn next(&mut self, c: &C, page: &mut Vec<HostRow>) -> bool {
        let Ok(bridges) = c.router().state::<Bridges>() else { return false };
        let (from, after) = self.next;
        let Some((bd, ..)) = bridges.domains(from).next() else { return false };
        if self.only.is_some_and(|only| only != bd) {
            return false;
        }
        let after = if bd == from { after } else { Bound::Unbounded };
        let hosts = bridges.hosts(bd, after).take(PAGE);
        page.extend(hosts.map(|(ip, mac)| HostRow { bridge_domain: bd, ip, mac: mac.to_string() }));
        self.next = match page.last() {
            Some(last) if page.len() == PAGE => (bd, Bound::Excluded(last.ip)),
            _ => (bd + 1, Bound::Unbounded),
        };
        true
    }

    fn text(&mut self, page: &[HostRow], out: &mut String) {
        for row in page {
            *out += &format!("{:>8} {} {}\n", row.bridge_domain, row.mac, row.ip);
        }
    }
}
