//! Opening a kernel interface with AF_XDP sockets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use buf::layout::{DATA_ROOM, HEADROOM};
use buf::{Lent, Pool, RxQueue, TxQueue, Window};
use libc::{SOL_XDP, c_int};

use super::program::{Attach, Program};
use super::ring::{Kind, Ring};
use super::rx::XdpRx;
use super::tx::XdpTx;
use super::{Config, Control, Copying, MAX_MTU, Socket};
use crate::device::Device;
use crate::kernel::netdev::Netdev;
use crate::kernel::sys;
use crate::port::{self, OpenError, Port};

/// Name of the input node that polls these devices.
pub const INPUT_NODE: &str = "af-xdp-input";
/// Number of bytes in a buffer that the kernel may use, counted from the start of the headroom.
const CHUNK: u32 = (HEADROOM + DATA_ROOM) as u32;
/// Maximum number of packets that the kernel sends per system call, if the kernel supports the option (`XDP_MAX_TX_SKB_BUDGET`, Linux
/// 6.17).
const BUDGET: c_int = 256;
const XDP_MAX_TX_SKB_BUDGET: c_int = 9;
/// Time limit for the kernel to release a queue.
const LETTING_GO: Duration = Duration::from_millis(200);
/// Allowed ring sizes in packets.
const RINGS: std::ops::RangeInclusive<u32> = 64..=32_768;

/// Opens an interface of the calling thread's network namespace; its packets are stored in buffers of `pool`. An
/// interface that is down stays down until it is [set up](crate::DeviceControl::set_admin).
///
/// # Errors
/// If the configuration is invalid, the interface does not exist or is in use, or the kernel refuses; see [`OpenError`].
pub fn open(config: &Config, pool: &Pool) -> Result<Device, OpenError> {
    let name = &config.name;
    for ring in [config.rx_ring, config.tx_ring] {
        if !RINGS.contains(&ring) || !ring.is_power_of_two() {
            return Err(OpenError::Impossible(format!(
                "{name}: ring size {ring} is not a power of two from {} to {}",
                RINGS.start(),
                RINGS.end()
            )));
        }
    }
    let (dev, own_mac) = port::find(name, config.force)?;
    let asked = |e| OpenError::Refused("cannot read the interface's properties", e);
    let there = dev.rx_queues().map_err(asked)?;
    let queues = config.queues.unwrap_or(there);
    if queues != there {
        return Err(OpenError::Impossible(format!(
            "{name} has {there} receive queues, but {queues} are configured, and packets to other queues would be lost. \
             Configure {there} queues, or run: ethtool -L {name} combined {queues} (or rx {queues} tx {queues})"
        )));
    }
    let port = Port::new(dev)?;
    let dev = port.dev();
    // Sockets can be bound only while the interface is up. If it was down, it is set down again below.
    let was_up = dev.flags().map_err(asked)? & libc::IFF_UP != 0;
    dev.set_up(true).map_err(|e| OpenError::Refused("cannot set the interface up", e))?;
    let program = attach(config, dev, queues)?;
    let promiscuous =
        port::listen_to_all(dev).map_err(|e| OpenError::Refused("cannot set promiscuous mode", e))?;

    let window = pool.window();
    let mut rx: Vec<Box<dyn RxQueue>> = Vec::new();
    let mut tx: Vec<Box<dyn TxQueue>> = Vec::new();
    let mut copies = false;
    for queue in 0..queues {
        let opened = open_queue(config, dev, queue, window, pool)
            .map_err(|e| OpenError::Refused(explain(&e, config), e))?;
        let served = program.serve(queue, opened.socket.as_fd());
        served.map_err(|e| OpenError::Refused("cannot redirect a queue's packets to its socket", e))?;
        copies |= opened.copies;
        rx.push(Box::new(opened.rx));
        tx.push(Box::new(opened.tx));
    }
    dev.set_up(was_up).map_err(|e| OpenError::Refused("cannot set the interface down again", e))?;
    Ok(Device {
        kind: "af-xdp",
        input_node: INPUT_NODE,
        rx,
        tx,
        mac: config.mac.unwrap_or(own_mac),
        mtu: port.mtu().clamp(0, MAX_MTU.into()) as u16,
        control: Box::new(Control {
            program,
            _promiscuous: promiscuous,
            port,
            copies,
            config: config.clone(),
            queues: queues as usize,
        }),
    })
}

fn attach(config: &Config, dev: &Netdev, queues: u32) -> Result<Program, OpenError> {
    let new = |attach| Program::new(dev.index(), queues, attach);
    let made = match config.attach {
        Some(attach) => new(attach),
        None => new(Attach::Native).or_else(|e| match e.raw_os_error() {
            // Another program is attached, or privileges are missing: generic mode would fail too.
            Some(libc::EBUSY | libc::EPERM) => Err(e),
            _ => new(Attach::Generic),
        }),
    };
    made.map_err(|e| match e.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => OpenError::Impossible(format!(
            "{} already has an XDP program of another process: `ip link show dev {0}` shows it",
            config.name
        )),
        Some(libc::EOPNOTSUPP) => OpenError::Impossible(format!(
            "the driver of {} does not support XDP: use a host-interface, or leave out \"native\"",
            config.name
        )),
        _ => OpenError::Refused("cannot attach the XDP program", e),
    })
}

/// Returns the text for an error of opening a socket: what failed, and what the operator can do about it.
fn explain(e: &io::Error, config: &Config) -> &'static str {
    match (e.raw_os_error(), config.copying) {
        (Some(libc::EOPNOTSUPP), Copying::Never) => {
            "this interface's driver does not support zero copy: leave out \"zero-copy\""
        }
        (Some(libc::EBUSY), _) => "a queue is in use by another process",
        (Some(libc::ENOBUFS | libc::ENOMEM), _) => {
            "cannot share the buffers with the kernel: raise LimitMEMLOCK= in the service unit (ulimit -l), or use a \
             host-interface"
        }
        _ => "cannot open an AF_XDP socket",
    }
}

/// Binds a socket to its queue. The kernel releases the queue of a closed socket only after a delay. So if the queue is busy, this function
/// tries again, for at most [`LETTING_GO`].
fn bind(socket: BorrowedFd<'_>, address: &libc::sockaddr_xdp) -> io::Result<()> {
    let end = Instant::now() + LETTING_GO;
    loop {
        // SAFETY: this is the address of an AF_XDP socket.
        match unsafe { sys::bind(socket, address) } {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(2));
            }
            done => return done,
        }
    }
}

struct Queue {
    socket: Arc<Socket>,
    rx: XdpRx,
    tx: XdpTx,
    copies: bool,
}

fn open_queue(
    config: &Config,
    dev: &Arc<Netdev>,
    queue: u32,
    window: Window,
    pool: &Pool,
) -> io::Result<Queue> {
    let fd: OwnedFd = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0)?;
    let memory = libc::xdp_umem_reg {
        addr: window.start().as_ptr() as u64,
        len: window.len() as u64,
        chunk_size: CHUNK,
        headroom: 0,
        flags: libc::XDP_UMEM_UNALIGNED_CHUNK_FLAG,
        tx_metadata_len: 0,
    };
    sys::set_option(fd.as_fd(), SOL_XDP, libc::XDP_UMEM_REG, memory)?;
    let fill = Ring::new(fd.as_fd(), Kind::Fill, config.rx_ring)?;
    let completion = Ring::new(fd.as_fd(), Kind::Completion, config.tx_ring)?;
    let received = Ring::new(fd.as_fd(), Kind::Receive, config.rx_ring)?;
    let sent = Ring::new(fd.as_fd(), Kind::Transmit, config.tx_ring)?;
    // Kernels without this option send 32 packets per call.
    let _ = sys::set_option(fd.as_fd(), SOL_XDP, XDP_MAX_TX_SKB_BUDGET, BUDGET);
    let copying = match config.copying {
        Copying::IfNeeded => 0,
        Copying::Always => libc::XDP_COPY,
        Copying::Never => libc::XDP_ZEROCOPY,
    };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP | copying,
        sxdp_ifindex: dev.index() as u32,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    bind(fd.as_fd(), &address)?;
    let options: c_int = sys::option(fd.as_fd(), SOL_XDP, libc::XDP_OPTIONS)?;
    let socket = Arc::new(Socket { fd, left: Default::default() });
    let rx = XdpRx {
        ring: received,
        fill,
        socket: socket.clone(),
        dev: dev.clone(),
        name: config.name.clone(),
        idle: 0,
        missed: 0,
        unusable: 0,
        lent: Some(Lent::new(pool, window)),
    };
    let tx = XdpTx {
        ring: sent,
        completion,
        socket: socket.clone(),
        dev: dev.clone(),
        lent: Some(Lent::new(pool, window)),
    };
    let copies = options as u32 & libc::XDP_OPTIONS_ZEROCOPY == 0;
    Ok(Queue { socket, rx, tx, copies })
}
