//! Opening a kernel interface with packet sockets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use buf::{RxQueue, TxQueue};
use libc::{SOL_PACKET, c_int};

use super::ring::{BlockRing, FrameRing, Ring};
use super::rx::PacketRx;
use super::tx::{Batch, PacketTx};
use super::{Config, Control, Mode, OpenError, Stack};
use crate::device::Device;
use crate::kernel::claim::Claim;
use crate::kernel::netdev::Netdev;
use crate::kernel::scratch::Scratch;
use crate::kernel::sys;
use crate::port::{self, Port};

/// Name of the input node that polls these devices.
pub const INPUT_NODE: &str = "af-packet-input";
/// Bytes of the socket buffer for received packets that are too large for the ring. Without privileges, the system's limit applies.
const RECEIVE_BUFFER: c_int = 16 << 20;
/// Bytes of the socket buffer for packets being sent. Without privileges, the system's limit applies.
const SEND_BUFFER: c_int = 8 << 20;
/// Maximum number of queues in each direction.
const MAX_QUEUES: usize = 64;
/// Maximum capacity of a receive ring in packets.
const MAX_RING: usize = 1 << 20;

/// Opens an interface of the calling thread's network namespace. An interface that is down stays down until it is
/// [set up](crate::DeviceControl::set_admin).
///
/// # Errors
/// If the configuration is invalid, the interface does not exist or is in use, or the kernel refuses; see [`OpenError`].
pub fn open(config: &Config) -> Result<Device, OpenError> {
    let name = &config.name;
    if !(1..=MAX_QUEUES).contains(&config.queues) || !(1..=MAX_RING).contains(&config.rx_ring) {
        return Err(OpenError::Impossible(format!(
            "{name}: use 1 to {MAX_QUEUES} queues with rings of 1 to {MAX_RING} packets, not {} queues of {} packets",
            config.queues, config.rx_ring
        )));
    }
    let (dev, own_mac) = port::find(name, config.force)?;
    let stack = keep_out(config)?;

    let port = Port::new(dev)?;
    let (dev, mtu) = (port.dev(), port.mtu());
    let mut rx: Vec<Box<dyn RxQueue>> = Vec::new();
    let mut tx: Vec<Box<dyn TxQueue>> = Vec::new();
    let mut group = None;
    for _ in 0..config.queues {
        let (socket, ring) = rx_socket(config, dev, mtu as usize)
            .map_err(|e| OpenError::Refused("cannot open a packet socket to receive", e))?;
        if config.queues > 1 {
            let joined = join(socket.as_fd(), group);
            group = Some(joined.map_err(|e| OpenError::Refused("cannot spread flows over queues", e))?);
        }
        rx.push(Box::new(PacketRx {
            socket,
            ring,
            scratch: Scratch::new(),
            dev: dev.clone(),
            name: name.clone(),
            idle: 0,
            down: false,
            unusable: 0,
        }));
        let socket =
            tx_socket(dev).map_err(|e| OpenError::Refused("cannot open a packet socket to send", e))?;
        tx.push(Box::new(PacketTx { socket, batch: Batch::new(), dev: dev.clone() }));
    }
    Ok(Device {
        kind: "af-packet",
        input_node: INPUT_NODE,
        rx,
        tx,
        mac: config.mac.unwrap_or(own_mac),
        mtu: mtu.clamp(0, u16::MAX.into()) as u16,
        control: Box::new(Control { port, stack, config: config.clone() }),
    })
}

fn keep_out(config: &Config) -> Result<Stack, OpenError> {
    if config.shared {
        return Ok(Stack::Shared);
    }
    match Claim::new(&config.name) {
        Ok(claim) => Ok(Stack::KeptOut { _claim: claim }),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(OpenError::InUse(config.name.clone())),
        Err(e) => {
            tracing::warn!(
                "{}: nftables cannot be used ({e}), so the kernel's own stack also receives packets from this interface, and \
                 may answer them. Load nf_tables, or remove the interface's addresses.",
                config.name
            );
            Ok(Stack::Hears(e))
        }
    }
}

/// Opens a packet socket that uses virtio headers. It is not bound yet.
fn packet_socket() -> io::Result<OwnedFd> {
    let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    sys::set_option(socket.as_fd(), SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    Ok(socket)
}

fn bind(socket: BorrowedFd<'_>, dev: &Netdev, protocol: c_int) -> io::Result<()> {
    // SAFETY: zeros are a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (protocol as u16).to_be();
    address.sll_ifindex = dev.index();
    // SAFETY: this is the address of a packet socket.
    unsafe { sys::bind(socket, &address) }
}

fn rx_socket(config: &Config, dev: &Netdev, mtu: usize) -> io::Result<(OwnedFd, Ring)> {
    let socket = packet_socket()?;
    let fd = socket.as_fd();
    let set = |option, value: c_int| sys::set_option(fd, SOL_PACKET, option, value);
    // The router's own packets do not loop back.
    set(libc::PACKET_IGNORE_OUTGOING, 1)?;
    let version = match config.mode {
        Mode::V2 => libc::tpacket_versions::TPACKET_V2,
        Mode::V3 => libc::tpacket_versions::TPACKET_V3,
    };
    set(libc::PACKET_VERSION, version as c_int)?;
    let ring = match config.mode {
        Mode::V2 => {
            // Packets too large for the ring's frames wait in the socket, with their VLAN tags in auxiliary data.
            set(libc::PACKET_COPY_THRESH, 1)?;
            set(libc::PACKET_AUXDATA, 1)?;
            sys::buffer(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, RECEIVE_BUFFER)?;
            Ring::Frames(FrameRing::new(fd, config.rx_ring, mtu)?)
        }
        Mode::V3 => Ring::Blocks(BlockRing::new(fd, config.rx_ring, mtu)?),
    };
    // Receive packets to every unicast and multicast address, including an address that the operator sets.
    port::promiscuous(fd, dev)?;
    bind(fd, dev, libc::ETH_P_ALL)?;
    Ok((socket, ring))
}

fn tx_socket(dev: &Netdev) -> io::Result<OwnedFd> {
    let socket = packet_socket()?;
    sys::buffer(socket.as_fd(), libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SEND_BUFFER)?;
    // Protocol 0: nothing is received.
    bind(socket.as_fd(), dev, 0)?;
    Ok(socket)
}

/// Adds a socket to the fanout group, or creates the group. Returns the group's ID.
fn join(socket: BorrowedFd<'_>, group: Option<c_int>) -> io::Result<c_int> {
    let new = ((libc::PACKET_FANOUT_HASH | libc::PACKET_FANOUT_FLAG_UNIQUEID) << 16) as c_int;
    sys::set_option(socket, SOL_PACKET, libc::PACKET_FANOUT, group.unwrap_or(new))?;
    sys::option(socket, SOL_PACKET, libc::PACKET_FANOUT)
}
