//! Every metric: its name, its labels, and what it means.

use crate::intent::Catalog;
use std::fmt::Write;

pub use model::metrics::{Kind, Metric};

macro_rules! metrics {
    ($($id:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        /// A metric, by the order of [`METRICS`].
        #[derive(Clone, Copy, Debug)]
        pub(super) enum Id { $($id),* }

        /// Those that are no feature's.
        static METRICS: &[Metric] = &[
            $(Metric { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help }),*
        ];

        impl From<Id> for &'static Metric {
            fn from(id: Id) -> &'static Metric {
                &METRICS[id as usize]
            }
        }
    };
}

metrics! {
    BuildInfo: Info "volley_build_info" ["version", "cpu_level"]
        "The version of the router, and the CPU level that its kernels were chosen for.";
    StartTime: Gauge "volley_start_time_seconds" []
        "When the router started, in seconds of universal time since 1970.";
    ConfigGeneration: Gauge "volley_config_generation" []
        "The number of the last change of the configuration, as `show config yaml` has it; it goes on after a restart if there is a `state-dir`.";
    ConfigUnconfirmed: Gauge "volley_config_unconfirmed" []
        "1 while a configuration that was applied waits to be confirmed, or to be taken back.";
    ConfigOverdue: Gauge "volley_config_vain_rollbacks" []
        "How often it was tried in vain to take back the configuration that nobody has confirmed; 0 if all is well.";

    ProcessStart: Gauge "process_start_time_seconds" []
        "Start time of the process, in seconds since 1970 (UTC).";
    ProcessCpu: Counter "process_cpu_seconds_total" []
        "CPU time of the process, in user mode and in the kernel. Workers that poll use all of their cores.";
    ProcessVirtual: Gauge "process_virtual_memory_bytes" []
        "Virtual memory of the process, much of it reserved only.";
    ProcessResident: Gauge "process_resident_memory_bytes" []
        "Memory of the process, without huge pages.";
    ProcessFds: Gauge "process_open_fds" []
        "Open file descriptors of the process.";
    ProcessMostFds: Gauge "process_max_fds" []
        "Limit of open file descriptors.";
    ProcessThreads: Gauge "process_threads" []
        "Threads of the process.";

    InterfaceInfo: Info "volley_interface_info" ["interface", "kind", "vrf", "mac", "description"]
        "Properties of the interface, to be joined to its other metrics. Without a description the label is empty.";
    InterfaceUp: Gauge "volley_interface_up" ["interface"]
        "1 if packets can leave by the interface: it is set up, and its link is up, too.";
    InterfaceAdminUp: Gauge "volley_interface_admin_up" ["interface"]
        "1 if the operator has set the interface up.";
    InterfaceAbsent: Gauge "volley_interface_absent" ["interface"]
        "1 while the interface is without its device, and waits for it.";
    InterfaceMtu: Gauge "volley_interface_mtu_bytes" ["interface"]
        "The largest network packet that the interface sends.";
    InterfaceSpeed: Gauge "volley_interface_speed_bytes_per_second" ["interface"]
        "Speed of the link, of interfaces whose device reports it.";
    RxPackets: Counter "volley_interface_receive_packets_total" ["interface"]
        "Packets received.";
    RxBytes: Counter "volley_interface_receive_bytes_total" ["interface"]
        "Bytes received, with link headers.";
    RxMissed: Counter "volley_interface_receive_missed_total" ["interface"]
        "Packets that came to the device, and that it could not hand over.";
    RxErrors: Counter "volley_interface_receive_errors_total" ["interface"]
        "What the device handed over and could not be used.";
    TxPackets: Counter "volley_interface_transmit_packets_total" ["interface"]
        "Packets for the interface to send, which features of its output, like a policer, may still drop, and its device may refuse.";
    TxBytes: Counter "volley_interface_transmit_bytes_total" ["interface"]
        "Bytes sent, with link headers.";
    TxErrors: Counter "volley_interface_transmit_errors_total" ["interface"]
        "Packets that the device did not take.";
    InterfaceDrops: Counter "volley_interface_drops_total" ["interface"]
        "Packets dropped that came in by the interface.";
    OwnDrops: Counter "volley_own_drops_total" []
        "Packets dropped that came in by no interface: the router's own. With volley_interface_drops_total, all of volley_drop_packets_total.";
    DropPackets: Counter "volley_drop_packets_total" ["node", "reason"]
        "Packets dropped, by the node (or main-thread) that dropped them and its reason.";
    NodeEvents: Counter "volley_node_events_total" ["node", "reason"]
        "What nodes counted and was no drop: packets that they have no use for and nothing is wrong with, reports about packets that were not sent, what devices handed over and was no packet.";
    PuntPackets: Counter "volley_punt_packets_total" ["reason"]
        "Packets that nodes gave to the main thread.";
    PuntPoliced: Counter "volley_punt_policed_packets_total" ["reason"]
        "Packets for the main thread that were dropped because there were more than their reason may have; volley_drop_packets_total has them, too, as punt-policed.";

    NodeCalls: Counter "volley_node_calls_total" ["node", "worker"]
        "How often the node ran.";
    NodePackets: Counter "volley_node_packets_total" ["node", "worker"]
        "Packets that the node was given, or brought in.";
    NodeTimedPackets: Counter "volley_node_timed_packets_total" ["node", "worker"]
        "Packets of the calls that were timed: all with 32 packets or more, one in 16 of the others.";
    NodeCycles: Counter "volley_node_cycles_total" ["node", "worker"]
        "TSC cycles of the calls that were timed; divided by volley_node_timed_packets_total it is cycles a packet.";

    WorkerTurns: Counter "volley_worker_turns_total" ["worker"]
        "How often the worker asked all of its inputs for packets.";
    WorkerBusy: Counter "volley_worker_busy_seconds_total" ["worker"]
        "Time that the worker spent in turns in which packets came.";
    WorkerIdle: Counter "volley_worker_idle_seconds_total" ["worker"]
        "Time that the worker slept, or found no packet.";

    WorkerNaps: Counter "volley_worker_naps_total" ["worker"]
        "How often the worker slept for some microseconds, because few packets came.";
    WorkerSleeps: Counter "volley_worker_sleeps_total" ["worker"]
        "How often the worker slept until something woke it.";

    VectorSize: Histogram "volley_worker_vector_size_packets" ["worker"]
        "Packets that came in together, of those times when any came.";

    Buffers: Gauge "volley_buffers" ["state"]
        "Packet buffers: `free` in the pool, `cached` by threads, `lent` to devices, or `used` by packets.";
    BuffersRefused: Counter "volley_buffer_refusals_total" []
        "How often no buffer was free for a packet.";
    PacketsLost: Counter "volley_packets_lost_total" []
        "Packets that left without a reason: a defect, please report it.";

    FibRoutes: Gauge "volley_fib_routes" ["af", "vrf"]
        "Prefixes that have routes, those that every VRF has included.";
    FibMemory: Gauge "volley_fib_memory_bytes" ["af", "vrf"]
        "Memory of the lookup table.";
    Neighbors: Gauge "volley_neighbors" ["af", "state"]
        "Neighbours by what is known of them.";
}

/// Every metric, in the order of [`Id`], and then by feature.
pub fn metrics(catalog: &Catalog) -> Vec<&'static Metric> {
    METRICS.iter().chain(catalog.all_metrics().iter().copied()).collect()
}

/// The metrics as a Markdown table; `docs/reference/metrics.md` ends with it.
pub fn reference(catalog: &Catalog) -> String {
    let mut text = String::from("| metric | labels | kind | meaning |\n|---|---|---|---|\n");
    for metric in metrics(catalog) {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind) = (metric.name, metric.kind.name());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| `{name}` | {} | {kind} | {} |", labels.join(", "), metric.help);
    }
    text
}
