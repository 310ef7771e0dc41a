//! Describing IPv4 packets.

use std::fmt;

use super::{dscp, protocol_name, transport_detail, transport_line, truncated};
use crate::ipv4::Ipv4Header;

pub(super) fn line(f: &mut fmt::Formatter<'_>, l3: &[u8]) -> fmt::Result {
    let Some((ip, _)) = Ipv4Header::split(l3) else { return truncated(f, "IPv4 header", l3) };
    write!(f, "{} -> {} {}", ip.src(), ip.dst(), protocol_name(ip.protocol()))?;
    let l4 = l3.get(ip.header_len().max(Ipv4Header::LEN)..).unwrap_or(&[]);
    if ip.fragment_offset() == 0 {
        transport_line(f, ip.protocol(), l4)?;
    }
    write!(f, " len {} ttl {}", ip.total_len(), ip.ttl())?;
    if ip.is_fragment() {
        let more = if ip.more_fragments() { "+" } else { "" };
        write!(f, " fragment id 0x{:04x} offset {}{more}", ip.id(), ip.fragment_offset())?;
    }
    Ok(())
}

pub(super) fn detail(f: &mut fmt::Formatter<'_>, l3: &[u8], indent: &str) -> fmt::Result {
    let Some((ip, _)) = Ipv4Header::split(l3) else { return truncated(f, "IPv4 header", l3) };
    write!(f, "{}: {} -> {}", protocol_name(ip.protocol()), ip.src(), ip.dst())?;
    if ip.version_ihl() != 0x45 {
        write!(f, "\n{indent}  version {}, header length {}", ip.version(), ip.header_len())?;
    }
    write!(
        f,
        "\n{indent}  tos 0x{:02x}, ttl {}, length {}, checksum 0x{:04x} dscp ",
        ip.tos(),
        ip.ttl(),
        ip.total_len(),
        ip.checksum()
    )?;
    dscp(f, ip.dscp())?;
    write!(f, " ecn {}", ["NON_ECT", "ECT_1", "ECT_0", "CE"][usize::from(ip.ecn() & 3)])?;
    write!(f, "\n{indent}  fragment id 0x{:04x}", ip.id())?;
    if ip.fragment_offset() != 0 {
        write!(f, " offset {}", ip.fragment_offset())?;
    }
    if ip.dont_fragment() || ip.more_fragments() {
        f.write_str(", flags")?;
        f.write_str(if ip.dont_fragment() { " DONT_FRAGMENT" } else { "" })?;
        f.write_str(if ip.more_fragments() { " MORE_FRAGMENTS" } else { "" })?;
    }
    if ip.fragment_offset() != 0 || ip.ihl() < 5 {
        return Ok(());
    }
    let Some(l4) = l3.get(ip.header_len()..) else {
        write!(f, "\n{indent}")?;
        return truncated(f, "IPv4 options", l3);
    };
    transport_detail(f, ip.protocol(), l4, indent)
}
