//! Keeps received packets of a port away from the kernel's stack, so that the stack does not answer them.
//!
//! An nftables chain at the port's ingress drops everything; packet sockets get their copy earlier. The chain's table is owned by the
//! netlink socket that created it. The kernel removes the table when the socket is closed, even if the process is killed. A claim needs
//! only `CAP_NET_ADMIN` in the namespace, so it also works in a user namespace. `nft list ruleset` shows the table.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use libc::{c_int, nlmsghdr};

use super::sys;

/// Name of a table. This attribute and the following ones are those of `linux/netfilter/nf_tables.h`.
const NFTA_TABLE_NAME: u16 = 1;
const NFTA_TABLE_FLAGS: u16 = 2;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_CHAIN_TYPE: u16 = 7;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFTA_HOOK_PRIORITY: u16 = 2;
const NFTA_HOOK_DEV: u16 = 3;
/// The kernel removes the table when the socket that created it is closed, and no other socket can change the table.
const NFT_TABLE_F_OWNER: u32 = 2;
const NF_DROP: u32 = 0;
/// Sequence number of the message that creates the table.
const TABLE: u32 = 2;
/// Priority of the hook: it runs before any hook that an operator is likely to add.
const PRIORITY: i32 = -500;

/// An interface claimed for the router: while this exists, the kernel's stack receives nothing from the interface.
pub(crate) struct Claim {
    _owner: OwnedFd,
}

impl Claim {
    /// Claims the interface of this name in the calling thread's namespace.
    ///
    /// # Errors
    /// `AlreadyExists` if the interface is claimed already; any other error if the kernel cannot claim it.
    pub(crate) fn new(interface: &str) -> io::Result<Claim> {
        let owner = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER)?;
        let table = format!("volley-{interface}");
        let nft = |message: c_int| ((libc::NFNL_SUBSYS_NFTABLES << 8) | message) as u16;
        let (make, new) = (libc::NLM_F_CREATE | libc::NLM_F_ACK, libc::NLM_F_EXCL);

        let mut m = Messages::default();
        m.begin(libc::NFNL_MSG_BATCH_BEGIN as u16, 0, libc::AF_UNSPEC, libc::NFNL_SUBSYS_NFTABLES);
        m.end();
        m.begin(nft(libc::NFT_MSG_NEWTABLE), make | new, libc::NFPROTO_NETDEV, 0);
        m.text(NFTA_TABLE_NAME, &table);
        m.number(NFTA_TABLE_FLAGS, NFT_TABLE_F_OWNER);
        m.end();
        m.begin(nft(libc::NFT_MSG_NEWCHAIN), make, libc::NFPROTO_NETDEV, 0);
        m.text(NFTA_CHAIN_TABLE, &table);
        m.text(NFTA_CHAIN_NAME, "ingress");
        m.text(NFTA_CHAIN_TYPE, "filter");
        m.number(NFTA_CHAIN_POLICY, NF_DROP);
        m.nested(NFTA_CHAIN_HOOK, |m| {
            m.number(NFTA_HOOK_HOOKNUM, libc::NF_NETDEV_INGRESS as u32);
            m.number(NFTA_HOOK_PRIORITY, PRIORITY as u32);
            m.text(NFTA_HOOK_DEV, interface);
        });
        m.end();
        m.begin(libc::NFNL_MSG_BATCH_END as u16, 0, libc::AF_UNSPEC, libc::NFNL_SUBSYS_NFTABLES);
        m.end();

        sys::timeout(owner.as_fd(), Duration::from_secs(2))?;
        sys::send(owner.as_fd(), &m.bytes)?;
        acknowledged(&owner, 2)?;
        Ok(Claim { _owner: owner })
    }
}

/// Waits for `left` acknowledgements; the first error ends the wait.
fn acknowledged(socket: &OwnedFd, mut left: usize) -> io::Result<()> {
    let mut buffer = [0u8; 8192];
    while left > 0 {
        let n = sys::recv(socket.as_fd(), &mut buffer)?;
        let mut rest = buffer.get(..n).unwrap_or_default();
        // A `nlmsghdr`, the error code, and the `nlmsghdr` of the message concerned.
        while let Some((head, _)) = rest.split_first_chunk::<{ 2 * size_of::<nlmsghdr>() + 4 }>() {
            let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            let kind = c_int::from(u16::from_ne_bytes([head[4], head[5]]));
            if kind == libc::NLMSG_ERROR {
                match (word(16) as i32, word(28)) {
                    (0, _) => left = left.saturating_sub(1),
                    // The table belongs to another socket. Missing privileges are reported for the first message,
                    // before this one.
                    (code, TABLE) if -code == libc::EPERM => return Err(io::ErrorKind::AlreadyExists.into()),
                    (code, _) => return Err(io::Error::from_raw_os_error(-code)),
                }
            }
            rest = rest.get((word(0) as usize).max(1).next_multiple_of(4)..).unwrap_or_default();
        }
    }
    Ok(())
}

/// A batch of netlink messages under construction.
#[derive(Default)]
struct Messages {
    bytes: Vec<u8>,
    start: usize,
    sequence: u32,
}

impl Messages {
    /// Begins a message: the netlink header and the netfilter header.
    fn begin(&mut self, kind: u16, flags: c_int, family: c_int, resource: c_int) {
        self.start = self.bytes.len();
        self.sequence += 1;
        self.bytes.extend([0; 4]);
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        self.bytes.extend(self.sequence.to_ne_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend([family as u8, 0]);
        self.bytes.extend((resource as u16).to_be_bytes());
    }

    /// Ends the message by writing its length.
    fn end(&mut self) {
        let len = self.bytes.len() - self.start;
        self.bytes[self.start..self.start + 4].copy_from_slice(&(len as u32).to_ne_bytes());
    }

    fn attribute(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend(kind.to_ne_bytes());
        fill(self);
        let len = self.bytes.len() - start;
        self.bytes[start..start + 2].copy_from_slice(&(len as u16).to_ne_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn text(&mut self, kind: u16, text: &str) {
        self.attribute(kind, |m| {
            m.bytes.extend(text.as_bytes());
            m.bytes.push(0);
        });
    }

    fn number(&mut self, kind: u16, number: u32) {
        self.attribute(kind, |m| m.bytes.extend(number.to_be_bytes()));
    }

    fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        self.attribute(kind | libc::NLA_F_NESTED as u16, fill);
    }
}
