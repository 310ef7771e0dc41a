//! A network interface of the kernel, as the system calls of `netdevice(7)` show it.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};

use libc::{c_char, c_int, c_short, c_ulong, ifreq};

use super::sys;

/// A network interface. It is known by its index, so it stays the same when it is renamed, and one that vanished is not
/// mistaken for a new one of the same name.
pub(crate) struct Netdev {
    /// Any socket of its namespace.
    socket: OwnedFd,
    index: c_int,
}

/// A request about the interface of this name; `None` when no interface can have it.
pub(crate) fn request(name: &str) -> Option<ifreq> {
    // SAFETY: zeros are a valid request.
    let mut r: ifreq = unsafe { std::mem::zeroed() };
    let fits = !name.is_empty() && name.len() < r.ifr_name.len() && !name.contains('\0');
    r.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from as c_char);
    fits.then_some(r)
}

/// The NUMA node that an interface's hardware is at; `None` for what has none, or is at no certain one.
pub(crate) fn numa_node(name: &str) -> Option<u32> {
    let node = fs::read_to_string(format!("/sys/class/net/{name}/device/numa_node")).ok()?;
    node.trim().parse().ok()
}

impl Netdev {
    /// The interface of this name in the calling thread's namespace.
    ///
    /// # Errors
    /// `ENODEV` when there is none.
    pub(crate) fn find(name: &str) -> io::Result<Netdev> {
        let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        let mut r = request(name).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?;
        let mut dev = Netdev { socket, index: 0 };
        dev.call(libc::SIOCGIFINDEX, &mut r)?;
        // SAFETY: the call has set the index, and any number is one.
        dev.index = unsafe { r.ifr_ifru.ifru_ifindex };
        Ok(dev)
    }

    /// The interface with this index in the calling thread's namespace.
    ///
    /// # Errors
    /// `ENODEV` when there is none.
    pub(crate) fn at(index: c_int) -> io::Result<Netdev> {
        let dev = Netdev { socket: sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?, index };
        dev.request().map(|_| dev)
    }

    /// The index, by which packet sockets know it.
    pub(crate) fn index(&self) -> c_int {
        self.index
    }

    fn call(&self, what: c_ulong, r: &mut ifreq) -> io::Result<()> {
        // SAFETY: every call in this file takes an ifreq, and writes nothing else.
        unsafe { sys::ioctl(self.socket.as_fd(), what, r) }
    }

    /// A request about this interface by its present name; an error when it is gone.
    fn request(&self) -> io::Result<ifreq> {
        // SAFETY: zeros are a valid request.
        let mut r: ifreq = unsafe { std::mem::zeroed() };
        r.ifr_ifru.ifru_ifindex = self.index;
        self.call(libc::SIOCGIFNAME, &mut r)?;
        Ok(r)
    }

    fn get(&self, what: c_ulong) -> io::Result<ifreq> {
        let mut r = self.request()?;
        self.call(what, &mut r)?;
        Ok(r)
    }

    /// The present name.
    pub(crate) fn name(&self) -> io::Result<String> {
        let r = self.request()?;
        Ok(r.ifr_name.iter().take_while(|&&c| c != 0).map(|&c| char::from(c as u8)).collect())
    }

    /// Whether it still exists.
    pub(crate) fn exists(&self) -> bool {
        self.request().is_ok()
    }

    /// `IFF_UP`, `IFF_RUNNING`, …
    pub(crate) fn flags(&self) -> io::Result<c_int> {
        // SAFETY: the call has set the flags.
        self.get(libc::SIOCGIFFLAGS).map(|r| c_int::from(unsafe { r.ifr_ifru.ifru_flags }))
    }

    /// Whether it is up and has a carrier; an error when it is gone.
    ///
    /// The kernel may note a change of the carrier as late as a second after it, and until then shows the state before in
    /// the flags, and drops what is sent without a word. To ask a driver for its link makes the kernel note it now.
    pub(crate) fn running(&self) -> io::Result<bool> {
        const ETHTOOL_GLINK: u32 = 0x0a;
        // `struct ethtool_value`: the command and the answer, which the flags have, too, for drivers that do not know.
        let mut value = [ETHTOOL_GLINK, 0];
        let mut r = self.request()?;
        r.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        let _ = self.call(libc::SIOCETHTOOL, &mut r);
        Ok(self.flags()? & libc::IFF_RUNNING != 0)
    }

    /// Sets it up or down.
    pub(crate) fn set_up(&self, up: bool) -> io::Result<()> {
        let flags = self.flags()?;
        let new = if up { flags | libc::IFF_UP } else { flags & !libc::IFF_UP };
        if new == flags {
            return Ok(());
        }
        let mut r = self.request()?;
        r.ifr_ifru.ifru_flags = new as c_short;
        self.call(libc::SIOCSIFFLAGS, &mut r)
    }

    /// The largest network packet, in bytes.
    pub(crate) fn mtu(&self) -> io::Result<c_int> {
        // SAFETY: the call has set the MTU.
        self.get(libc::SIOCGIFMTU).map(|r| unsafe { r.ifr_ifru.ifru_mtu })
    }

    pub(crate) fn set_mtu(&self, mtu: c_int) -> io::Result<()> {
        let mut r = self.request()?;
        r.ifr_ifru.ifru_mtu = mtu;
        self.call(libc::SIOCSIFMTU, &mut r)
    }

    /// The Ethernet address; `None` when it is no Ethernet interface.
    pub(crate) fn mac(&self) -> io::Result<Option<[u8; 6]>> {
        let r = self.get(libc::SIOCGIFHWADDR)?;
        // SAFETY: the call has set the hardware address.
        let address = unsafe { r.ifr_ifru.ifru_hwaddr };
        let mac = std::array::from_fn(|i| address.sa_data[i] as u8);
        Ok((address.sa_family == libc::ARPHRD_ETHER).then_some(mac))
    }

    pub(crate) fn set_mac(&self, mac: [u8; 6]) -> io::Result<()> {
        let mut r = self.request()?;
        // SAFETY: zeros are a valid address.
        let mut address: libc::sockaddr = unsafe { std::mem::zeroed() };
        address.sa_family = libc::ARPHRD_ETHER;
        address.sa_data.iter_mut().zip(mac).for_each(|(to, from)| *to = from as c_char);
        r.ifr_ifru.ifru_hwaddr = address;
        self.call(libc::SIOCSIFHWADDR, &mut r)
    }

    /// Gives it an IPv4 address with a prefix of `len` bits.
    pub(crate) fn set_ip4(&self, address: Ipv4Addr, len: u8) -> io::Result<()> {
        let mask = Ipv4Addr::from(u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0));
        for (what, value) in [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, mask)] {
            let mut r = self.request()?;
            // SAFETY: zeros are a valid address.
            let mut to: libc::sockaddr = unsafe { std::mem::zeroed() };
            to.sa_family = libc::AF_INET as libc::sa_family_t;
            // A sockaddr_in: the port, then the address.
            to.sa_data.iter_mut().skip(2).zip(value.octets()).for_each(|(to, from)| *to = from as c_char);
            r.ifr_ifru.ifru_addr = to;
            self.call(what, &mut r)?;
        }
        Ok(())
    }

    /// The name of its driver; `None` if that does not say.
    pub(crate) fn driver(&self) -> Option<String> {
        const ETHTOOL_GDRVINFO: u32 = 3;
        // `struct ethtool_drvinfo`: the command, then the driver's name in 32 bytes.
        let mut info = [0u8; 196];
        info[..4].copy_from_slice(&ETHTOOL_GDRVINFO.to_ne_bytes());
        let mut r = self.request().ok()?;
        r.ifr_ifru.ifru_data = info.as_mut_ptr().cast();
        self.call(libc::SIOCETHTOOL, &mut r).ok()?;
        let name = info[4..36].split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    /// How many receive queues it has.
    pub(crate) fn rx_queues(&self) -> io::Result<u32> {
        const ETHTOOL_GCHANNELS: u32 = 0x3c;
        // `struct ethtool_channels`: the command; the most of receive, transmit, other and combined queues; how many there are.
        let mut channels = [ETHTOOL_GCHANNELS, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut r = self.request()?;
        r.ifr_ifru.ifru_data = channels.as_mut_ptr().cast();
        match self.call(libc::SIOCETHTOOL, &mut r) {
            Ok(()) => Ok((channels[5] + channels[8]).max(1)),
            // A driver that does not know the question has one.
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(1),
            Err(e) => Err(e),
        }
    }

    /// Speed in Mbit/s, where the interface has one.
    pub(crate) fn speed_mbps(&self) -> Option<u32> {
        const ETHTOOL_GSET: u32 = 1;
        const UNKNOWN: u32 = 0xffff_ffff;
        // `struct ethtool_cmd`: 11 words, the first the command. The speed's lower half is in the upper half of the word
        // at 12 (behind `advertising` and `supported`), its upper half at 28.
        let mut cmd = [0u8; 44];
        cmd[..4].copy_from_slice(&ETHTOOL_GSET.to_ne_bytes());
        let mut r = self.request().ok()?;
        r.ifr_ifru.ifru_data = cmd.as_mut_ptr().cast();
        self.call(libc::SIOCETHTOOL, &mut r).ok()?;
        let half = |at: usize| u32::from(u16::from_ne_bytes([cmd[at], cmd[at + 1]]));
        let speed = half(28) << 16 | half(12);
        (speed != 0 && speed != UNKNOWN && speed != 0xffff).then_some(speed)
    }
}

/// Names of the interfaces in the calling thread's namespace.
pub(crate) fn names() -> Vec<String> {
    let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    table.lines().filter_map(|l| l.split_once(':')).map(|(name, _)| name.trim().to_owned()).collect()
}

/// Whether a default route of the calling thread's namespace leaves by this interface.
pub(crate) fn carries_default_route(name: &str) -> bool {
    let table = |file| fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
    default_in_ip4(&table("route"), name) || default_in_ip6(&table("ipv6_route"), name)
}

/// Looks through `/proc/net/route`: interface, destination, gateway, flags, …, mask at 7.
fn default_in_ip4(table: &str, name: &str) -> bool {
    table
        .lines()
        .map(|l| l.split_whitespace().collect::<Vec<_>>())
        .any(|w| matches!(w[..], [interface, "00000000", _, _, _, _, _, "00000000", ..] if interface == name))
}

/// Looks through `/proc/net/ipv6_route`: destination, its length, …, flags at 8, interface. Routes that refuse
/// (`RTF_REJECT`) lead nowhere.
fn default_in_ip6(table: &str, name: &str) -> bool {
    const RTF_REJECT: u32 = 0x200;
    table.lines().map(|l| l.split_whitespace().collect::<Vec<_>>()).any(|w| {
        matches!(w[..], [to, "00", _, _, _, _, _, _, flags, interface]
            if interface == name
                && to.bytes().all(|b| b == b'0')
                && u32::from_str_radix(flags, 16).is_ok_and(|f| f & RTF_REJECT == 0))
    })
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
            + &route("fe800000000000000000000000000000", "40", "00000001", "eth0");
        assert!(default_in_ip6(&ip6, "eth1"));
        assert!(!default_in_ip6(&ip6, "eth0") && !default_in_ip6(&ip6, "lo"));
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
