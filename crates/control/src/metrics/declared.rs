//! Every metric: its name, labels and meaning.

use crate::system::Catalog;
use std::fmt::Write;

pub use model::metrics::{Kind, Metric};

macro_rules! metrics {
    ($($id:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        /// A metric, in the order of [`METRICS`].
        #[derive(Clone, Copy, Debug)]
        pub(super) enum Id { $($id),* }

        /// The metrics that do not belong to a feature.
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
        "The version of the router, and the CPU level for which its packet-processing code was chosen.";
    StartTime: Gauge "volley_start_time_seconds" []
        "Start time of the router, in seconds since 1970 (UTC).";
    ConfigGeneration: Gauge "volley_config_generation" []
        "Number of the last change of the configuration, as in `show config yaml`. With a `state-dir`, it continues after a restart.";
    ConfigUnconfirmed: Gauge "volley_config_unconfirmed" []
        "1 while an applied configuration awaits confirmation or rollback.";
    ConfigOverdue: Gauge "volley_config_vain_rollbacks" []
        "Failed attempts to roll back an unconfirmed configuration; 0 if all is well.";

    ProcessStart: Gauge "process_start_time_seconds" []
        "Start time of the process, in seconds since 1970 (UTC).";
    ProcessCpu: Counter "process_cpu_seconds_total" []
        "CPU time of the process, in user mode and in the kernel. Workers that poll use all of their cores.";
    ProcessVirtual: Gauge "process_virtual_memory_bytes" []
        "Virtual memory of the process; much of it is only reserved.";
    ProcessResident: Gauge "process_resident_memory_bytes" []
        "Memory of the process, without huge pages.";
    ProcessFds: Gauge "process_open_fds" []
        "Open file descriptors of the process.";
    ProcessMostFds: Gauge "process_max_fds" []
        "Limit of open file descriptors.";
    ProcessThreads: Gauge "process_threads" []
        "Threads of the process.";

    InterfaceInfo: Info "volley_interface_info" ["interface", "kind", "vrf", "mac", "description"]
        "Properties of the interface, to join with its other metrics. Without a description, the label is empty.";
    InterfaceUp: Gauge "volley_interface_up" ["interface"]
        "1 if the interface can send packets: its admin state and its link are up.";
    InterfaceAdminUp: Gauge "volley_interface_admin_up" ["interface"]
        "1 if the interface's admin state is up.";
    InterfaceAbsent: Gauge "volley_interface_absent" ["interface"]
        "1 while the interface waits for its missing device.";
    InterfaceMtu: Gauge "volley_interface_mtu_bytes" ["interface"]
        "The largest network packet that the interface sends.";
    InterfaceSpeed: Gauge "volley_interface_speed_bytes_per_second" ["interface"]
        "Speed of the link, if the device reports it.";
    RxPackets: Counter "volley_interface_receive_packets_total" ["interface"]
        "Packets received.";
    RxBytes: Counter "volley_interface_receive_bytes_total" ["interface"]
        "Bytes received, with link headers.";
    RxMissed: Counter "volley_interface_receive_missed_total" ["interface"]
        "Packets that arrived at the device, but that it could not pass to the router.";
    RxErrors: Counter "volley_interface_receive_errors_total" ["interface"]
        "Unusable packets from the device.";
    TxPackets: Counter "volley_interface_transmit_packets_total" ["interface"]
        "Packets for the interface to send. Output features may still drop them, and the device may refuse them.";
    TxBytes: Counter "volley_interface_transmit_bytes_total" ["interface"]
        "Bytes sent, with link headers.";
    TxErrors: Counter "volley_interface_transmit_errors_total" ["interface"]
        "Packets that the device refused.";
    InterfaceDrops: Counter "volley_interface_drops_total" ["interface"]
        "Dropped packets that were received on the interface.";
    OwnDrops: Counter "volley_own_drops_total" []
        "Dropped packets of the router itself, received on no interface. With volley_interface_drops_total, they add up to volley_drop_packets_total.";
    DropPackets: Counter "volley_drop_packets_total" ["node", "reason"]
        "Dropped packets, by reason and by the node (or main-thread) that dropped them.";
    NodeEvents: Counter "volley_node_events_total" ["node", "reason"]
        "Events other than drops, by node: valid packets that the node ignored, error reports that were not sent, and input from devices \
         that was not a packet.";
    PuntPackets: Counter "volley_punt_packets_total" ["reason"]
        "Packets that nodes passed to the main thread.";
    PuntPoliced: Counter "volley_punt_policed_packets_total" ["reason"]
        "Packets for the main thread that were dropped because they exceeded the rate limit of their punt reason. volley_drop_packets_total also counts them, as punt-policed.";

    NodeCalls: Counter "volley_node_calls_total" ["node", "worker"]
        "Calls of the node.";
    NodePackets: Counter "volley_node_packets_total" ["node", "worker"]
        "Packets passed to the node, or received by an input node.";
    NodeTimedPackets: Counter "volley_node_timed_packets_total" ["node", "worker"]
        "Packets of the timed calls: all calls with 32 packets or more, and one in 16 of all other calls.";
    NodeCycles: Counter "volley_node_cycles_total" ["node", "worker"]
        "TSC cycles of the timed calls. Divided by volley_node_timed_packets_total, this is cycles per packet.";

    WorkerTurns: Counter "volley_worker_turns_total" ["worker"]
        "Turns of the worker. In each turn it polls all its inputs.";
    WorkerBusy: Counter "volley_worker_busy_seconds_total" ["worker"]
        "Time that the worker spent in turns (polls of all its inputs) in which packets arrived.";
    WorkerIdle: Counter "volley_worker_idle_seconds_total" ["worker"]
        "Time that the worker slept, or found no packets.";

    WorkerNaps: Counter "volley_worker_naps_total" ["worker"]
        "Sleeps of some microseconds, because few packets arrived.";
    WorkerSleeps: Counter "volley_worker_sleeps_total" ["worker"]
        "Sleeps of the worker until an event woke it.";

    VectorSize: Histogram "volley_worker_vector_size_packets" ["worker"]
        "Packets per poll. Polls that found no packets are not counted.";

    Buffers: Gauge "volley_buffers" ["state"]
        "Packet buffers: `free` in the pool, `cached` by threads, `lent` to devices, or `used` by packets.";
    BuffersRefused: Counter "volley_buffer_refusals_total" []
        "Failed allocations of a buffer, because none was free.";
    PacketsLost: Counter "volley_packets_lost_total" []
        "Packets that vanished without a drop reason. This is a defect: please report it.";

    FibRoutes: Gauge "volley_fib_routes" ["af", "vrf"]
        "Prefixes with routes, including the prefixes that every VRF has.";
    FibMemory: Gauge "volley_fib_memory_bytes" ["af", "vrf"]
        "Memory of the lookup table.";
    Neighbors: Gauge "volley_neighbors" ["af", "state"]
        "Neighbors by state.";
}

/// Returns every metric: those in the order of [`Id`], then those of features.
pub fn metrics(catalog: &Catalog) -> Vec<&'static Metric> {
    METRICS.iter().chain(catalog.all_metrics().iter().copied()).collect()
}

/// Returns the metrics as a Markdown table, for the end of `docs/reference/metrics.md`.
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
