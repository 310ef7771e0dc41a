//! `tap`: a virtual link between the router and this machine's kernel stack (`/dev/net/tun`).
//!
//! The host's end is an ordinary network interface, created and removed with the device. Each system call carries one packet with a virtio
//! header, so GSO packets stay unsegmented and partial checksums stay partial in both directions.

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
use crate::kernel::netdev::{self, Netdev};
use crate::kernel::scratch::Scratch;
use crate::kernel::sys;
use crate::kernel::{apart, slow};

/// Name of the input node that polls these devices.
pub const INPUT_NODE: &str = "tap-input";
/// Fail if the name is taken (`linux/if_tun.h`).
const IFF_TUN_EXCL: c_int = 0x8000;

/// Configuration of a tap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Name of the host's interface.
    pub host_name: String,
    /// The network namespace of the host's interface: a path, or a name known to `ip netns`. `None` means the calling
    /// thread's namespace.
    pub host_namespace: Option<PathBuf>,
    /// Ethernet address of the host's interface; `None` lets the kernel choose one.
    pub host_mac: Option<[u8; 6]>,
    /// IPv4 address and prefix length of the host's interface; `None` sets no address.
    pub host_ip4: Option<(Ipv4Addr, u8)>,
    /// Ethernet address of the router's end; `None` derives one from the kernel's choice for the host.
    pub mac: Option<[u8; 6]>,
    /// MTU of both ends in bytes.
    pub mtu: u16,
    /// True to pass GSO packets of up to 64 KiB in both directions.
    pub gso: bool,
}

impl Config {
    /// Returns the defaults for a tap with this host interface: segmentation offload and an MTU of 1,500 bytes.
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

/// The reason why a tap cannot be opened: the failed step, and the kernel's error.
#[derive(Debug)]
pub struct OpenError(String, io::Error);

impl OpenError {
    /// True if opening the tap may succeed later, without a change of the configuration. This is so if another interface has the name, if
    /// the namespace does not exist, or if the tun module is not loaded.
    pub fn may_pass(&self) -> bool {
        matches!(self.1.kind(), io::ErrorKind::ResourceBusy | io::ErrorKind::NotFound)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.1.kind() {
            io::ErrorKind::PermissionDenied => ". Grant CAP_NET_ADMIN and access to /dev/net/tun",
            io::ErrorKind::NotFound => ". Load the tun module, or create the namespace",
            io::ErrorKind::ResourceBusy => ". The name is taken: choose another",
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

/// Creates a tap. The host's interface is up, but has no carrier until the device is [set
/// up](crate::DeviceControl::set_admin).
///
/// # Errors
/// If the kernel refuses, for example because of missing privileges or a name that is taken. Nothing is left behind then.
pub fn open(config: &Config) -> Result<Device, OpenError> {
    let made = match &config.host_namespace {
        None => make(config),
        // A separate thread enters the namespace, so no other thread has to switch back.
        Some(namespace) => std::thread::scope(|scope| {
            let failed =
                |e| OpenError(format!("cannot enter the network namespace {}", namespace.display()), e);
            let file =
                slow::open(&namespace_file(namespace), slow::PATIENCE, open_namespace).map_err(failed)?;
            let inside = move || sys::enter_network(file.as_fd()).map_err(failed).and_then(|()| make(config));
            scope.spawn(inside).join().unwrap_or_else(|_| {
                Err(OpenError("cannot enter the network namespace".into(), io::ErrorKind::Other.into()))
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

/// Returns the file of a network namespace given by a path, or by a name known to `ip netns`.
pub fn namespace_file(namespace: &Path) -> PathBuf {
    match namespace.components().count() {
        1 => Path::new("/run/netns").join(namespace),
        _ => namespace.to_owned(),
    }
}

/// Opens the [file](namespace_file) of a network namespace. May block.
///
/// # Errors
/// If the system refuses.
pub fn open_namespace(file: &Path) -> io::Result<File> {
    // If the file is a pipe, the open does not wait for the other end.
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(file)
}

/// Creates the device in the calling thread's namespace.
fn make(config: &Config) -> Result<Made, OpenError> {
    let name = &config.host_name;
    let failed = |what: &'static str| move |e| OpenError(format!("cannot {what} {name}"), e);
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "the name must have 1 to 15 characters");
    let mut request = netdev::request(name).ok_or_else(invalid).map_err(failed("create the tap"))?;

    let tun = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")
        .map(|tun| File::from(apart::above(tun.into())))
        .map_err(failed("open /dev/net/tun for"))?;
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | IFF_TUN_EXCL;
    request.ifr_ifru.ifru_flags = flags as i16;
    // SAFETY: this call takes an ifreq.
    unsafe { sys::ioctl(tun.as_fd(), libc::TUNSETIFF as c_ulong, &mut request) }
        .map_err(failed("create the tap"))?;
    offloads(&tun, config.gso).map_err(failed("set the offloads of"))?;
    carrier(&tun, false).map_err(failed("remove the carrier of"))?;

    let dev = Netdev::find(name).map_err(failed("find"))?;
    let own = dev.mac().map_err(failed("read the Ethernet address of"))?.unwrap_or_default();
    // The kernel chooses a random address. The same random bytes under another prefix give a different address.
    let [_, _, random @ ..] = own;
    let mut mac = [2, 0xfe, random[0], random[1], random[2], random[3]];
    mac[5] ^= u8::from(Some(mac) == config.host_mac || mac == own);
    if let Some(mac) = config.host_mac {
        dev.set_mac(mac).map_err(failed("set the Ethernet address of"))?;
    }
    dev.set_mtu(config.mtu.into()).map_err(failed("set the MTU of"))?;
    if let Some((address, len)) = config.host_ip4 {
        dev.set_ip4(address, len).map_err(failed("set the IPv4 address of"))?;
    }
    dev.set_up(true).map_err(failed("set up"))?;
    Ok(Made { tun, dev, mac: config.mac.unwrap_or(mac) })
}

/// Sets the offloads that the host may use: always partial checksums, and GSO packets if `gso`.
fn offloads(tun: &File, gso: bool) -> io::Result<()> {
    let tcp = libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    let udp = libc::TUN_F_USO4 | libc::TUN_F_USO6;
    let set = |flags: u32| {
        // SAFETY: this call takes a number.
        unsafe { sys::ioctl_number(tun.as_fd(), libc::TUNSETOFFLOAD as c_ulong, flags.into()) }
    };
    match gso {
        false => set(libc::TUN_F_CSUM),
        // Kernels before 6.2 do not support UDP segmentation.
        true => set(libc::TUN_F_CSUM | tcp | udp).or_else(|_| set(libc::TUN_F_CSUM | tcp)),
    }
}

/// Sets or removes the carrier of the host's interface.
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
        // A tap passes every address.
        if self.dev.exists() { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ENODEV)) }
    }

    fn link(&mut self) -> Link {
        match self.dev.flags() {
            Ok(flags) => Link { present: true, carrier: flags & libc::IFF_UP != 0, speed_mbps: None },
            Err(_) => Link { present: false, carrier: false, speed_mbps: None },
        }
    }

    fn peer_mac(&self) -> Option<[u8; 6]> {
        self.dev.mac().ok().flatten()
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
