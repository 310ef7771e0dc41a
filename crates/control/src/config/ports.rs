//! What interfaces are made of, by driver.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use drivers::pcap::{self, Speed};
use drivers::{af_packet, af_xdp, memif, tap};
use model::schema::{Bad, Form, Parsed, Schema, number, optional, pairs, parsed, text, truth};
use model::yaml::{Node, Reader, Text, quoted};
use wire::Mac;

use super::body::{MTUS, address, mac};
use crate::intent::{HIDDEN, MOST_QUEUES};

const FORCE: &str = "Takes the Linux interface even if it carries the default route.";

/// `af-packet` of `host-NAME`.
pub(super) fn af_packet() -> &'static Schema<af_packet::Config> {
    static SCHEMA: LazyLock<Schema<af_packet::Config>> = LazyLock::new(|| {
        Schema::new(af_packet::Config::new(""))
            .field(
                "mode",
                pairs(&[(af_packet::Mode::V2, "v2"), (af_packet::Mode::V3, "v3")]),
                |c| c.mode,
                |c, mode| c.mode = mode,
                "The version of the kernel's receive ring: `v3` for throughput.",
            )
            .field(
                "shared",
                truth(),
                |c| c.shared,
                |c, on| c.shared = on,
                "The kernel goes on using the interface, too.",
            )
            .field("force", truth(), |c| c.force, |c, on| c.force = on, FORCE)
    });
    &SCHEMA
}

/// `af-xdp` of `xdp-NAME`.
pub(super) fn af_xdp() -> &'static Schema<af_xdp::Config> {
    static SCHEMA: LazyLock<Schema<af_xdp::Config>> = LazyLock::new(|| {
        let ring = || number(64..=32_768).unit("packets, a power of two");
        Schema::new(af_xdp::Config::new(""))
            .field(
                "queues",
                optional(number(1..=MOST_QUEUES)),
                |c| c.queues,
                |c, n| c.queues = n,
                "Queues each way; all that the interface has, if nothing is said.",
            )
            .field("rx-ring-size", ring(), |c| c.rx_ring, |c, n| c.rx_ring = n, "The size of a receive ring.")
            .field("tx-ring-size", ring(), |c| c.tx_ring, |c, n| c.tx_ring = n, "The size of a transmit ring.")
            .field(
                "mode",
                optional(pairs(&[(af_xdp::Attach::Native, "native"), (af_xdp::Attach::Generic, "generic")])),
                |c| c.attach,
                |c, attach| c.attach = attach,
                "Where the program runs: in the driver, or in the kernel for drivers that cannot. The better one, if nothing is said.",
            )
            .field(
                "zero-copy",
                optional(truth()),
                |c| match c.copying {
                    af_xdp::Copying::IfNeeded => None,
                    copying => Some(copying == af_xdp::Copying::Never),
                },
                |c, never| {
                    c.copying = match never {
                        Some(true) => af_xdp::Copying::Never,
                        Some(false) => af_xdp::Copying::Always,
                        None => af_xdp::Copying::IfNeeded,
                    }
                },
                "`true`: only if the driver can do without copies; `false`: always copy. Without copies it has not been seen at work \
                 yet, for want of such a driver.",
            )
            .field("force", truth(), |c| c.force, |c, on| c.force = on, FORCE)
            .check(|c| {
                for (field, size) in [("rx-ring-size", c.rx_ring), ("tx-ring-size", c.tx_ring)] {
                    if !size.is_power_of_two() {
                        return Err(Bad::new(field, format!("{size} is no power of two")));
                    }
                }
                Ok(())
            })
    });
    &SCHEMA
}

/// A secret, which is hidden from those who may only read.
struct Secret;

impl Form for Secret {
    type Value = memif::Secret;

    fn read(&self, r: &mut Reader, node: &Node) -> Option<memif::Secret> {
        let text = r.text(node)?;
        memif::Secret::new(text).map_err(|why| r.fault(node.at, why)).ok()
    }

    fn line(&self, _: &memif::Secret) -> String {
        HIDDEN.into()
    }

    fn write(&self, t: &mut Text<'_>, name: &str, secret: &memif::Secret) {
        t.field(name, Some(quoted(if t.hides() { HIDDEN } else { secret.reveal() })));
    }

    fn values(&self) -> String {
        "up to 24 bytes".into()
    }

    fn examples(&self) -> Vec<memif::Secret> {
        memif::Secret::new("mum").into_iter().collect()
    }
}

/// `memif` of `memifSOCKET/ID`.
pub(super) fn memif() -> &'static Schema<memif::Config> {
    static SCHEMA: LazyLock<Schema<memif::Config>> = LazyLock::new(|| {
        let queues = || number(1..=u16::MAX);
        Schema::new(memif::Config::new(0, 0, memif::Role::Client))
            .field(
                "role",
                pairs(&[(memif::Role::Server, "master"), (memif::Role::Client, "slave")]),
                |c| c.role,
                |c, role| c.role = role,
                "A `master` listens, a `slave` connects.",
            )
            .needed("its \"role\" is needed, master or slave")
            .field("rx-queues", queues(), |c| c.rx_queues as u16, |c, n| c.rx_queues = n.into(), "Receive queues.")
            .field("tx-queues", queues(), |c| c.tx_queues as u16, |c, n| c.tx_queues = n.into(), "Transmit queues.")
            .field(
                "ring-size",
                queues().unit("packets, a power of two"),
                |c| c.ring_size,
                |c, n| c.ring_size = n,
                "The size of a ring. A master takes what its slave has.",
            )
            .field(
                "buffer-size",
                number(1..=u32::MAX).unit("bytes"),
                |c| c.buffer_size,
                |c, n| c.buffer_size = n,
                "The size of a buffer; larger packets take several. A master takes what its slave has.",
            )
            .field(
                "trusted",
                truth(),
                |c| c.trusted,
                |c, on| c.trusted = on,
                "The peer of a `master` may bring memory that it can take away again, which ends the router at its next access. A `slave` \
                 shares all buffers of the router with its master, and copies nothing.",
            )
            .field(
                "secret",
                optional(Secret),
                |c| c.secret.clone(),
                |c, secret| c.secret = secret,
                "What a peer has to say; VPP as a client sends 23 bytes of it. It stands in this file, in `show config` and in what an \
                 apply says of changes, for those who may change the configuration; others see `<hidden>`.",
            )
    });
    &SCHEMA
}

/// The files of a device, as a file says them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Files {
    rx: Option<PathBuf>,
    rate: Option<u32>,
    full: bool,
    /// `Some(None)`: for ever.
    rounds: Option<Option<u32>>,
    tx: Option<PathBuf>,
    max: Option<u64>,
}

fn path() -> Parsed<PathBuf> {
    parsed(
        "a whole path",
        &["/tmp/a.pcap"],
        |text| {
            let path = PathBuf::from(text);
            if path.is_absolute() {
                Ok(path)
            } else {
                Err(format!("{text}: a file is named by its whole path, from / on"))
            }
        },
        |path: &PathBuf| file(path),
    )
}

fn file(path: &Path) -> String {
    quoted(&path.display().to_string())
}

fn rounds() -> Parsed<Option<u32>> {
    parsed(
        "1 to 4294967295, or `forever`",
        &["forever", "2"],
        |text| match text {
            "forever" => Ok(None),
            text => {
                text.parse().ok().filter(|n| *n > 0).map(Some).ok_or_else(|| {
                    format!("\"{text}\" is not a number from 1 to {}, nor \"forever\"", u32::MAX)
                })
            }
        },
        |rounds| rounds.map_or("forever".into(), |n| n.to_string()),
    )
}

/// `pcap` of `pcapN`.
pub(super) fn files() -> &'static Schema<Files> {
    static SCHEMA: LazyLock<Schema<Files>> = LazyLock::new(|| {
        Schema::new(Files::default())
            .field(
                "rx",
                optional(path()),
                |f| f.rx.clone(),
                |f, path| f.rx = path,
                "A file, pcap or pcapng, of at most 64 MiB, that is received whenever the device is set up.",
            )
            .field(
                "rate",
                optional(number(1..=u32::MAX).unit("packets a second")),
                |f| f.rate,
                |f, rate| f.rate = rate,
                "The rate of `rx`; with the times of the file, if nothing is said.",
            )
            .field("full-speed", truth(), |f| f.full, |f, on| f.full = on, "`rx` as fast as possible.")
            .field(
                "loop",
                optional(rounds()),
                |f| f.rounds,
                |f, n| f.rounds = n,
                "How many times `rx` is received: once, if nothing is said.",
            )
            .field(
                "tx",
                optional(path()),
                |f| f.tx.clone(),
                |f, path| f.tx = path,
                "A file that is made anew, with what is sent.",
            )
            .field(
                "max",
                optional(number(0..=u64::MAX).unit("packets")),
                |f| f.max,
                |f, n| f.max = n,
                "How many packets `tx` holds: 100,000, if nothing is said.",
            )
            .check(Files::check)
    });
    &SCHEMA
}

impl Files {
    fn check(&self) -> Result<(), Bad> {
        let replayed = self.rate.is_some() || self.full || self.rounds.is_some();
        match self {
            Files { rx: None, .. } if replayed => {
                Err(Bad::new("", "rate, full-speed and loop are of a file that is replayed: \"rx\""))
            }
            Files { rate: Some(_), full: true, .. } => {
                Err(Bad::new("", "a file is replayed at a rate or at full speed, not both"))
            }
            Files { tx: None, max: Some(_), .. } => {
                Err(Bad::new("", "max is of a file that is recorded: \"tx\""))
            }
            Files { rx: None, tx: None, .. } => {
                Err(Bad::new("", "it has no file: \"rx\" to replay one, \"tx\" to record one, or both"))
            }
            _ => Ok(()),
        }
    }

    /// What the device of this number is asked for.
    pub(super) fn config(self, number: u16) -> pcap::Config {
        let speed = match (self.rate, self.full) {
            (Some(pps), _) => Speed::Rate(pps),
            (None, true) => Speed::Full,
            (None, false) => Speed::Own,
        };
        let rounds = self.rounds.unwrap_or(Some(1));
        let replay = self.rx.map(|file| pcap::Replay { file, speed, rounds });
        let record = self.tx.map(|file| pcap::Record { file, most: self.max.unwrap_or(pcap::PACKETS) });
        pcap::Config { replay, record, ..pcap::Config::new(number) }
    }

    /// The same of a device.
    pub(super) fn of(config: &pcap::Config) -> Files {
        let (replay, record) = (config.replay.as_ref(), config.record.as_ref());
        let rounds = replay.map(|r| r.rounds).filter(|n| *n != Some(1));
        Files {
            rx: replay.map(|r| r.file.clone()),
            rate: replay.and_then(|r| if let Speed::Rate(pps) = r.speed { Some(pps) } else { None }),
            full: replay.is_some_and(|r| r.speed == Speed::Full),
            rounds,
            tx: record.map(|r| r.file.clone()),
            max: record.map(|r| r.most),
        }
    }
}

/// A tap: both of its ends.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tap {
    pub config: tap::Config,
    pub mtu: Option<u16>,
}

impl Tap {
    /// A tap of which nothing is said but the name.
    pub(super) fn new(name: &str) -> Tap {
        Tap { config: tap::Config::new(name), mtu: None }
    }
}

/// `host` of `tapN`.
pub(super) fn tap_host() -> &'static Schema<Tap> {
    static SCHEMA: LazyLock<Schema<Tap>> = LazyLock::new(|| {
        Schema::new(Tap::new(""))
            .field(
                "name",
                text("a name of at most 15 bytes", &["vpp0"]),
                |t| t.config.host_name.clone(),
                |t, name| t.config.host_name = name,
                "The Linux interface.",
            )
            .needed("the host's end needs a \"name\"")
            .field(
                "mac",
                optional(mac()),
                |t| t.config.host_mac.map(Mac),
                |t, mac| t.config.host_mac = mac.map(|mac| mac.0),
                "Its Ethernet address.",
            )
            .field(
                "namespace",
                optional(text("a name, or a path", &["blue"])),
                |t| t.config.host_namespace.as_ref().map(|path| path.display().to_string()),
                |t, name| t.config.host_namespace = name.map(PathBuf::from),
                "Its network namespace.",
            )
            .field(
                "address",
                optional(parsed(
                    "an IPv4 address with its length",
                    &["10.0.0.1/24"],
                    |text| {
                        let address = address(text)?;
                        let of = address.of().map(|a| (a.address, a.len));
                        of.ok_or_else(|| {
                            format!("{address} is no IPv4 address, which the host's end can be given")
                        })
                    },
                    |(ip, len): &(std::net::Ipv4Addr, u8)| format!("{ip}/{len}"),
                )),
                |t| t.config.host_ip4,
                |t, address| t.config.host_ip4 = address,
                "Its address.",
            )
            .field(
                "mtu",
                optional(number(MTUS).unit("bytes")),
                |t| t.mtu,
                |t, mtu| t.mtu = mtu,
                "The MTU of both ends.",
            )
            .later(&["bridge", "bridge-create", "namespace-create"])
    });
    &SCHEMA
}
