//! Detects ports that the machine needs, above all for remote access. The tester does not use such ports.
//!
//! The kernel's state is collected first, and then judged by a pure function.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;
use wire::Mac;

use crate::trial::Failure;

/// The default port of sshd.
const SSH: u16 = 22;

/// How users log in to this machine, and what its ports are used for.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// The machine's interfaces, as shown by `ip -json address show`.
    interfaces: Vec<Value>,
    /// Remote logins.
    sessions: Vec<Session>,
    /// The outgoing interfaces of default routes, in any table.
    defaults: Vec<String>,
    /// The outgoing interfaces of replies to logged-in users.
    answers: Vec<String>,
    /// The ports with PPPoE sessions of the kernel.
    pppoe: Vec<String>,
}

/// A remote login.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Session {
    /// This machine's address.
    local: IpAddr,
    /// The interface that has the address, if given (RFC 4007 section 11).
    zone: Option<String>,
    remote: IpAddr,
}

impl Known {
    /// Collects the state of a machine; `ask` runs a shell command there and returns its output. Changes nothing.
    ///
    /// # Errors
    /// If there is no `ip` command, or its output cannot be parsed.
    pub fn collect(ask: &dyn Fn(&str) -> Result<String, Failure>) -> Result<Known, Failure> {
        // Not every kernel has all of these files.
        let read = |path: &str| ask(&format!("[ ! -e {path} ] || cat {path}"));
        let own = of_environment(&ask("echo $SSH_CONNECTION")?);
        let ports = [Some(SSH), own.as_ref().map(|(_, port)| *port)];
        let mut sessions: Vec<_> = own.into_iter().map(|(session, _)| session).collect();
        // sudo does not pass the variable on, and other users may be logged in, too.
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
            // An unreachable client needs no port.
            let route = ip(ask, &format!("route get {remote} from {local}")).unwrap_or_default();
            answers.extend(route.iter().flat_map(devices));
        }
        let interfaces = ip(ask, "address show")?;
        Ok(Known { interfaces, sessions, defaults, answers, pppoe: of_pppoe(&read("/proc/net/pppoe")?) })
    }

    /// Checks that neither the port `name` nor an interface above it carries remote access, a default route or PPPoE.
    ///
    /// # Errors
    /// If the port, or an interface above it, carries one of these, or may carry it. The error is the reason.
    pub fn spare(&self, name: &str) -> Result<(), String> {
        let port = self.interfaces.iter().find(|i| is_called(i, name)).ok_or("no such interface")?;
        for of in self.with_those_above(port) {
            self.spare_one(of).map_err(|why| match of["ifname"].as_str() {
                Some(above) if of["ifname"] != port["ifname"] => {
                    format!("it cannot be used because of {above}: {why}")
                }
                _ => why,
            })?;
        }
        self.unknown_ppp().map_or(Ok(()), |ppp| {
            Err(format!(
                "this machine is reached over {ppp}, perhaps through this port: the kernel does not report the port. End the \
                 connection, or use the kernel's PPPoE (pppd's plugin)"
            ))
        })
    }

    fn spare_one(&self, interface: &Value) -> Result<(), String> {
        let says = |all: &[String]| all.iter().any(|one| interface["ifname"] == **one);
        let session = self.sessions.iter().find(|s| s.is_by(interface));
        let why = match session {
            Some(session) => format!("you are logged in through this port, from {}", session.remote),
            None if says(&self.answers) => "replies to your login leave through this port".into(),
            None if says(&self.defaults) => "a default route uses this port".into(),
            None if says(&self.pppoe) => "a PPPoE session runs on this port".into(),
            None => return Ok(()),
        };
        Err(format!("{why}: name another port"))
    }

    /// Returns an interface, and all interfaces above it: those it belongs to (bridge, bond), those on top of it (VLANs, macvlans), and so
    /// on recursively.
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

    /// Returns the Ethernet address of the port `name`, or the reason why the tester cannot use the port. `above` has the names of the
    /// interfaces above the port.
    pub fn judge(&self, name: &str, above: &[String]) -> Result<Mac, String> {
        let port = self.interfaces.iter().find(|i| i["ifname"] == name).ok_or("no such interface")?;
        self.spare(name)?;
        // Every port that is up has a link-local IPv6 address.
        if let Some(address) = addresses(port).find(|a| !is_of_every_port(*a)) {
            return Err(format!(
                "it has the address {address}: remove the address if the machine does not need this port"
            ));
        }
        if let Some(master) = port["master"].as_str() {
            return Err(format!("it belongs to {master}: remove it from {master} first"));
        }
        // Interfaces above the port may have addresses and routes.
        if let Some(above) = above.first() {
            return Err(format!(
                "it cannot be used because of {above}: remove {above} if the machine does not need it"
            ));
        }
        port["address"].as_str().and_then(|mac| mac.parse().ok()).ok_or_else(|| "not an Ethernet port".into())
    }

    /// If more PPP interfaces carry connections to the machine than the kernel has PPPoE sessions, returns one of these interfaces. Then
    /// the port of at least one is unknown, because its PPP runs in a program, not in the kernel. `None` if all ports are known.
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
    /// True if the session's local address belongs to this interface. A link-local address (RFC 4291 section 2.5.6) without a zone may
    /// belong to every interface that has it.
    fn is_by(&self, interface: &Value) -> bool {
        let zone = self.zone.as_ref().is_none_or(|zone| {
            interface["ifname"] == **zone
                || interface["ifindex"].as_u64().map(|n| n.to_string()).as_ref() == Some(zone)
        });
        zone && addresses(interface).any(|address| address == self.local)
    }
}

/// True if an interface has `name` as its name or as an alternative name.
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

/// Runs `ip` and parses its JSON. Empty output is an empty list.
fn ip(ask: &dyn Fn(&str) -> Result<String, Failure>, words: &str) -> Result<Vec<Value>, Failure> {
    let text = ask(&format!("ip -json {words}"))?;
    let text = if text.trim().is_empty() { "[]" } else { &text };
    serde_json::from_str(text).map_err(|e| Failure(format!("ip {words}: {e}")))
}

/// Returns the devices of a route: one, or one for each next hop.
fn devices(route: &Value) -> Vec<String> {
    let hops = route["nexthops"].as_array().into_iter().flatten();
    hops.chain([route]).filter_map(|hop| hop["dev"].as_str().map(str::to_owned)).collect()
}

/// Parses `SSH_CONNECTION` (ssh(1)): address and port of the client, address and port of the server. Returns the session and the server's
/// port; `None` if the text is malformed.
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

/// Returns the established connections to these ports, from the text of `/proc/net/tcp` or `/proc/net/tcp6` (proc_net_tcp.rst, and
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

/// Parses an address and a port, in hexadecimal: the address as 32-bit words in this machine's byte order, the port as a number.
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

/// Returns the ports of PPPoE sessions, from the text of `/proc/net/pppoe`. After a title line, each line has a session, a peer and
/// a port.
fn of_pppoe(text: &str) -> Vec<String> {
    text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(2).map(str::to_owned)).collect()
}

#[cfg(test)]
#[path = "way_in_tests.rs"]
mod tests;
