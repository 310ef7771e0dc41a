//! The module `vlib`: commands, nodes and threads.
#![allow(non_camel_case_types)]

use vapi::wire::{Count, Line, Text};
use vapi::{Code, Table, define};

use crate::app::Context;

define! {
    /// Runs a command in shared memory.
    request cli { cmd_in_shmem: u64 } -> cli_reply { reply_in_shmem: u64 }
    /// Runs a command, and returns its output.
    request cli_inband { cmd: Line } -> cli_inband_reply { reply: Line }
    /// Asks for the number of a node.
    request get_node_index { node_name: Text<64> } -> get_node_index_reply { node_index: u32 }
    /// Adds an edge from a node to another.
    request add_node_next { node_name: Text<64>, next_name: Text<64> } -> add_node_next_reply { next_index: u32 }
    /// A thread.
    struct thread_data {
        id: u32,
        name: Text<64>,
        r#type: Text<64>,
        pid: u32,
        cpu_id: u32,
        core: u32,
        cpu_socket: u32,
    }
    /// Asks for all threads.
    request show_threads { } -> show_threads_reply { count: Count<u32>, thread_data: Vec<thread_data> }
    /// Asks for the graph, in shared memory.
    request get_node_graph { } -> get_node_graph_reply { reply_in_shmem: u64 }
    /// Asks for the number of the edge from a node to another.
    request get_next_index { node_name: Text<64>, next_name: Text<64> } -> get_next_index_reply { next_index: u32 }
    /// Tests the byte order of floating-point numbers.
    request get_f64_endian_value { f64_one: f64 = 1.0 } -> get_f64_endian_value_reply as Unsigned { f64_one_result: f64 }
    /// Adds 1.0 to a number.
    request get_f64_increment_by_one { f64_value: f64 = 1.0 } -> get_f64_increment_by_one_reply as Unsigned { f64_value: f64 }
}

/// Stands for a missing edge, or for a thread without a core.
const NONE: u32 = u32::MAX;

/// Registers the module.
pub(super) fn register(table: &mut Table<Context>) {
    table
        .module("vlib", [1, 0, 0])
        .question::<cli>(|_, _| Err(Code::UNIMPLEMENTED))
        .of_socket::<cli_inband>()
        .question::<get_node_index>(|c, q| {
            let node = node(c, &q.node_name.0).ok_or(Code::NO_SUCH_NODE)?;
            Ok(get_node_index_reply { node_index: node as u32 })
        })
        // The graph is the same for as long as the router runs.
        .question::<add_node_next>(|_, _| Err(Code::UNIMPLEMENTED))
        .question::<get_node_graph>(|_, _| Err(Code::UNIMPLEMENTED))
        .question::<show_threads>(|c, _| Ok(threads(c)))
        .question::<get_next_index>(|c, q| {
            node(c, &q.node_name.0).and(node(c, &q.next_name.0)).ok_or(Code::NO_SUCH_NODE)?;
            // An edge has no number that a client could use.
            Ok(get_next_index_reply { next_index: NONE })
        })
        .question::<get_f64_endian_value>(|_, q| match q.f64_one {
            1.0 => Ok(get_f64_endian_value_reply { f64_one_result: 1.0 }),
            _ => Err(Code::ENDIAN_FAILED),
        })
        .question::<get_f64_increment_by_one>(|_, q| {
            Ok(get_f64_increment_by_one_reply { f64_value: q.f64_value + 1.0 })
        });
}

/// Returns the number of a node.
fn node(c: &Context, name: &str) -> Option<usize> {
    c.system.router.graph().nodes().iter().position(|node| node.name == name)
}

fn threads(c: &Context) -> show_threads_reply {
    let thread = |id: usize, name: String, kind: &str, pid: i32, core: Option<usize>| {
        let core = core.map_or(NONE, |core| core as u32);
        thread_data {
            id: id as u32,
            name: Text(name),
            r#type: kind.into(),
            pid: pid as u32,
            cpu_id: core,
            core,
            cpu_socket: 0,
        }
    };
    let main = thread(0, "vpp_main".into(), "", std::process::id() as i32, c.main_core);
    let router = &c.system.router;
    let workers = router.cores().iter().enumerate().map(|(worker, core)| {
        let pid = router.thread_id(worker).unwrap_or_default();
        thread(worker + 1, format!("vpp_wk_{worker}"), "workers", pid, *core)
    });
    let thread_data = [main].into_iter().chain(workers).collect();
    show_threads_reply { thread_data, ..Default::default() }
}
