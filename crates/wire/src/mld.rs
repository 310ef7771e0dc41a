//! MLD version 2 (RFC 3810): builds a node's reports of its multicast groups, without lists of sources, and parses routers' queries.
//! Queries of version 1 (RFC 2710) are also parsed.

use std::fmt;
use std::net::Ipv6Addr;

use crate::extension::{Chain, Extensions, alert, check_options, option};
use crate::icmpv6::{Icmpv6Header, kind};
use crate::ipv4::protocol;
use crate::ipv6::{self, Ipv6Header};

/// A hop-by-hop options header with a router alert for MLD. Every MLD message has this header (RFC 3810 section 5).
const ALERT: [u8; 8] = [protocol::ICMPV6, 0, option::ROUTER_ALERT, 2, 0, alert::MLD as u8, option::PADN, 0];
/// Length of a multicast address record without sources, in bytes.
const RECORD_LEN: usize = 20;
/// Maximum number of multicast address records in one report: as many as fit into the minimum MTU.
pub const MAX_RECORDS: usize =
    (ipv6::MIN_MTU as usize - Ipv6Header::LEN - ALERT.len() - Icmpv6Header::LEN) / RECORD_LEN;

/// The state of a group in a report (RFC 3810 section 5.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The node is a member of the group and accepts all sources. This record answers a query.
    IsJoined,
    /// The node joins the group.
    Join,
    /// The node leaves the group.
    Leave,
}

/// Returns the report packets for these groups, from `src` to all MLDv2 routers.
pub fn reports(src: Ipv6Addr, records: &[(Record, Ipv6Addr)]) -> impl Iterator<Item = Vec<u8>> {
    records.chunks(MAX_RECORDS).map(move |records| {
        let mut body = Vec::with_capacity(records.len() * RECORD_LEN);
        for (record, group) in records {
            let code = match record {
                Record::IsJoined => 2, // MODE_IS_EXCLUDE, no source excluded
                Record::Leave => 3,    // CHANGE_TO_INCLUDE_MODE, no source included
                Record::Join => 4,     // CHANGE_TO_EXCLUDE_MODE
            };
            body.extend([code, 0, 0, 0]);
            body.extend(group.octets());
        }
        let dst = ipv6::ALL_MLDV2_ROUTERS.into();
        let payload = ALERT.len() + Icmpv6Header::LEN + body.len();
        let mut ip = Ipv6Header::new(src, dst, protocol::HOP_BY_HOP, payload);
        ip.set_hop_limit(1);
        let icmp = Icmpv6Header::new(&ip, kind::MLDV2_REPORT, 0, records.len() as u32, &body);
        [&ip.0[..], &ALERT, &icmp.0, &body].concat()
    })
}

/// A router's query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// The protocol version, 1 or 2.
    pub version: u8,
    /// The queried group; `None`: all groups.
    pub group: Option<Ipv6Addr>,
    /// Maximum time until the answer, in milliseconds.
    pub max_response: u32,
}

/// The reason why a packet is not a valid query (RFC 3810 sections 6.2 and 8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MldError {
    /// The packet is not a query, or it is a fragment.
    Kind,
    /// The packet is too short, its extension headers are invalid, or its length fits neither version.
    Short,
    /// The source is not link-local.
    Source,
    /// The hop limit is not 1.
    HopLimit,
    /// There is no router alert for MLD in a hop-by-hop options header.
    RouterAlert,
    /// The checksum is wrong.
    Checksum,
    /// The queried address is not a multicast group.
    Group,
}

impl fmt::Display for MldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MldError::Kind => "not a multicast listener query",
            MldError::Short => "query is too short",
            MldError::Source => "source is not link-local",
            MldError::HopLimit => "hop limit is not 1",
            MldError::RouterAlert => "router alert is missing",
            MldError::Checksum => "checksum is wrong",
            MldError::Group => "the queried address is not a multicast group",
        })
    }
}

impl std::error::Error for MldError {}

/// Parses the query in `packet`, which begins with its IPv6 header.
///
/// # Errors
/// The reason why the packet must be silently ignored, see [`MldError`].
pub fn parse_query(packet: &[u8]) -> Result<Query, MldError> {
    let (ip, _) = Ipv6Header::split(packet).ok_or(MldError::Short)?;
    let chain = Chain::of(packet).map_err(|_| MldError::Short)?;
    if chain.protocol != protocol::ICMPV6 || chain.is_fragment() {
        return Err(MldError::Kind);
    }
    let message = packet.get(chain.offset..ip.total_len()).ok_or(MldError::Short)?;
    let (icmp, body) = Icmpv6Header::split(message).ok_or(MldError::Short)?;
    if icmp.kind() != kind::MLD_QUERY {
        return Err(MldError::Kind);
    }
    if !ipv6::is_link_local(ip.src_u128()) {
        return Err(MldError::Source);
    }
    if ip.hop_limit() != 1 {
        return Err(MldError::HopLimit);
    }
    let first = Extensions::of(packet).next().and_then(Result::ok);
    let options = first.filter(|h| h.kind == protocol::HOP_BY_HOP).map(|h| check_options(h.bytes, |_| true));
    if options != Some(Ok(Some(alert::MLD))) {
        return Err(MldError::RouterAlert);
    }
    if !icmp.checksum_ok(ip, body) {
        return Err(MldError::Checksum);
    }
    // A query of the first version ends with its group; one of the second version has at least four more
    // bytes.
    let version = match body.len() {
        16 => 1,
        20.. => 2,
        _ => return Err(MldError::Short),
    };
    let group = body.first_chunk::<16>().map_or(Ipv6Addr::UNSPECIFIED, |b| Ipv6Addr::from(*b));
    if !group.is_unspecified() && !group.is_multicast() {
        return Err(MldError::Group);
    }
    let code = icmp.rest() >> 16;
    // From 0x8000 on, a floating-point number (RFC 3810 section 5.1.3): 3 bits of exponent, 12 bits of
    // mantissa.
    let long = (code & 0xfff | 0x1000) << ((code >> 12 & 7) + 3);
    let max_response = if version == 2 && code >= 0x8000 { long } else { code };
    Ok(Query { version, group: (!group.is_unspecified()).then_some(group), max_response })
}
