//! A kernel network interface, accessed by the system calls of `netdevice(7)`.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;

use libc::{c_char, c_int, c_short, c_ulong, ifreq};

use super::sys;

/// Maximum number of [pauses](PAUSE): the kernel waits for the end of an RCU period while it renames an interface.
const MOST_PAUSES: u32 = 200;
/// The pause between two questions while an interface is renamed.
const PAUSE: Duration = Duration::from_micros(200);

/// A network interface, identified by its index. So a renamed interface is still found, and a new interface with its old name is not
/// mistaken for it.
pub(crate) struct Netdev {
    /// A socket in the interface's namespace, for requests to the kernel.
    socket: OwnedFd,
    index: c_int,
}

/// Returns a request for the interface of this name; `None` if the name is invalid.
pub(crate) fn request(name: &str) -> Option<ifreq> {
    // SAFETY: zeros are a valid request.
    let mut r: ifreq = unsafe { std::mem::zeroed() };
    let fits = !name.is_empty() && name.len() < r.ifr_name.len() && !name.contains('\0');
    r.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from as c_char);
    fits.then_some(r)
}

/// Returns the NUMA node of the interface's hardware; `None` if it has none or the kernel does not know it.
pub(crate) fn numa_node(name: &str) -> Option<u32> {
    let node = fs::read_to_string(format!("/sys/class/net/{name}/device/numa_node")).ok()?;
    node.trim().parse().ok()
}

impl Netdev {
    /// Finds the interface of this name in the calling thread's namespace.
    ///
    /// # Errors
    /// `ENODEV` if no interface has this name.
    pub(crate) fn find(name: &str) -> io::Result<Netdev> {
        let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        let mut r = request(name).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?;
        let mut dev = Netdev { socket, index: 0 };
        dev.call(libc::SIOCGIFINDEX, &mut r)?;
        // SAFETY: the call has set the index, and every bit pattern is a valid index.
        dev.index = unsafe { r.ifr_ifru.ifru_ifindex };
        Ok(dev)
    }

    /// Finds the interface with this index in the calling thread's namespace.
    ///
    /// # Errors
    /// `ENODEV` if no interface has this index.
    pub(crate) fn at(index: c_int) -> io::Result<Netdev> {
        let dev = Netdev { socket: sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?, index };
        dev.request().map(|_| dev)
    }

    /// Returns the interface index, which packet sockets use.
    pub(crate) fn index(&self) -> c_int {
        self.index
    }

    fn call(&self, what: c_ulong, r: &mut ifreq) -> io::Result<()> {
        // SAFETY: every call in this file takes an ifreq. It writes to nothing else, but for queries of drivers, which write to a structure
        // of the length that the command at its beginning says.
        unsafe { sys::ioctl(self.socket.as_fd(), what, r) }
    }

    /// Returns a request with the interface's current name, or an error if the interface no longer exists.
    fn request(&self) -> io::Result<ifreq> {
        // SAFETY: zeros are a valid request.
        let mut r: ifreq = unsafe { std::mem::zeroed() };
        r.ifr_ifru.ifru_ifindex = self.index;
        self.call(libc::SIOCGIFNAME, &mut r)?;
        Ok(r)
    }

    /// Makes a call with a request that has the interface's current name, and what `fill` adds. Returns the request after the call.
    ///
    /// If the interface is renamed meanwhile, repeats the call.
    fn ask(&self, what: c_ulong, mut fill: impl FnMut(&mut ifreq)) -> io::Result<ifreq> {
        loop {
            // If the interface no longer exists, this fails.
            let mut r = self.request()?;
            fill(&mut r);
            match self.call(what, &mut r) {
                Err(e) if e.raw_os_error() == Some(libc::ENODEV) && self.name_differs(&r) => {}
                done => return done.map(|()| r),
            }
        }
    }

    /// Asks for a property that the kernel knows itself. While the kernel renames the interface, it finds it by neither name for a moment,
    /// so the question is repeated.
    fn get(&self, what: c_ulong) -> io::Result<ifreq> {
        let mut pauses = 0;
        loop {
            match self.ask(what, |_| ()) {
                Err(e) if e.raw_os_error() == Some(libc::ENODEV) && pauses < MOST_PAUSES && self.exists() => {
                    thread::sleep(PAUSE);
                    pauses += 1;
                }
                done => return done,
            }
        }
    }

    /// Queries the driver. `data` is one of the structures of `linux/ethtool.h`, which begins with the command.
    fn ethtool<T, const N: usize>(&self, data: &mut [T; N]) -> io::Result<()> {
        self.ask(libc::SIOCETHTOOL, |r| r.ifr_ifru.ifru_data = data.as_mut_ptr().cast()).map(drop)
    }

    /// True if the interface no longer has the name in `r`.
    fn name_differs(&self, r: &ifreq) -> bool {
        self.request().map_or(true, |now| now.ifr_name != r.ifr_name)
    }

    /// Returns the current name.
    pub(crate) fn name(&self) -> io::Result<String> {
        let r = self.request()?;
        Ok(r.ifr_name.iter().take_while(|&&c| c != 0).map(|&c| char::from(c as u8)).collect())
    }

    /// True if the interface still exists.
    pub(crate) fn exists(&self) -> bool {
        self.request().is_ok()
    }

    /// Returns the interface flags: `IFF_UP`, `IFF_RUNNING`, …
    pub(crate) fn flags(&self) -> io::Result<c_int> {
        // SAFETY: the call has set the flags.
        self.get(libc::SIOCGIFFLAGS).map(|r| c_int::from(unsafe { r.ifr_ifru.ifru_flags }))
    }

    /// Returns true if the interface is up and has a carrier, or an error if it no longer exists.
    ///
    /// The kernel may notice a carrier change up to a second late. Until then the flags show the old state, and the
    /// kernel silently drops sent packets. Querying the driver for its link makes the kernel update the flags now.
    pub(crate) fn running(&self) -> io::Result<bool> {
        const ETHTOOL_GLINK: u32 = 0x0a;
        // `struct ethtool_value`: the command and the answer. The flags hold the answer for all drivers.
        let mut value = [ETHTOOL_GLINK, 0];
        let _ = self.ethtool(&mut value);
        Ok(self.flags()? & libc::IFF_RUNNING != 0)
    }

    /// Sets the interface up or down.
    pub(crate) fn set_up(&self, up: bool) -> io::Result<()> {
        let flags = self.flags()?;
        let new = if up { flags | libc::IFF_UP } else { flags & !libc::IFF_UP };
        if new == flags {
            return Ok(());
        }
        self.ask(libc::SIOCSIFFLAGS, |r| r.ifr_ifru.ifru_flags = new as c_short).map(drop)
    }

    /// Returns the MTU in bytes.
    pub(crate) fn mtu(&self) -> io::Result<c_int> {
        // SAFETY: the call has set the MTU.
        self.get(libc::SIOCGIFMTU).map(|r| unsafe { r.ifr_ifru.ifru_mtu })
    }

    pub(crate) fn set_mtu(&self, mtu: c_int) -> io::Result<()> {
        self.ask(libc::SIOCSIFMTU, |r| r.ifr_ifru.ifru_mtu = mtu).map(drop)
    }

    /// Returns the Ethernet address; `None` if it is not an Ethernet interface.
    pub(crate) fn mac(&self) -> io::Result<Option<[u8; 6]>> {
        let r = self.get(libc::SIOCGIFHWADDR)?;
        // SAFETY: the call has set the hardware address.
        let address = unsafe { r.ifr_ifru.ifru_hwaddr };
        let mac = std::array::from_fn(|i| address.sa_data[i] as u8);
        Ok((address.sa_family == libc::ARPHRD_ETHER).then_some(mac))
    }

    pub(crate) fn set_mac(&self, mac: [u8; 6]) -> io::Result<()> {
        // SAFETY: zeros are a valid address.
        let mut address: libc::sockaddr = unsafe { std::mem::zeroed() };
        address.sa_family = libc::ARPHRD_ETHER;
        address.sa_data.iter_mut().zip(mac).for_each(|(to, from)| *to = from as c_char);
        self.ask(libc::SIOCSIFHWADDR, |r| r.ifr_ifru.ifru_hwaddr = address).map(drop)
    }

    /// Sets the IPv4 address, with prefix length `len`.
    pub(crate) fn set_ip4(&self, address: Ipv4Addr, len: u8) -> io::Result<()> {
        let mask = Ipv4Addr::from(u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0));
        for (what, value) in [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, mask)] {
            // SAFETY: zeros are a valid address.
            let mut to: libc::sockaddr = unsafe { std::mem::zeroed() };
            to.sa_family = libc::AF_INET as libc::sa_family_t;
            // A sockaddr_in: the port, then the address.
            to.sa_data.iter_mut().skip(2).zip(value.octets()).for_each(|(to, from)| *to = from as c_char);
            self.ask(what, |r| r.ifr_ifru.ifru_addr = to)?;
        }
        Ok(())
    }

    /// Returns the driver's name; `None` if the driver does not report it.
    pub(crate) fn driver(&self) -> Option<String> {
        const ETHTOOL_GDRVINFO: u32 = 3;
        // `struct ethtool_drvinfo`: the command, then the driver's name in 32 bytes.
        let mut info = [0u8; 196];
        info[..4].copy_from_slice(&ETHTOOL_GDRVINFO.to_ne_bytes());
        self.ethtool(&mut info).ok()?;
        let name = info[4..36].split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    /// Returns the number of receive queues.
    pub(crate) fn rx_queues(&self) -> io::Result<u32> {
        const ETHTOOL_GCHANNELS: u32 = 0x3c;
        // `struct ethtool_channels`: the command; the maximum of receive, transmit, other and combined queues; their
        // current numbers.
        let mut channels = [ETHTOOL_GCHANNELS, 0, 0, 0, 0, 0, 0, 0, 0];
        match self.ethtool(&mut channels) {
            Ok(()) => Ok((channels[5] + channels[8]).max(1)),
            // A driver without this query has one queue.
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(1),
            Err(e) => Err(e),
        }
    }

    /// Returns the speed in Mbit/s, if the driver reports it.
    pub(crate) fn speed_mbps(&self) -> Option<u32> {
        const ETHTOOL_GSET: u32 = 1;
        const UNKNOWN: u32 = 0xffff_ffff;
        // `struct ethtool_cmd`: 11 words, the first the command. The speed's lower half is the upper half of the word
        // at 12 (after `supported` and `advertising`), its upper half is at 28.
        let mut cmd = [0u8; 44];
        cmd[..4].copy_from_slice(&ETHTOOL_GSET.to_ne_bytes());
        self.ethtool(&mut cmd).ok()?;
        let half = |at: usize| u32::from(u16::from_ne_bytes([cmd[at], cmd[at + 1]]));
        let speed = half(28) << 16 | half(12);
        (speed != 0 && speed != UNKNOWN && speed != 0xffff).then_some(speed)
    }
}

/// Returns the names of the interfaces in the calling thread's namespace.
pub(crate) fn names() -> Vec<String> {
    let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    table.lines().filter_map(|l| l.split_once(':')).map(|(name, _)| name.trim().to_owned()).collect()
}

/// A default route through an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DefaultRoute {
    /// The kernel has learned the route from a router advertisement, or the route expires, like those that programs learn. Any host on the
    /// link can send router advertisements.
    Learned,
    /// The administrator of the machine, or a program, has set the route.
    Set,
}

/// Returns the default route of the calling thread's namespace through this interface, if there is one; `Set` if there are both kinds.
pub(crate) fn default_route(name: &str) -> Option<DefaultRoute> {
    let table = |file| fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
    let ip4 = default_in_ip4(&table("route"), name).then_some(DefaultRoute::Set);
    ip4.max(default_in_ip6(&table("ipv6_route"), name))
}

/// Searches `/proc/net/route` for a default route through interface `name`. The fields are interface, destination, gateway, flags, …, and
/// mask at index 7.
fn default_in_ip4(table: &str, name: &str) -> bool {
    table
        .lines()
        .map(|l| l.split_whitespace().collect::<Vec<_>>())
        .any(|w| matches!(w[..], [interface, "00000000", _, _, _, _, _, "00000000", ..] if interface == name))
}

/// Searches `/proc/net/ipv6_route` for default routes through interface `name`, other than reject routes (`RTF_REJECT`). The fields are
/// destination, prefix length, …, flags at index 8, and interface. The kernel marks the routes that it has learned (`RTF_ADDRCONF`), and
/// programs that learn routes give them a lifetime (`RTF_EXPIRES`).
fn default_in_ip6(table: &str, name: &str) -> Option<DefaultRoute> {
    const RTF_REJECT: u32 = 0x200;
    const LEARNED: u32 = 0x0004_0000 | 0x0040_0000;
    let routes =
        table.lines().map(|l| l.split_whitespace().collect::<Vec<_>>()).filter_map(|w| match w[..] {
            [to, "00", _, _, _, _, _, _, flags, interface]
                if interface == name && to.bytes().all(|b| b == b'0') =>
            {
                u32::from_str_radix(flags, 16).ok().filter(|flags| flags & RTF_REJECT == 0)
            }
            _ => None,
        });
    let kind = |flags| if flags & LEARNED == 0 { DefaultRoute::Set } else { DefaultRoute::Learned };
    routes.map(kind).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes_are_found() {
        let ip4 = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                   eth1\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                   eth2\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000080\t0\t0\t0\n\
                   eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        assert!(default_in_ip4(ip4, "eth1"));
        assert!(!default_in_ip4(ip4, "eth0") && !default_in_ip4(ip4, "eth2") && !default_in_ip4("", "eth0"));
        let zero = "00000000000000000000000000000000";
        let route = |to: &str, len: &str, flags: &str, dev: &str| {
            format!("{to} {len} {zero} 00 {zero} 00000400 00000001 00000000 {flags} {dev}\n")
        };
        let ip6 = route(zero, "00", "00000003", "eth1")
            + &route(zero, "00", "00200200", "lo")
            + &route("fe800000000000000000000000000000", "40", "00000001", "eth0")
            + &route(zero, "00", "00450003", "eth2")
            + &route(zero, "00", "00400003", "eth3")
            + &route(zero, "00", "00450003", "eth1");
        for (name, found) in [
            ("eth0", None),
            ("eth1", Some(DefaultRoute::Set)),
            ("eth2", Some(DefaultRoute::Learned)),
            ("eth3", Some(DefaultRoute::Learned)),
            ("lo", None),
        ] {
            assert_eq!(default_in_ip6(&ip6, name), found, "{name}");
        }
    }

    #[test]
    fn interfaces_are_found_by_name_only_if_they_exist() {
        assert!(Netdev::find("lo").unwrap().exists() && names().iter().any(|n| n == "lo"));
        let lo = Netdev::find("lo").unwrap();
        assert_eq!(lo.mac().unwrap(), None);
        assert_eq!(Netdev::at(lo.index()).unwrap().name().unwrap(), "lo");
        assert_eq!(Netdev::at(c_int::MAX).err().unwrap().raw_os_error(), Some(libc::ENODEV));
        for name in ["", "nosuch0", "a-name-that-is-far-too-long", "lo\0"] {
            assert_eq!(Netdev::find(name).err().unwrap().raw_os_error(), Some(libc::ENODEV), "{name}");
        }
    }
}
