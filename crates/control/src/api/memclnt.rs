//! The module `memclnt`: connections, pings, and questions about the API itself.
//!
//! These messages have the fixed identifiers 1 to 28, which clients rely on. To keep these identifiers, this module also defines the
//! messages for clients in shared memory, which clients of a socket never send.
#![allow(non_camel_case_types)]

use vapi::wire::{Array, Count, Line, Text};
use vapi::{Table, define};

use crate::app::Context;

define! {
    bare memclnt_create {
        context: u32,
        ctx_quota: i32,
        input_queue: u64,
        name: Text<64>,
        api_versions: Array<u32, 8>,
    }
    bare memclnt_create_reply { context: u32, response: i32, handle: u64, index: u32, message_table: u64 }
    bare memclnt_delete { index: u32, handle: u64, do_cleanup: bool }
    bare memclnt_delete_reply { response: i32, handle: u64 }
    bare rx_thread_exit { dummy: u8 }
    bare memclnt_rx_thread_suspend { dummy: u8 }
    bare memclnt_read_timeout { dummy: u8 }
    /// Calls a function of the server. Only clients in shared memory use this.
    request rpc_call {
        function: u64,
        multicast: u8,
        need_barrier_sync: u8,
        send_reply: u8,
        data_len: Count<u32>,
        data: Vec<u8>,
    }
    /// Asks for the first identifier of a module's messages.
    request get_first_msg_id { name: Text<64> } -> get_first_msg_id_reply { first_msg_id: u16 }
    /// The version of a module.
    struct module_version { major: u32, minor: u32, patch: u32, name: Text<64> }
    /// Asks for the versions of all modules.
    request api_versions { } -> api_versions_reply { count: Count<u32>, api_versions: Vec<module_version> }
    bare trace_plugin_msg_ids {
        client_index: u32,
        context: u32,
        plugin_name: Text<128>,
        first_msg_id: u16,
        last_msg_id: u16,
    }
    /// A message in the table that a new client gets.
    struct message_table_entry { index: u16, name: Text<64> }
    bare sockclnt_create { context: u32, name: Text<64> }
    bare sockclnt_create_reply {
        client_index: u32,
        context: u32,
        response: i32,
        index: u32,
        count: Count<u16>,
        message_table: Vec<message_table_entry>,
    }
    bare sockclnt_delete { client_index: u32, context: u32, index: u32 }
    bare sockclnt_delete_reply { context: u32, response: i32 }
    /// Asks for a ring in shared memory.
    request sock_init_shm { requested_size: u32, nitems: Count<u8>, configs: Vec<u64> }
    /// Asks whether the peer is alive.
    request memclnt_keepalive { }
    /// Marks the end of a dump. The router answers requests in order, so the reply to a ping follows all replies of the dump.
    request control_ping { } -> control_ping_reply { client_index: u32, vpe_pid: u32 }
    bare memclnt_create_v2 {
        context: u32,
        ctx_quota: i32,
        input_queue: u64,
        name: Text<64>,
        api_versions: Array<u32, 8>,
        keepalive: bool = true,
    }
    bare memclnt_create_v2_reply { context: u32, response: i32, handle: u64, index: u32, message_table: u64 }
    /// Asks for the definitions of all messages.
    request get_api_json { } -> get_api_json_reply { json: Line }
}

/// Registers the module's messages. Must be called before all other modules: clients know the identifiers of these messages.
pub(super) fn register(table: &mut Table<Context>) {
    table
        .module("memclnt", [2, 1, 0])
        .bare::<memclnt_create>()
        .bare::<memclnt_create_reply>()
        .bare::<memclnt_delete>()
        .bare::<memclnt_delete_reply>()
        .bare::<rx_thread_exit>()
        .bare::<memclnt_rx_thread_suspend>()
        .bare::<memclnt_read_timeout>()
        .of_socket::<rpc_call>()
        .of_socket::<get_first_msg_id>()
        .of_socket::<api_versions>()
        .bare::<trace_plugin_msg_ids>()
        .bare::<sockclnt_create>()
        .bare::<sockclnt_create_reply>()
        .bare::<sockclnt_delete>()
        .bare::<sockclnt_delete_reply>()
        .of_socket::<sock_init_shm>()
        .of_socket::<memclnt_keepalive>()
        .of_socket::<control_ping>()
        .bare::<memclnt_create_v2>()
        .bare::<memclnt_create_v2_reply>()
        .of_socket::<get_api_json>();
}
