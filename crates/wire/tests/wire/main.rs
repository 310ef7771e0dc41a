//! Property tests of the wire formats, compared with plain oracles and with etherparse.

mod builder;
mod checksum;
mod describe;
mod extension;
mod flow;
mod gso;
mod headers;
mod icmpv4;
mod icmpv6;
mod ipv6;
mod mac;
mod mld;
mod nd;

/// The internet checksum by RFC 1071 section 1: word by word, an odd last byte padded with zero.
fn plain_checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        if sum > 0xffff {
            sum -= 0xffff;
        }
    }
    !(sum as u16)
}

/// The transport checksum of the IPv4 packet in `l3`, by the plain oracle over a pseudo header in bytes: 0 if intact.
fn plain_transport_checksum(l3: &[u8]) -> u16 {
    let header_len = usize::from(l3[0] & 0x0f) * 4;
    let mut pseudo = l3[12..20].to_vec();
    pseudo.extend([0, l3[9]]);
    pseudo.extend(((l3.len() - header_len) as u16).to_be_bytes());
    pseudo.extend(&l3[header_len..]);
    plain_checksum(&pseudo)
}

/// Bytes from pairs of hexadecimal digits, with spaces between.
fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
