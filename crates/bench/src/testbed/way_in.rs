//! The ports that the machine needs, its way in before all: the tester does not take them.
//!
//! What the kernel says is collected first, and judged then, by a function of nothing else.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;
use wire::Mac;

use crate::trial::Failure;

/// Where sshd listens, if nobody has changed that.
const SSH: u16 = 22;

/// What is known of how this machine is reached, and what it needs its ports for.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Its interfaces, as `ip -json address show` has them.
    interfaces: Vec<Value>,
    /// Who is logged in over the network.
    sessions: Vec<Session>,
    /// The interfaces by which default routes of any table leave.
    defaults: Vec<String>,
    /// Those by which what is sent to who is logged in leaves.
    answers: Vec<String>,
    /// The ports on which PPPoE of the kernel's own runs.
    pppoe: Vec<String>,
}

/// Somebody who is logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Session {
    /// The address of this machine, and the interface that it is of, where that is said (RFC 4007 section 11).
    local: IpAddr,
    zone: Option<String>,
    remote: IpAddr,
}

impl Known {
    /// What the kernel says of a machine where `ask` runs a line of shell and gives what it printed. Nothing is touched.
    ///
    /// # Errors
    /// When there is no `ip`, or it says what nobody understands.
    pub fn collect(ask: &dyn Fn(&str) -> Result<String, Failure>) -> Result<Known, Failure> {
        // Not each kernel has each of them.
        let read = |path: &str| ask(&format!("[ ! -e {path} ] || cat {path}"));
        let own = of_environment(&ask("echo $SSH_CONNECTION")?);
        let ports = [Some(SSH), own.as_ref().map(|(_, port)| *port)];
        let mut sessions: Vec<_> = own.into_iter().map(|(session, _)| session).collect();
        // sudo does not hand the variable on, and others may be logged in, too.
        for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
            sessions.extend(of_sockets(&read(file)?, &ports));
        }
        let mut defaults = Vec::new();
        for family in ["-4", "-6"] {
            let all = ip(ask, &format!("{family} route show table all default"))?;
            defaults.extend(all.iter().flat_map(devices));
        }
        let mut answers = Vec::new();
        let ends: BTreeSet<_> = sessions.iter().map(|s| (s.remote, s.local)).collect();
        for (remote, local) in ends {
            // One that cannot be reached any more needs no port.
            let route = ip(ask, &format!("route get {remote} from {local}")).unwrap_or_default();
            answers.extend(route.iter().flat_map(devices));
        }
        let interfaces = ip(ask, "address show")?;
        Ok(Known { interfaces, sessions, defaults, answers, pppoe: of_pppoe(&read("/proc/net/pppoe")?) })
    }

    /// Looks whether a port is one that the machine is reached by, or reaches others by, itself or by an interface on it.
    ///
    /// # Errors
    /// When it is, or may be: why it is not taken.
    pub fn spare(&self, name: &str) -> Result<(), String> {
        let port = self.interfaces.iter().find(|i| is_called(i, name)).ok_or("there is no such interface")?;
        for of in self.with_those_above(port) {
            self.spare_one(of).map_err(|why| match of["ifname"].as_str() {
                Some(above) if of["ifname"] != port["ifname"] => format!("{above} is on it: {why}"),
                _ => why,
            })?;
        }
        self.unknown_ppp().map_or(Ok(()), |ppp| {
            Err(format!(
                "the machine is reached by {ppp}, and the kernel does not say on which port that runs, so that it may be this one: end \
                 that connection, or have the kernel run PPPoE itself (pppd's plugin)"
            ))
        })
    }

    fn spare_one(&self, interface: &Value) -> Result<(), String> {
        let says = |all: &[String]| all.iter().any(|one| interface["ifname"] == **one);
        let session = self.sessions.iter().find(|s| s.is_by(interface));
        let why = match session {
            Some(session) => format!("you are logged in by this port, from {}", session.remote),
            None if says(&self.answers) => {
                "what is sent to you, who are logged in, leaves by this port".into()
            }
            None if says(&self.defaults) => "a default route leaves by this port".into(),
            None if says(&self.pppoe) => "a PPPoE session runs on this port".into(),
            None => return Ok(()),
        };
        Err(format!("{why}: the tester does not take it"))
    }

    /// An interface, what it belongs to (a bridge, a bond), and what is on it (VLANs, macvlans), and so on.
    fn with_those_above<'a>(&'a self, port: &'a Value) -> Vec<&'a Value> {
        let mut all = vec![port];
        let mut next = 0;
        while let Some(of) = all.get(next).copied() {
            let on = |i: &Value| i["ifname"] == of["master"] || i["link"] == of["ifname"];
            let more = self.interfaces.iter().filter(|i| on(i));
            let more: Vec<_> =
                more.filter(|i| all.iter().all(|known| known["ifname"] != i["ifname"])).collect();
            all.extend(more);
            next += 1;
        }
        all
    }

    /// The Ethernet address of a port that nobody needs; else why it may not be taken. `above` are the interfaces on it.
    pub fn judge(&self, name: &str, above: &[String]) -> Result<Mac, String> {
        let port =
            self.interfaces.iter().find(|i| i["ifname"] == name).ok_or("there is no such interface")?;
        self.spare(name)?;
        // Every port that is up has an IPv6 address of its link.
        if let Some(address) = addresses(port).find(|a| !is_of_every_port(*a)) {
            return Err(format!(
                "it has the address {address}, so the machine uses it: remove the address if it does not"
            ));
        }
        if let Some(master) = port["master"].as_str() {
            return Err(format!("it belongs to {master}: remove it from there first"));
        }
        // Addresses and routes may be there.
        if let Some(above) = above.first() {
            return Err(format!("{above} is on it, so the machine uses it: remove that if it does not"));
        }
        port["address"]
            .as_str()
            .and_then(|mac| mac.parse().ok())
            .ok_or_else(|| "it is no Ethernet port".into())
    }

    /// A connection by PPP that the machine is reached by, and of which nobody knows the port: one that a program runs, not the kernel.
    fn unknown_ppp(&self) -> Option<&str> {
        let is_way = |interface: &&Value| {
            let named = self.defaults.iter().chain(&self.answers).any(|name| interface["ifname"] == **name);
            named || self.sessions.iter().any(|s| s.is_by(interface))
        };
        let mut all = self.interfaces.iter().filter(|i| i["link_type"] == "ppp").filter(is_way);
        all.nth(self.pppoe.len())?["ifname"].as_str()
    }
}

impl Session {
    /// Whether its address is of this interface. One of a link (RFC 4291 section 2.5.6) without a zone is of each that has it.
    fn is_by(&self, interface: &Value) -> bool {
        let zone = self.zone.as_ref().is_none_or(|zone| {
            interface["ifname"] == **zone
                || interface["ifindex"].as_u64().map(|n| n.to_string()).as_ref() == Some(zone)
        });
        zone && addresses(interface).any(|address| address == self.local)
    }
}

/// Whether an interface has this name, or it is another one of its names.
fn is_called(interface: &Value, name: &str) -> bool {
    let others = interface["altnames"].as_array().into_iter().flatten();
    others.chain([&interface["ifname"]]).any(|one| *one == *name)
}

fn addresses(interface: &Value) -> impl Iterator<Item = IpAddr> {
    let all = interface["addr_info"].as_array().into_iter().flatten();
    all.filter_map(|a| a["local"].as_str()?.parse().ok())
}

fn is_of_every_port(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(a) if a.is_unicast_link_local())
}

/// What `ip` says, as JSON; it says nothing of nothing.
fn ip(ask: &dyn Fn(&str) -> Result<String, Failure>, words: &str) -> Result<Vec<Value>, Failure> {
    let text = ask(&format!("ip -json {words}"))?;
    let text = if text.trim().is_empty() { "[]" } else { &text };
    serde_json::from_str(text).map_err(|e| Failure(format!("ip {words}: {e}")))
}

/// The devices of a route: one, or one for each next hop.
fn devices(route: &Value) -> Vec<String> {
    let hops = route["nexthops"].as_array().into_iter().flatten();
    hops.chain([route]).filter_map(|hop| hop["dev"].as_str().map(str::to_owned)).collect()
}

/// The session of `SSH_CONNECTION` (ssh(1)): the client's address and port, the server's address and port. With the latter.
fn of_environment(text: &str) -> Option<(Session, u16)> {
    let words: Vec<_> = text.split_whitespace().collect();
    let &[client, _, server, port] = words.as_slice() else { return None };
    let split = |text: &str| {
        let (address, zone) =
            text.split_once('%').map_or((text, None), |(a, zone)| (a, Some(zone.to_owned())));
        Some((address.parse::<IpAddr>().ok()?.to_canonical(), zone))
    };
    let ((remote, _), (local, zone)) = (split(client)?, split(server)?);
    Some((Session { local, zone, remote }, port.parse().ok()?))
}

/// The connections that are established to these ports, from the text of `/proc/net/tcp` or `/proc/net/tcp6` (proc_net_tcp.rst, and
/// `net/tcp_states.h`).
fn of_sockets(text: &str, ports: &[Option<u16>]) -> Vec<Session> {
    let of = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let ((local, port), (remote, _)) = (socket(words.next()?)?, socket(words.next()?)?);
        let counts = words.next()? == "01" && ports.contains(&Some(port));
        counts.then_some(Session { local, zone: None, remote })
    };
    text.lines().filter_map(of).collect()
}

/// An address and a port: words of 32 bits in the order of this machine, and the port as a number.
fn socket(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let word = |n: usize| Some(u32::from_str_radix(address.get(8 * n..8 * n + 8)?, 16).ok()?.to_ne_bytes());
    let address: IpAddr = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut bytes = [0; 16];
            for (n, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(n)?);
            }
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    };
    Some((address.to_canonical(), u16::from_str_radix(port, 16).ok()?))
}

/// The ports of `/proc/net/pppoe`: a title, then a session, a peer and a port in each line.
fn of_pppoe(text: &str) -> Vec<String> {
    text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(2).map(str::to_owned)).collect()
}

#[cfg(test)]
#[path = "way_in_tests.rs"]
mod tests;
