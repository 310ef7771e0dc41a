//! The XDP program that redirects packets to the router's sockets, and its attachment.
//!
//! The program is six instructions, which the router loads as they are: no compiler is needed. Packets of a queue without a socket are
//! dropped, so nothing leaks into the kernel's forwarding. The attachment is a BPF link. The kernel detaches the program when the link's
//! descriptor is closed, even if the process is killed.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::c_int;

use crate::kernel::{apart, sys};

const BPF_MAP_CREATE: c_int = 0;
const BPF_MAP_UPDATE_ELEM: c_int = 2;
const BPF_PROG_LOAD: c_int = 5;
const BPF_LINK_CREATE: c_int = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_FUNC_REDIRECT_MAP: u32 = 51;
const BPF_PSEUDO_MAP_FD: u8 = 1;
const XDP_DROP: u32 = 1;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
/// Offset of the receive queue's number in `struct xdp_md`.
const RX_QUEUE_INDEX: u16 = 16;

/// Attachment point of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// In the driver, before the kernel allocates an `sk_buff`.
    Native,
    /// After the driver: supported everywhere, but slower.
    Generic,
}

/// The attached program. Dropping it detaches the program.
pub(super) struct Program {
    map: OwnedFd,
    _link: OwnedFd,
    pub(super) attach: Attach,
}

/// Encodes an instruction (`struct bpf_insn`): code, destination and source register, offset, constant.
fn instruction(code: u8, to: u8, from: u8, offset: u16, constant: u32) -> u64 {
    u64::from(code) | u64::from(to | from << 4) << 8 | u64::from(offset) << 16 | u64::from(constant) << 32
}

/// `return bpf_redirect_map(&map, context->rx_queue_index, XDP_DROP)`.
fn redirect(map: RawFd) -> [u64; 6] {
    [
        instruction(0x61, 2, 1, RX_QUEUE_INDEX, 0),
        instruction(0x18, 1, BPF_PSEUDO_MAP_FD, 0, map as u32),
        instruction(0, 0, 0, 0, 0),
        instruction(0xb7, 3, 0, 0, XDP_DROP),
        instruction(0x85, 0, 0, 0, BPF_FUNC_REDIRECT_MAP),
        instruction(0x95, 0, 0, 0, 0),
    ]
}

/// Calls `bpf(2)` with attributes of 64 bits each.
///
/// # Safety
/// Addresses among the attributes point to memory that lives through the call and has the size that the command
/// requires.
unsafe fn bpf(command: c_int, attributes: &[u64]) -> io::Result<c_int> {
    // SAFETY: the attributes live through the call, and the length is theirs; the caller guarantees the rest.
    let r = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of_val(attributes)) };
    sys::check(r as isize).map(|n| n as c_int)
}

/// Calls [`bpf`] for a command that returns a new descriptor.
///
/// # Safety
/// As for [`bpf`].
unsafe fn bpf_fd(command: c_int, attributes: &[u64]) -> io::Result<OwnedFd> {
    // SAFETY: guaranteed by the caller; the descriptor is new and has no other owner.
    unsafe { bpf(command, attributes).map(|fd| apart::above(OwnedFd::from_raw_fd(fd))) }
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl Program {
    /// Attaches the program to the interface with this index. The program's map of sockets has room for `queues` queues.
    pub(super) fn new(interface: c_int, queues: u32, attach: Attach) -> io::Result<Program> {
        // SAFETY: no address is among the attributes: type and size of the key, size of the value and number of entries.
        let map = unsafe { bpf_fd(BPF_MAP_CREATE, &[pair(BPF_MAP_TYPE_XSKMAP, 4), pair(4, queues)])? };
        let code = redirect(map.as_raw_fd());
        let license = c"Dual MIT/GPL";
        let load =
            [pair(BPF_PROG_TYPE_XDP, code.len() as u32), code.as_ptr() as u64, license.as_ptr() as u64];
        // SAFETY: the code has the given length, and the license ends with a zero byte; both live through the call.
        let program = unsafe { bpf_fd(BPF_PROG_LOAD, &load)? };
        let flags = match attach {
            Attach::Native => XDP_FLAGS_DRV_MODE,
            Attach::Generic => XDP_FLAGS_SKB_MODE,
        };
        let link = [pair(program.as_raw_fd() as u32, interface as u32), pair(BPF_XDP, flags)];
        // SAFETY: no address is among the attributes.
        let link = unsafe { bpf_fd(BPF_LINK_CREATE, &link)? };
        Ok(Program { map, _link: link, attach })
    }

    /// Redirects the packets of this queue to the socket.
    pub(super) fn serve(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let socket = socket.as_raw_fd();
        let update = [
            u64::from(self.map.as_fd().as_raw_fd() as u32),
            (&raw const queue) as u64,
            (&raw const socket) as u64,
            0,
        ];
        // SAFETY: key and value have four bytes each, and live through the call.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &update) }.map(|_| ())
    }
}
