//! The sections of VPP that Volley does not use, with the words that VPP 26.06 accepts in each. These sections have no effect, but words
//! that VPP would refuse are errors.

use super::{
    tree::{Block, Item},
    value::Cursor,
};
use model::place::{Fault, closest, hint};

/// A section, and the parameters that VPP accepts in it. In a parameter, `<>` stands for a value, and `{}` for a block. `None`
/// accepts any parameters.
type Section = (&'static str, Option<&'static [&'static str]>);

/// The sections, by name.
const SECTIONS: &[Section] = &[
    (
        "acl-plugin",
        Some(&[
            "connection hash buckets <>",
            "connection hash memory <>",
            "connection count max <>",
            "main heap size <>",
            "hash lookup heap size <>",
            "hash lookup hash buckets <>",
            "hash lookup hash memory <>",
            "use tuple merge <>",
            "tuple merge split threshold <>",
            "reclassify sessions <>",
        ]),
    ),
    ("api-fuzz", Some(&["off", "disable", "no", "on", "enable", "yes"])),
    ("api-queue", Some(&["length <>", "len <>"])),
    (
        "api-segment",
        Some(&[
            "prefix <>",
            "uid <>",
            "gid <>",
            "baseva <>",
            "global-size <>",
            "global-pvt-heap-size size <>",
            "global-pvt-heap-size <>",
            "api-pvt-heap-size size <>",
            "api-pvt-heap-size <>",
            "api-size <>",
        ]),
    ),
    ("cj", None),
    (
        "cnat",
        Some(&[
            "translation-db-buckets <>",
            "translation-db-memory <>",
            "client-db-buckets <>",
            "client-db-memory <>",
            "snat-db-buckets <>",
            "snat-if-map-len <>",
            "snat-db-memory <>",
            "session-cleanup-timeout <>",
            "scanner off",
            "scanner on",
            "session-max-age <>",
            "tcp-max-age <>",
            "session-max-port-retries <>",
            "maglev-len <>",
            "session-log2-pool-size <>",
            "session-max <>",
            "session-max-per-vrf <>",
        ]),
    ),
    ("crypto-engines", Some(&["<> {}"])),
    ("crypto_sw_scheduler", Some(&["crypto-sw-scheduler-queue-size <>"])),
    ("ct6", Some(&["session-hash-buckets <>", "session-hash-memory <>", "session-timeout <>"])),
    ("det44", None),
    ("devices", Some(&["dev <> {}", "dev <>", "driver <> {}"])),
    ("dns", Some(&["max-cache-size <>", "max-ttl <>"])),
    (
        "dpdk",
        Some(&[
            "no-hugetlb",
            "telemetry",
            "enable-tcp-udp-checksum",
            "enable-outer-checksum-offload",
            "no-tx-checksum-offload",
            "decimal-interface-names",
            "no-multi-seg",
            "enable-mbuf-fast-free",
            "enable-lro",
            "max-simd-bitwidth <>",
            "link-state-poll-interval <>",
            "stats-poll-interval <>",
            "dev <> {}",
            "dev <>",
            "uio-driver <>",
            "uio-bind-force",
            "socket-mem <>",
            "no-pci",
            "blacklist <>",
            "no-vmbus",
            "trace-dir <>",
            "trace-bufsz <>",
            "trace <>",
        ]),
    ),
    ("dsa", Some(&["dev <>"])),
    ("dslite", Some(&["ce"])),
    ("ethernet", Some(&["default-mtu <>"])),
    ("fateshare", Some(&["monitor <>", "logfile <>", "command <>"])),
    ("heapsize", None),
    ("http", Some(&["first-segment-size <>", "add-segment-size <>", "fifo-size <>", "http2 {}", "http3 {}"])),
    ("ikev2", None),
    (
        "interface",
        Some(&["default-rx-mode polling", "default-rx-mode interrupt", "default-rx-mode adaptive"]),
    ),
    ("ip", Some(&["default-table-name <>"])),
    ("ip6", Some(&["hash-buckets <>", "heap-size <>", "default-table-name <>"])),
    (
        "ipsec",
        Some(&[
            "ipv6-outbound-spd-fast-path on",
            "ipv6-outbound-spd-fast-path off",
            "ipv4-outbound-spd-fast-path on",
            "ipv4-outbound-spd-fast-path off",
            "ipv6-inbound-spd-fast-path on",
            "ipv6-inbound-spd-fast-path off",
            "ipv4-inbound-spd-fast-path on",
            "ipv4-inbound-spd-fast-path off",
            "spd-fast-path-num-buckets <>",
            "ipv4-outbound-spd-flow-cache on",
            "ipv4-outbound-spd-flow-cache off",
            "ipv4-outbound-spd-hash-buckets <>",
            "ipv4-inbound-spd-flow-cache on",
            "ipv4-inbound-spd-flow-cache off",
            "ipv4-inbound-spd-hash-buckets <>",
            "ip4 {}",
            "ip6 {}",
            "async-handoff-queue-size <>",
        ]),
    ),
    ("l2fib", Some(&["table-size <>", "num-buckets <>"])),
    ("l2learn", Some(&["limit <>"])),
    ("l2tp", Some(&["lookup-v6-src", "lookup-v6-dst", "lookup-session-id"])),
    ("l3fib", Some(&["load-balance-pool-size <>", "fib-entry-pool-size <>", "ip4-mtrie-pool-size <>"])),
    (
        "linux-cp",
        Some(&[
            "default netns <>",
            "lcp-auto-subint",
            "lcp-sync",
            "del-static-on-link-down",
            "del-dynamic-on-link-down",
            "num-rx-queues <>",
            "num-tx-queues <>",
        ]),
    ),
    ("linux-nl", Some(&["nl-rx-buffer-size <>", "nl-batch-size <>", "nl-batch-delay-ms <>"])),
    ("mactime", Some(&["lookup-table-buckets <>", "lookup-table-memory <>", "timezone_offset <>"])),
    ("map", None),
    ("mc", None),
    ("memory", None),
    ("mpls", Some(&["default-table-name <>"])),
    ("nat", None),
    ("nat64", None),
    ("node", None),
    ("npol-plugin", None),
    ("nsim", Some(&["poll-main-thread"])),
    ("oam", None),
    ("perfmon", None),
    ("physmem", Some(&["base-addr <>", "max-size <>"])),
    ("plugin_path", None),
    ("prom", None),
    ("punt", Some(&["socket <>"])),
    ("pvti", Some(&["runs-before <>"])),
    (
        "quic",
        Some(&[
            "fifo-size <>",
            "first-segment-size <>",
            "add-segment-size <>",
            "conn-timeout <>",
            "fifo-prealloc <>",
            "no-tx-pacing",
            "respect-app-limited",
            "enable-vnet-crypto",
        ]),
    ),
    ("selog", Some(&["ssvm-name <>"])),
    (
        "session",
        Some(&[
            "wrk-mq-length <>",
            "wrk-mqs-segment-size <>",
            "preallocated-sessions <>",
            "v4-session-table-buckets <>",
            "v4-halfopen-table-buckets <>",
            "v6-session-table-buckets <>",
            "v6-halfopen-table-buckets <>",
            "v4-session-table-memory <>",
            "v4-halfopen-table-memory <>",
            "v6-session-table-memory <>",
            "v6-halfopen-table-memory <>",
            "local-endpoints-table-memory <>",
            "local-endpoints-table-buckets <>",
            "min-src-port <>",
            "max-src-port <>",
            "enable rt-backend rule-table",
            "enable rt-backend sdl",
            "enable",
            "poll-main",
            "use-private-rx-mqs",
            "no-adaptive",
            "use-dma",
            "nat44-original-dst-enable",
            "no-dump-segments",
            "use-app-socket-api",
            "use-bapi-socket-api",
            "evt_qs_memfd_seg",
            "segment-baseva <>",
            "evt_qs_seg_size <>",
            "event-queue-length <>",
        ]),
    ),
    (
        "sfdp",
        Some(&[
            "sessions-log2 <>",
            "sessions-per-thread-cache-log2 <>",
            "tenants-log2 <>",
            "eviction-sessions-margin <>",
            "timer-interval <>",
            "no-main",
        ]),
    ),
    ("snort", None),
    ("stats", None),
    ("stn", None),
    ("tapcli", None),
    (
        "tcp",
        Some(&[
            "preallocated-connections <>",
            "preallocated-half-open-connections <>",
            "buffer-fail-fraction <>",
            "max-rx-fifo <>",
            "min-rx-fifo <>",
            "mtu <>",
            "rwnd-min-update-ack <>",
            "initial-cwnd-multiplier <>",
            "no-tx-pacing",
            "tso",
            "no-csum-offload",
            "no-dsack",
            "byte-tracker",
            "max-gso-size <>",
            "cc-algo <>",
            "cubic {}",
            "newreno {}",
            "closewait-time <>",
            "timewait-time <>",
            "finwait1-time <>",
            "finwait2-time <>",
            "lastack-time <>",
            "closing-time <>",
            "alloc-err-timeout <>",
            "cleanup-time <>",
            "syn-rcvd-time <>",
        ]),
    ),
    ("test-proxy", Some(&["server {}"])),
    ("test_plugin_path", None),
    (
        "tls",
        Some(&[
            "use-test-cert-in-ca",
            "ca-cert-path <>",
            "first-segment-size <>",
            "add-segment-size <>",
            "fifo-size <>",
            "openssl {}",
        ]),
    ),
    ("trace", Some(&["timestamp-format relative", "timestamp-format unix", "timestamp-format datetime"])),
    (
        "tuntap",
        Some(&[
            "mtu <>",
            "enable",
            "disable",
            "ethernet",
            "ether",
            "have-normal-interface",
            "have-normal",
            "name <>",
        ]),
    ),
    ("udp", Some(&["mtu <>", "icmp-unreachable-disabled", "no-csum-offload"])),
    ("unix-cli", None),
    ("vhost-user", Some(&["coalesce-frames <>", "coalesce-time <>", "dont-dump-memory"])),
    ("virtio", None),
    (
        "vlib",
        Some(&[
            "memory-trace",
            "elog-events <>",
            "elog-post-mortem-dump",
            "buffer-alloc-success-rate <>",
            "buffer-alloc-success-seed <>",
        ]),
    ),
];

/// The parameters that VPP accepts in the section `dpdk`, in the block after `dev` and a device.
const DPDK_DEVICE: &[&str] = &[
    "num-rx-queues <>",
    "num-tx-queues <>",
    "num-rx-desc <>",
    "num-tx-desc <>",
    "name <>",
    "tag <>",
    "workers <>",
    "rss {}",
    "no-rx-interrupts",
    "tso on",
    "tso off",
    "devargs <>",
    "rss-queues <>",
    "max-lro-pkt-size <>",
];

/// VPP's classes of log messages; `linux-cp/itf` belongs to the class `linux-cp`.
const LOG_CLASSES: &str = "acl_plugin adj af_packet af_xdp api armada atlantic auto bfd buffer cli crypto det44 dev dhcp dhcp6 \
    dma dpdk dpo fib fuse handoff iavf idpf ige igmp ikev2 intel_dsa interface ip ip4 ip6 ipsec linux-cp \
    log memif_plugin mfib nat nat44-ei nat64 nl oct octeon pci perfmon plugin policer rd_cp rdma sasc \
    segment-manager session sflow snort tap teib unittest vat-plug vfio vhost-user virtio vlib vmxnet3";

/// Returns the names of the sections.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    SECTIONS.iter().map(|(name, _)| *name)
}

/// True if VPP has this class of log messages. Ignores the part from the `/` on.
pub fn is_log_class(name: &str) -> bool {
    let class = name.split_once('/').map_or(name, |(class, _)| class);
    LOG_CLASSES.split(' ').any(|known| known == class)
}

/// Returns the name of the section `name`, and a fault for each word that VPP would refuse in this section; `None` if VPP has no such
/// section.
pub fn faults(name: &str, items: &[Item], end: &super::Place) -> Option<(&'static str, Vec<Fault>)> {
    let (name, parameters) = SECTIONS.iter().find(|(known, _)| *known == name)?;
    let mut faults = Vec::new();
    if let Some(parameters) = parameters {
        read(name, parameters, Cursor::new(items, end), &mut faults);
    }
    Some((name, faults))
}

fn read(section: &str, parameters: &[&str], mut cursor: Cursor<'_>, faults: &mut Vec<Fault>) {
    while let Some(item) = cursor.first() {
        // The longest matching parameter counts.
        let fitting = parameters.iter().filter_map(|parameter| cursor.matches(parameter));
        if let Some(length) = fitting.max() {
            let is_device = section == "dpdk" && matches!(item, Item::Word(word) if word.text == "dev");
            for _ in 0..length {
                if let (true, Some(Item::Block(block))) = (is_device, cursor.take()) {
                    device(block, faults);
                }
            }
            continue;
        }
        let firsts = || parameters.iter().filter_map(|parameter| parameter.split(' ').next());
        faults.push(match item {
            Item::Word(word) => match parameters.iter().find(|p| p.split(' ').next() == Some(&word.text)) {
                Some(parameter) => {
                    let all =
                        parameters.iter().filter(|p| p.split(' ').next() == parameter.split(' ').next());
                    let all: Vec<String> = all.map(|p| usage(p)).collect();
                    Fault::new(
                        &word.place,
                        format!("'{}' is not complete: expected {}", word.text, all.join(", or ")),
                    )
                }
                None => {
                    let message = format!("section '{section}' of VPP has no parameter '{}'", word.text);
                    Fault::new(&word.place, format!("{message}: {}", hint(&word.text, firsts())))
                }
            },
            Item::Block(block) => {
                Fault::new(&block.open, format!("expected a parameter of section '{section}', found '{{'"))
            }
        });
        // Skip the wrong item, and its probable values: all items up to a word similar to a parameter.
        cursor.take();
        while cursor.first().is_some_and(|item| match item {
            Item::Word(word) => closest(&word.text, firsts()).is_none(),
            Item::Block(_) => true,
        }) {
            cursor.take();
        }
    }
}

fn device(block: &Block, faults: &mut Vec<Fault>) {
    read("dpdk { dev }", DPDK_DEVICE, Cursor::new(&block.items, &block.close), faults);
}

/// Returns a parameter in the notation of the documentation.
fn usage(parameter: &str) -> String {
    parameter.replace("<>", "<value>").replace("{}", "{ … }")
}
