//! Interfaces and sub-interfaces.

use std::ops::RangeInclusive;

use drivers::pcap::{self, Speed};
use drivers::{af_packet, af_xdp, memif, tap};
use model::key::{Kind, Need};
use model::object::{Effect, Fact};
use net::ethernet::Tags;
use net::feature::Attached;
use net::nd::Advertisement;
use net::objects;
use net::router::{Receive, check_mac, check_mtu};
use net::tables::MAX_INTERFACES;
use wire::{Mac, ipv6};

use super::index::{self, Find};
use super::memif::SOCKET;
use super::{Abilities, Addresses, DEFAULT_SOCKET, Get, Key, Object, Refused, View, refuse, table};
use crate::cli::{quote, quote_last};
use crate::system::System;

/// The numbers that a VLAN may have (IEEE 802.1Q-2022 table 9-2 keeps 0 and 4095).
pub const VLANS: RangeInclusive<u16> = 1..=4094;

/// What an interface is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum Spec {
    /// A Linux interface (`create host-interface`).
    Host(af_packet::Config),
    /// A Linux interface by AF_XDP (`create interface af_xdp`).
    Xdp(af_xdp::Config),
    /// A tap (`create tap`).
    Tap(u32, tap::Config),
    /// Shared memory with another program (`create interface memif`).
    Memif(memif::Config),
    /// A packet generator and sink (`create packet-generator interface`).
    Generator(u16),
    /// Files for a device (`create pcap interface`).
    Pcap(u16, pcap::Config),
    /// A loopback (`create loopback interface`).
    Loopback(u16),
    /// A sub-interface (`create sub-interfaces`).
    Sub {
        /// The device's interface.
        parent: String,
        /// Number of the sub-interface.
        id: u32,
        /// Its tags.
        tags: Tags,
    },
}

impl Spec {
    /// Whether a device that is opened as this says can take the place of the one that was opened as the other says, which is of
    /// the same name, while the interface stays with all that is on it.
    pub(super) fn takes_over(&self, other: &Spec) -> bool {
        match (self, other) {
            (Spec::Host(_), Spec::Host(_)) | (Spec::Xdp(_), Spec::Xdp(_)) => true,
            // One that becomes another interface of the host may have to wait until that has another name.
            (Spec::Tap(_, new), Spec::Tap(_, old)) => {
                new.host_name == old.host_name && new.host_namespace == old.host_namespace
            }
            // One that listens may have to wait until another one does no longer.
            (Spec::Memif(new), Spec::Memif(old)) => new.role == old.role,
            _ => false,
        }
    }
}

/// An interface and what is set on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// What it is made of.
    pub spec: Spec,
    /// Whether it is to be up.
    pub up: bool,
    /// The largest network packet in bytes, where it is not the device's own. A sub-interface's is never more than that of
    /// its device, whatever is asked for here.
    pub mtu: Option<u16>,
    /// The Ethernet address, where it is not the device's own.
    pub mac: Option<Mac>,
    /// The VRF.
    pub table: u16,
    /// Its number (`sw_if_index`), which monitoring knows it by. A transaction gives one to who has none.
    pub index: Option<u32>,
    /// What it is for, in words for people.
    pub description: Option<String>,
    /// How its receive queues are polled, and by whom.
    pub receive: Receive,
    /// What features have attached to it.
    pub attached: Attached,
    /// Whether IPv6 is spoken on it, even without an IPv6 address that it was given.
    pub ip6: bool,
    /// Whether it answers for hosts that are behind other interfaces.
    pub proxy: bool,
    /// What hosts on its link are told of the router, if they are.
    pub advertisement: Option<Box<Advertisement>>,
    /// Whether they are told nothing of it all the same. Says nothing where there is nothing to tell.
    pub ra_suppressed: bool,
}

/// Bytes of the name of a Linux interface (`IFNAMSIZ`, less the zero at its end).
const LONGEST_LINUX_NAME: usize = 15;

/// How long a description may be, in characters: as long as Linux has them (`IFALIASZ`).
const LONGEST: usize = 255;

impl Interface {
    /// An interface with nothing set.
    pub fn new(spec: Spec) -> Interface {
        Interface {
            spec,
            up: false,
            mtu: None,
            mac: None,
            table: 0,
            index: None,
            description: None,
            receive: Receive::default(),
            attached: Attached::default(),
            ip6: false,
            proxy: false,
            advertisement: None,
            ra_suppressed: false,
        }
    }

    /// The key of an interface that stands on its own.
    pub fn key(name: &str) -> Key {
        Key::with::<Interface>((false, name))
    }

    /// The key of a sub-interface.
    pub fn sub_key(name: &str) -> Key {
        Key::with::<Interface>((true, name))
    }

    /// The name in the key of an interface or sub-interface.
    pub fn name_in(key: &Key) -> Option<String> {
        key.get::<Interface>().map(|(_, name)| name)
    }

    /// The name in the key of an interface that stands on its own.
    pub fn device_in(key: &Key) -> Option<String> {
        key.get::<Interface>().filter(|(sub, _)| !sub).map(|(_, name)| name)
    }
}

impl Kind for Interface {
    /// Whether it is a sub-interface, which needs another interface, and its name.
    type Key = (bool, String);
    const NAME: &'static str = "interface";
    const PHASE: u16 = 100;

    fn title((_, name): &Self::Key) -> String {
        format!("interface {name}")
    }

    fn role((_, name): &Self::Key) -> Option<Need> {
        Some(objects::interface(name))
    }
}

impl Object<System> for Interface {
    fn validate(&self, (_, name): &Self::Key, view: &View<'_>, abilities: &Abilities) -> Result<(), Refused> {
        table::must_have(self.table, view)?;
        super::unnumbered::may_be_in(name, self.table, view)?;
        if let Some(index) = self.index {
            if index >= MAX_INTERFACES {
                return refuse(format!("an index is 0 to {}, not {index}", MAX_INTERFACES - 1));
            }
            if let Some(other) = index::numbered(view, index).find(|other| other != name) {
                return refuse(format!("{other} has the index {index}, which no two interfaces share"));
            }
        }
        if let Some(text) = &self.description {
            if text.is_empty() {
                return refuse("the description says nothing: leave it out");
            }
            if text.chars().count() > LONGEST || text.contains(char::is_control) {
                return refuse(format!("a description is one line of at most {LONGEST} characters"));
            }
        }
        super::receive::validate(self)?;
        self.advertisement.as_deref().map_or(Ok(()), super::advertisement::validate)?;
        self.mtu.map_or(Ok(()), check_mtu)?;
        let mut missing = None;
        self.attached.uses(&mut |key| missing = missing.take().or(view.get(&key).is_none().then_some(key)));
        if let Some(key) = missing {
            return refuse(format!("there is no {key}: add it first"));
        }
        let given = super::list(view.get(&Addresses::key(name)));
        self.can_speak_ip6(name, self.ip6 || given.iter().any(|a| a.address.is_ipv6()))?;
        self.mac.map_or(Ok(()), check_mac)?;
        let (parent, tags) = match &self.spec {
            Spec::Sub { parent, tags, .. } => (parent, tags),
            Spec::Host(config) => {
                check_linux_name(&config.name)?;
                return taken_once(&config.name, &format!("xdp-{}", config.name), view);
            }
            Spec::Xdp(config) => {
                check_linux_name(&config.name)?;
                if let Some(mtu) = self.mtu.filter(|mtu| *mtu > af_xdp::MAX_MTU) {
                    return refuse(format!(
                        "an MTU of {mtu} is more than {}, the most by AF_XDP: host-{} may have more",
                        af_xdp::MAX_MTU,
                        config.name
                    ));
                }
                return taken_once(&config.name, &format!("host-{}", config.name), view);
            }
            Spec::Tap(_, config) => {
                check_linux_name(&config.host_name)?;
                config.host_mac.map_or(Ok(()), |mac| check_mac(Mac(mac)))?;
                let same_end = || index::taps(view, &config.host_name).find(|other| other != name);
                // What names there are in another namespace, it knows.
                return match same_end().filter(|_| config.host_namespace.is_none()) {
                    Some(other) => {
                        refuse(format!("{} is the host's end of {other} already", config.host_name))
                    }
                    None => Ok(()),
                };
            }
            Spec::Memif(config) => return super::memif::validate(config, name, view, abilities),
            Spec::Pcap(_, pcap::Config { record: Some(record), .. }) => {
                return match index::recorded(view, &record.file).find(|other| other != name) {
                    Some(other) => refuse(format!("{other} records to {} already", record.file.display())),
                    None => Ok(()),
                };
            }
            _ => return Ok(()),
        };
        let over = view.must_have_interface(parent)?;
        if matches!(over.spec, Spec::Sub { .. } | Spec::Loopback(_)) {
            return refuse(format!("{parent} cannot have sub-interfaces: it is no device"));
        }
        for vid in [Some(tags.outer), tags.inner].into_iter().flatten() {
            if !VLANS.contains(&vid) {
                return refuse(format!("a VLAN is 1 to 4094, not {vid}"));
            }
        }
        match index::tagged(view, parent, *tags).find(|other| other != name) {
            Some(other) => refuse(format!("{other} takes packets with these tags already")),
            None => Ok(()),
        }
    }

    /// Makes it, or sets what differs from `old`, which is of the same kind.
    fn apply(
        &self,
        (_, name): &Self::Key,
        old: Option<&Interface>,
        system: &mut System,
    ) -> Result<(), Refused> {
        match old {
            None => system.create(name, &self.spec, self.index)?,
            Some(old) if old.spec != self.spec => system.reopen(name, &self.spec)?,
            Some(_) => {}
        }
        let result = self.settings(name, old, system);
        if result.is_err() {
            match old {
                None => system.delete(name)?,
                Some(old) => {
                    let reopened =
                        if old.spec == self.spec { Ok(()) } else { system.reopen(name, &old.spec) };
                    // Also where it has no device now: it has these when that comes.
                    old.settings(name, Some(self), system)?;
                    reopened?
                }
            }
        }
        result
    }

    fn withdraw(&self, (_, name): &Self::Key, system: &mut System) -> Result<(), Refused> {
        system.delete(name)
    }

    fn dump(&self, (_, plain): &Self::Key, indices: bool) -> Vec<String> {
        let name = quote(plain);
        let mut lines = vec![match &self.spec {
            Spec::Host(c) => {
                let mut s = format!("create host-interface name {}", quote(&c.name));
                for (on, word) in [(c.shared, " shared"), (c.force, " force")] {
                    s += if on { word } else { "" };
                }
                s += if c.mode == af_packet::Mode::V3 { " v3" } else { "" };
                s
            }
            Spec::Xdp(c) => dump_xdp(c),
            Spec::Tap(id, c) => dump_tap(*id, c),
            Spec::Memif(c) => super::memif::dump(c),
            Spec::Generator(n) => format!("create packet-generator interface pg{n}"),
            Spec::Pcap(n, c) => dump_pcap(*n, c),
            Spec::Loopback(n) => format!("create loopback interface instance {n}"),
            Spec::Sub { parent, id, tags } => match (tags.outer_service, tags.inner) {
                (false, None) if u32::from(tags.outer) == *id => {
                    format!("create sub-interfaces {} {id}", quote(parent))
                }
                (service, inner) => {
                    let outer = if service { "dot1ad" } else { "dot1q" };
                    let inner = inner.map(|i| format!(" inner-dot1q {i}")).unwrap_or_default();
                    let parent = quote(parent);
                    format!("create sub-interfaces {parent} {id} {outer} {}{inner} exact-match", tags.outer)
                }
            },
        }];
        if let (true, Some(index)) = (indices, self.index) {
            lines.iter_mut().for_each(|line| *line += &format!(" index {index}"));
        }
        if let Some(text) = &self.description {
            lines.push(format!("set interface description {name} {}", quote_last(text)));
        }
        if self.table != 0 {
            lines.push(format!("set interface ip table {name} {}", self.table));
        }
        if let Some(mac) = self.mac {
            lines.push(format!("set interface mac address {name} {mac}"));
        }
        if let Some(mtu) = self.mtu {
            lines.push(format!("set interface mtu {mtu} {name}"));
        }
        super::receive::dump(plain, &self.receive, &mut lines);
        lines.extend(self.attached.dump(&name));
        if self.proxy {
            lines.push(format!("set interface proxy-arp {name} enable"));
        }
        if let Some(advertisement) = &self.advertisement {
            lines.extend(super::advertisement::dump(&name, advertisement, self.ra_suppressed));
        }
        if self.ip6 {
            lines.push(format!("enable ip6 interface {name}"));
        }
        if self.up {
            lines.push(format!("set interface state {name} up"));
        }
        lines
    }

    fn needs(&self, _: &Self::Key, to: &mut dyn FnMut(Need)) {
        objects::table(self.table).into_iter().for_each(&mut *to);
        self.attached.uses(&mut |key| key.role().into_iter().for_each(&mut *to));
        match &self.spec {
            Spec::Memif(config) if config.socket != DEFAULT_SOCKET => to(Need::new(&SOCKET, config.socket)),
            Spec::Sub { parent, .. } => to(objects::interface(parent)),
            _ => {}
        }
    }

    fn effect(&self, old: &Self) -> Effect {
        let stays = old.spec == self.spec || self.spec.takes_over(&old.spec);
        if !stays || old.index != self.index {
            Effect::Anew
        } else if old.table != self.table {
            Effect::Moved
        } else {
            Effect::Stays
        }
    }

    fn facts(&self, (_, name): &Self::Key, _: Get<'_>, to: &mut dyn FnMut(Fact)) {
        if let Some(number) = self.index {
            to(Fact::new(index::NUMBERS, (number, name)));
        }
        match &self.spec {
            Spec::Sub { parent, tags, .. } => to(index::tagged_as(parent, *tags, name)),
            Spec::Tap(_, c) if c.host_namespace.is_none() => {
                to(Fact::new(index::TAPS, (&c.host_name, name)));
            }
            Spec::Pcap(_, pcap::Config { record: Some(record), .. }) => {
                to(Fact::new(index::RECORDS, (&record.file, name)));
            }
            _ => {}
        }
    }

    /// They are found where the interface is.
    fn touches((_, name): &Self::Key) -> Option<Key> {
        Some(Addresses::key(name))
    }

    /// A transaction gives an index to those without.
    fn is_complete(&self) -> bool {
        self.index.is_some()
    }

    fn without_secrets(&self) -> Option<Self> {
        let Spec::Memif(config) = &self.spec else { return None };
        config.secret.as_ref()?;
        let config = memif::Config { secret: memif::Secret::new(super::HIDDEN).ok(), ..config.clone() };
        Some(Interface { spec: Spec::Memif(config), ..self.clone() })
    }
}

impl Interface {
    /// Whether packets of IPv6 fit, if it is to be spoken. The device's own MTU, or that of the interface which this one is on, is not
    /// known here.
    pub(super) fn can_speak_ip6(&self, name: &str, is_to: bool) -> Result<(), Refused> {
        match self.mtu.filter(|mtu| is_to && *mtu < ipv6::MIN_MTU) {
            Some(mtu) => refuse(format!(
                "the MTU of {name}, {mtu}, is less than {}, the least of IPv6, which it speaks",
                ipv6::MIN_MTU
            )),
            None => Ok(()),
        }
    }

    /// What hosts on its link are told now.
    fn told(&self) -> Option<&Advertisement> {
        self.advertisement.as_deref().filter(|_| !self.ra_suppressed)
    }

    fn settings(&self, name: &str, old: Option<&Interface>, system: &mut System) -> Result<(), Refused> {
        let index = system.index(name)?;
        let before = Interface::new(self.spec.clone());
        let old = old.unwrap_or(&before);
        if self.mtu != old.mtu {
            system.set_mtu(name, self.mtu)?;
        }
        let r = &mut system.router;
        if self.receive != old.receive {
            r.set_receive(index, self.receive.clone())?;
        }
        if self.table != old.table {
            r.set_table(index, self.table)?;
        }
        if self.mac != old.mac {
            r.set_mac(index, self.mac)?;
        }
        self.attached.apply(&old.attached, r, index)?;
        if self.proxy != old.proxy {
            r.set_proxy(index, self.proxy)?;
        }
        if self.told() != old.told() {
            r.set_advertisement(index, self.told().cloned())?;
        }
        if self.ip6 != old.ip6 {
            r.set_ip6(index, self.ip6)?;
        }
        if self.up != old.up {
            r.set_admin(index, self.up)?;
            tracing::debug!(event = "interface", "{name}: set {}", if self.up { "up" } else { "down" });
        }
        Ok(())
    }
}

/// Whether a Linux interface can have this name, as the kernel sees it (`dev_valid_name`).
fn check_linux_name(name: &str) -> Result<(), Refused> {
    if name.len() > LONGEST_LINUX_NAME {
        return refuse(format!(
            "no Linux interface has a name of more than {LONGEST_LINUX_NAME} bytes, as \"{name}\" has"
        ));
    }
    let odd = |c: char| matches!(c, '/' | ':' | '\0') || c.is_ascii_whitespace();
    if matches!(name, "" | "." | "..") || name.contains(odd) {
        return refuse(format!(
            "no Linux interface has the name \"{name}\": it would have no \"/\", \":\" or blank"
        ));
    }
    Ok(())
}

/// Whether there could be an interface of this name, with or without the number of a sub-interface behind it.
pub fn can_be_name(name: &str) -> bool {
    let number = |n: &str| n.parse::<u32>().is_ok();
    let device = name.rsplit_once('.').filter(|(_, id)| number(id)).map_or(name, |(device, _)| device);
    let linux = |prefix| device.strip_prefix(prefix).is_some_and(|name| check_linux_name(name).is_ok());
    let numbered = |prefix| device.strip_prefix(prefix).is_some_and(number);
    let memif = || device.strip_prefix("memif").and_then(|n| n.split_once('/'));
    ["host-", "xdp-"].into_iter().any(linux)
        || ["tap", "loop", "pg", "pcap"].into_iter().any(numbered)
        || memif().is_some_and(|(socket, id)| number(socket) && number(id))
}

/// A Linux interface is a port of the router in one way, not in the other as well. And the host's end of one of the router's own
/// taps is none: packets would go around in circles.
fn taken_once(host_interface: &str, other: &str, view: &View<'_>) -> Result<(), Refused> {
    if view.get(&Interface::key(other)).is_some() {
        return refuse(format!("{other} has the Linux interface {host_interface} already"));
    }
    match index::taps(view, host_interface).next() {
        Some(tap) => {
            refuse(format!("{host_interface} is the host's end of {tap}, which is the router's own"))
        }
        None => Ok(()),
    }
}

/// The command that takes a Linux interface by AF_XDP.
fn dump_xdp(c: &af_xdp::Config) -> String {
    let usual = af_xdp::Config::new(c.name.clone());
    let mut s = format!("create interface af_xdp host-if {}", quote(&c.name));
    if let Some(n) = c.queues {
        s += &format!(" num-rx-queues {n}");
    }
    for (size, usual, word) in
        [(c.rx_ring, usual.rx_ring, "rx-queue-size"), (c.tx_ring, usual.tx_ring, "tx-queue-size")]
    {
        if size != usual {
            s += &format!(" {word} {size}");
        }
    }
    s += match c.attach {
        None => "",
        Some(af_xdp::Attach::Native) => " native",
        Some(af_xdp::Attach::Generic) => " generic",
    };
    s += match c.copying {
        af_xdp::Copying::IfNeeded => "",
        af_xdp::Copying::Always => " no-zero-copy",
        af_xdp::Copying::Never => " zero-copy",
    };
    s + if c.force { " force" } else { "" }
}

/// The command that makes a tap.
fn dump_tap(id: u32, c: &tap::Config) -> String {
    let mut s = format!("create tap id {id} host-if-name {}", quote(&c.host_name));
    if let Some(ns) = &c.host_namespace {
        s += &format!(" host-ns {}", quote(&ns.display().to_string()));
    }
    if let Some(mac) = c.host_mac {
        s += &format!(" host-mac-addr {}", Mac(mac));
    }
    if let Some((ip, len)) = c.host_ip4 {
        s += &format!(" host-ip4-addr {ip}/{len}");
    }
    s + if c.gso { "" } else { " no-gso" }
}

/// The command that makes a device of files.
fn dump_pcap(n: u16, c: &pcap::Config) -> String {
    let mut s = format!("create pcap interface pcap{n}");
    let path = |p: &std::path::Path| quote(&p.display().to_string()).into_owned();
    if let Some(replay) = &c.replay {
        s += &format!(" rx {}", path(&replay.file));
        s += &match replay.speed {
            Speed::Own => String::new(),
            Speed::Rate(pps) => format!(" rate {pps}"),
            Speed::Full => " full-speed".into(),
        };
        s += &match replay.rounds {
            None => " loop forever".into(),
            Some(1) => String::new(),
            Some(n) => format!(" loop {n}"),
        };
    }
    if let Some(record) = &c.record {
        s += &format!(" tx {} max {}", path(&record.file), record.most);
    }
    s
}
