//! `filter "EXPRESSION"` in commands: selects packets by an expression of tcpdump, see pcap-filter(7).
//!
//! libpcap compiles the expressions. It may ask name servers for the addresses of hosts and wait for the answers, so it runs on its own
//! thread. The command continues when the thread has returned a program or an error. Compiling a long expression takes seconds of CPU time
//! and tens of megabytes, and continues even after the command has timed out. Therefore at most [`AT_ONCE`] expressions are compiled at
//! once.

use std::sync::mpsc::{self, TryRecvError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use buf::bpf::Program;
use infra::mem::Room;

use super::later::later;
use crate::app::{Context, Output};
use crate::cli::{Args, CliError};

/// Maximum length of an expression in bytes. libpcap's recursion can be as deep as the expression is long.
const LONGEST: usize = 4096;
/// Maximum length in bytes of the expression of a client that is not an admin.
const LONGEST_OF_READER: usize = 1024;
/// Time limit of a compilation.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of expressions compiled at once.
const AT_ONCE: usize = 4;
/// Length in bytes above which an expression is compiled only if enough memory is free.
const LONG: usize = 256;
/// Returns how many bytes of memory to reserve for compiling an expression of `len` bytes. Measured: 1,022 bytes took 4 MiB, 2,048
/// took 16 MiB, and 4,073 took 60 MiB.
fn memory(len: usize) -> u64 {
    5 * (len as u64).pow(2)
}

/// The expressions being compiled: their number, and the bytes of memory reserved for them.
static COMPILING: Mutex<(usize, u64)> = Mutex::new((0, 0));

/// Permission to compile one expression. At most [`AT_ONCE`] exist at a time. The value is the memory reserved for the expression,
/// in bytes.
struct Place(u64);

impl Place {
    fn take(expression: &str, read_only: bool) -> Result<Place, String> {
        let longest = if read_only { LONGEST_OF_READER } else { LONGEST };
        if expression.len() > longest {
            return Err(format!("the filter has {} bytes, the maximum is {longest}", expression.len()));
        }
        let mut compiling = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
        let (others, taken) = *compiling;
        if others == AT_ONCE {
            return Err(format!("{AT_ONCE} other filters are being compiled: try again in a few seconds"));
        }
        let bytes = memory(expression.len());
        if expression.len() > LONG {
            let (room, all) = (Room::now(), taken + bytes);
            let fits = if read_only { room.must_have_for_stranger(all) } else { room.must_have(all) };
            fits.map_err(|e| e.to_string())?;
        }
        *compiling = (others + 1, taken + bytes);
        Ok(Place(bytes))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut compiling = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
        *compiling = (compiling.0 - 1, compiling.1 - self.0);
    }
}

/// See [`App::with_filter`](net::feature::App::with_filter).
pub fn with_filter(
    c: &mut Context,
    a: &Args,
    then: impl FnOnce(&mut Context, &Args, Option<Program>) -> Result<Output, CliError> + 'static,
) -> Result<Output, CliError> {
    let Some(expression) = a.get::<String>("filter") else { return then(c, a, None) };
    let place = Place::take(&expression, !a.call().role.is_admin()).map_err(|why| a.fault("filter", why))?;
    let (done, compiled) = mpsc::channel();
    let work = move || {
        let _place = place;
        // Fails if the command has given up.
        let _ = done.send(compile(&expression));
    };
    thread::Builder::new().name("volley_filter".into()).spawn(work).map_err(|e| {
        a.fault("filter", format!("the filter cannot be compiled: no thread can be started: {e}"))
    })?;
    let begun = Instant::now();
    let look = move |a: &Args| {
        let refused = |why: String| Some(Err(a.fault("filter", why)));
        match compiled.try_recv() {
            Ok(Ok(filter)) => Some(Ok(filter)),
            Ok(Err(why)) => refused(format!("not a valid tcpdump filter: {why}")),
            Err(TryRecvError::Empty) if begun.elapsed() < PATIENCE => None,
            Err(TryRecvError::Empty) => refused(format!(
                "the filter was not compiled within {} s: a name server may not answer; use addresses instead of names",
                PATIENCE.as_secs()
            )),
            Err(TryRecvError::Disconnected) => {
                refused("internal error: the thread that compiles the filter died".into())
            }
        }
    };
    Ok(later(a, look, |c, a, filter| then(c, a, Some(filter))))
}

/// Compiles an expression for packets with an Ethernet header.
///
/// # Errors
/// Returns libpcap's message if the expression is invalid.
fn compile(expression: &str) -> Result<Program, String> {
    let said = |e: pcap::Error| match e {
        pcap::Error::PcapError(text) => text,
        other => other.to_string(),
    };
    let link = pcap::Capture::dead(pcap::Linktype::ETHERNET).map_err(said)?;
    let program = link.compile(expression, true).map_err(said)?;
    let instructions: Result<Vec<_>, _> =
        program.get_instructions().iter().map(|i| i.to_string().parse()).collect();
    instructions.and_then(|all| Program::new(&all)).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Expressions of many kinds.
    const EXPRESSIONS: [&str; 25] = [
        "",
        "ip",
        "arp",
        "icmp",
        "tcp port 80",
        "udp portrange 50-60",
        "port 53 or port 443",
        "host 10.0.0.1",
        "src net 10.0.0.0/8 and not dst host 10.0.0.2",
        "ether host 02:00:00:00:00:01",
        "ether multicast",
        "ip broadcast",
        "vlan 100 and ip",
        "vlan and vlan and udp",
        "ip6 and tcp dst port 22",
        "ip proto 17 and ip[6:2] & 0x1fff = 0",
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
        "icmp[icmptype] == icmp-echo",
        "udp[8:4] % 7 = 3 or udp[4:2] / 3 > 10",
        "ip[2:2] - ((ip[0] & 0xf) << 2) >= 40",
        "len > 60 and ip[8] < 5",
        "greater 100 or less 50",
        "ip[ip[9]] = 3",
        "mpls 3",
        "ip6 proto 6 or pppoes and ip",
    ];

    fn packet() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![0u8..4, Just(6u8), Just(17u8), Just(53u8), Just(80u8), any::<u8>()];
        let kind = prop::sample::select(vec![0x0800u16, 0x0806, 0x8100, 0x86dd, 0x8847, 0x8864, 0x1234]);
        let protocol = prop::sample::select(vec![1u8, 6, 17, 58, 200]);
        (prop::collection::vec(byte, 0..140), kind, protocol, prop::sample::select(vec![0x45u8, 0x47, 0x60]))
            .prop_map(|(mut bytes, kind, protocol, first)| {
                for (at, value) in [(12, (kind >> 8) as u8), (13, kind as u8), (14, first), (23, protocol)] {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = value;
                    }
                }
                bytes
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Each filter matches the same packets as libpcap's own interpreter.
        #[test]
        fn filters_match_the_same_packets_as_libpcap(
            packet in packet(),
            expression in prop::sample::select(EXPRESSIONS.to_vec()),
            at in 0usize..140,
        ) {
            let oracle = pcap::Capture::dead(pcap::Linktype::ETHERNET).unwrap();
            let wanted = oracle.compile(expression, true).unwrap().filter(&packet);
            let filter = compile(expression).unwrap();
            let (first, rest) = packet.split_at(at.min(packet.len()));
            let beyond = |i: usize| rest.get(i.checked_sub(first.len())?).copied();
            prop_assert_eq!(filter.matches(first, packet.len() as u32, beyond), wanted, "{}", expression);
        }
    }

    #[test]
    fn at_most_four_filters_are_compiled_at_once() {
        let mut places: Vec<Place> = std::iter::from_fn(|| Place::take("ip", true).ok()).collect();
        // Other tests may have some of the places.
        assert!(!places.is_empty() && places.len() <= AT_ONCE);
        let refused = |expression: &str, read_only, part: &str| {
            Place::take(expression, read_only).err().is_some_and(|why| why.contains(part))
        };
        assert!(refused("ip", false, "4 other filters are being compiled"));
        places.pop();
        drop(Place::take(&"ip or ".repeat(100), true).unwrap());
        assert!(Place::take("ip", false).is_ok());
        assert!(refused(&"ip or ".repeat(171), true, "the maximum is 1024"));
        assert!(refused(&"ip or ".repeat(683), false, "the maximum is 4096"));
    }

    #[test]
    fn long_expressions_count_with_their_memory() {
        assert_eq!([256, 1024, 4096].map(|len| memory(len) >> 10), [320, 5 << 10, 80 << 10]);
    }

    #[test]
    fn invalid_filters_are_refused_with_the_message_of_libpcap() {
        for (expression, why) in [
            ("tcp prot 80", "syntax error"),
            ("host 10.0.0.256", "invalid IPv4 address"),
            ("port http and icmp[", "syntax error"),
            ("inbound", "packet metadata"),
            ("a\0b", "internal null"),
            // A program with a possible loop, which the kernel refuses too.
            ("ip6 protochain 6", "jumps out of the program"),
        ] {
            let error = compile(expression).unwrap_err();
            assert!(error.contains(why), "{expression}: {error}");
        }
        // At the maximum depth, and at the maximum number of instructions, compiling must not crash.
        assert!(compile(&"not ".repeat(1000)).is_err());
        for deep in [
            "(".repeat(2000) + "ip" + &")".repeat(2000),
            "!".repeat(4090) + "ip",
            vec!["ip[0]=1"; 400].join(" or "),
        ] {
            let _ = compile(&deep);
        }
    }
}
