//! `tap`: a cable between the router and this machine's own stack (`/dev/net/tun`).
//!
//! The host's end is an ordinary network interface, made here and gone with the device. Packets come and go one a
//! system call, each with a virtio header, so that segments that are to be cut and checksums that are to be completed
//! are passed on as they are, both ways.

mod queue;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libc::{c_int, c_ulong};

use self::queue::{TapRx, TapTx};
use crate::device::{Device, DeviceControl, Link};
use crate::kernel::apart;
use crate::kernel::netdev::{self, Netdev};
use crate::kernel::scratch::Scratch;
use crate::kernel::sys;

/// Name of the node that polls these devices.
pub(crate) const INPUT_NODE: &str = "tap-input";
/// Refuse a name that there is already (`linux/if_tun.h`).
const IFF_TUN_EXCL: c_int = 0x8000;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Name of the host's end.
    pub host_name: String,
    /// The network namespace that the host's end is in: a path, or a name as `ip netns` keeps them. `None`: the
    /// calling thread's.
    pub host_namespace: Option<PathBuf>,
    /// Ethernet address of the host's end; `None`: one that the kernel chooses.
    pub host_mac: Option<[u8; 6]>,
    /// Address and prefix length of the host's end.
    pub host_ip4: Option<(Ipv4Addr, u8)>,
    /// Ethernet address of this end; `None`: one that is derived from the host's.
    pub mac: Option<[u8; 6]>,
    /// The largest network packet of both ends, in bytes.
    pub mtu: u16,
    /// Whether packets that are still to be cut, of up to 64 KiB, pass in either direction.
    pub gso: bool,
}

impl Config {
    /// A tap whose host's end has this name, with segmentation offload and the MTU of Ethernet.
    pub fn new(host_name: impl Into<String>) -> Config {
        Config {
            host_name: host_name.into(),
            host_namespace: None,
            host_mac: None,
            host_ip4: None,
            mac: None,
            mtu: 1500,
            gso: true,
        }
    }
}

/// Why a tap cannot be made: what was tried, and what the kernel said.
#[derive(Debug)]
pub struct OpenError(String, io::Error);

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.1.kind() {
            io::ErrorKind::PermissionDenied => ". It needs CAP_NET_ADMIN, and access to /dev/net/tun",
            io::ErrorKind::NotFound => ". The machine has no tap devices, or no such namespace",
            io::ErrorKind::ResourceBusy => ". There is an interface with this name already",
            _ => "",
        };
        write!(f, "{}: {}{why}", self.0, self.1)
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.1)
    }
}

/// Makes a tap. Its host's end is up, but without carrier until the device is
/// [set up](crate::DeviceControl::set_admin).
///
/// # Errors
/// When the kernel refuses, for want of rights or because the name is taken; nothing is left then.
pub fn open(config: &Config) -> Result<Device, OpenError> {
    let made = match &config.host_namespace {
        None => make(config),
        // A thread of its own enters the namespace, so that no other has to find its way back.
        Some(namespace) => std::thread::scope(|scope| {
            let failed = |e| OpenError(format!("entering the network namespace {}", namespace.display()), e);
            let file =
                apart::open(&namespace_file(namespace), apart::PATIENCE, open_namespace).map_err(failed)?;
            let inside = move || sys::enter_network(file.as_fd()).map_err(failed).and_then(|()| make(config));
            scope.spawn(inside).join().unwrap_or_else(|_| {
                Err(OpenError("entering the namespace".into(), io::ErrorKind::Other.into()))
            })
        }),
    };
    let Made { tun, dev, mac } = made?;
    let tun = Arc::new(tun);
    Ok(Device {
        kind: "tap",
        input_node: INPUT_NODE,
        rx: vec![Box::new(TapRx {
            tun: tun.clone(),
            scratch: Scratch::new(),
            name: config.host_name.clone(),
            unusable: 0,
        })],
        tx: vec![Box::new(TapTx { tun: tun.clone(), gso: config.gso })],
        mac,
        mtu: config.mtu,
        control: Box::new(Control { tun, dev, config: config.clone() }),
    })
}

struct Made {
    tun: File,
    dev: Netdev,
    mac: [u8; 6],
}

/// The file of a network namespace that is given by a path, or by a name as `ip netns` keeps them.
pub fn namespace_file(namespace: &Path) -> PathBuf {
    match namespace.components().count() {
        1 => Path::new("/run/netns").join(namespace),
        _ => namespace.to_owned(),
    }
}

/// Opens the [file](namespace_file) of a network namespace. Call it on a thread that may wait.
///
/// # Errors
/// The system refuses.
pub fn open_namespace(file: &Path) -> io::Result<File> {
    // Should it be a pipe, nobody waits for its other end.
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(file)
}

/// Makes the device in the calling thread's namespace.
fn make(config: &Config) -> Result<Made, OpenError> {
    let name = &config.host_name;
    let failed = |what: &'static str| move |e| OpenError(format!("{what} {name}"), e);
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "the name is empty or too long");
    let mut request = netdev::request(name).ok_or_else(invalid).map_err(failed("making the tap"))?;

    let tun = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")
        .map(|tun| File::from(apart::above(tun.into())))
        .map_err(failed("opening /dev/net/tun for"))?;
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | IFF_TUN_EXCL;
    request.ifr_ifru.ifru_flags = flags as i16;
    // SAFETY: this call takes an ifreq.
    unsafe { sys::ioctl(tun.as_fd(), libc::TUNSETIFF as c_ulong, &mut request) }
        .map_err(failed("making the tap"))?;
    offloads(&tun, config.gso).map_err(failed("setting the offloads of"))?;
    carrier(&tun, false).map_err(failed("taking the carrier from"))?;

    let dev = Netdev::find(name).map_err(failed("looking for"))?;
    let own = dev.mac().map_err(failed("asking for the address of"))?.unwrap_or_default();
    // The kernel's choice is random. The same number under another prefix is as random, and differs.
    let [_, _, random @ ..] = own;
    let mut mac = [2, 0xfe, random[0], random[1], random[2], random[3]];
    mac[5] ^= u8::from(Some(mac) == config.host_mac || mac == own);
    if let Some(mac) = config.host_mac {
        dev.set_mac(mac).map_err(failed("setting the address of"))?;
    }
    dev.set_mtu(config.mtu.into()).map_err(failed("setting the MTU of"))?;
    if let Some((address, len)) = config.host_ip4 {
        dev.set_ip4(address, len).map_err(failed("setting the IPv4 address of"))?;
    }
    dev.set_up(true).map_err(failed("setting up"))?;
    Ok(Made { tun, dev, mac: config.mac.unwrap_or(mac) })
}

/// Says what the host may hand over: always partial checksums, with `gso` packets that are still to be cut.
fn offloads(tun: &File, gso: bool) -> io::Result<()> {
    let tcp = libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    let udp = libc::TUN_F_USO4 | libc::TUN_F_USO6;
    let set = |flags: u32| {
        // SAFETY: this call takes a number.
        unsafe { sys::ioctl_number(tun.as_fd(), libc::TUNSETOFFLOAD as c_ulong, flags.into()) }
    };
    match gso {
        false => set(libc::TUN_F_CSUM),
        // Kernels before 6.2 know no segmentation of UDP.
        true => set(libc::TUN_F_CSUM | tcp | udp).or_else(|_| set(libc::TUN_F_CSUM | tcp)),
    }
}

/// Plugs the cable in, or pulls it out, as the host sees it.
fn carrier(tun: &File, on: bool) -> io::Result<()> {
    let mut on = c_int::from(on);
    // SAFETY: this call takes the address of an int.
    unsafe { sys::ioctl(tun.as_fd(), libc::TUNSETCARRIER as c_ulong, &mut on) }
}

struct Control {
    tun: Arc<File>,
    dev: Netdev,
    config: Config,
}

impl DeviceControl for Control {
    fn set_admin(&mut self, up: bool) -> io::Result<()> {
        carrier(&self.tun, up)
    }

    fn set_mtu(&mut self, mtu: u16) -> io::Result<()> {
        self.dev.set_mtu(mtu.into())
    }

    fn set_mac(&mut self, _: [u8; 6]) -> io::Result<()> {
        // A cable does not look at addresses.
        if self.dev.exists() { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ENODEV)) }
    }

    fn link(&mut self) -> Link {
        match self.dev.flags() {
            Ok(flags) => Link { present: true, carrier: flags & libc::IFF_UP != 0, speed_mbps: None },
            Err(_) => Link { present: false, carrier: false, speed_mbps: None },
        }
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        let Config { host_name, host_namespace, gso, .. } = &self.config;
        let mut lines =
            vec![("host interface", self.dev.name().unwrap_or_else(|_| format!("{host_name} (gone)")))];
        if let Some(namespace) = host_namespace {
            lines.push(("host namespace", namespace.display().to_string()));
        }
        lines.push(("segmentation offload", if *gso { "on" } else { "off" }.to_owned()));
        lines
    }
}
