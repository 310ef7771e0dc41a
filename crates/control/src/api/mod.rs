//! VPP's binary API: a front end for programs that were written for VPP (vpp_papi, GoVPP, vppcfg).
//!
//! The messages of the router's core are defined and answered here, one file per module. The messages of a feature are in the feature's
//! folder ([`Feature::messages`](net::feature::Feature::messages)). A message changes the same configuration as commands do: in one
//! transaction, which is journaled with the client and can be rolled back. A message whose feature is missing is not in the table, which
//! clients receive when they connect.

mod absent;
mod arp;
pub(crate) mod change;
mod connection;
mod frame;
pub(crate) mod interface;
pub(crate) mod ip;
mod memclnt;
pub(crate) mod neighbor;
pub(crate) mod numbers;
pub(crate) mod replace;
mod socket;
pub(crate) mod trace;
mod vlib;
mod vpe;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use vapi::{Message, Table};

use crate::app::Context;

/// Interval between checks for events. If an interface changes several times between two checks, clients get at most one event.
const LOOK: Duration = Duration::from_millis(20);

pub use socket::{Service, hello, serve};

/// Returns a table with the API messages of the router's core. Features add theirs.
pub fn own() -> Table<Context> {
    let mut table = Table::default();
    // First, because clients know the identifiers of its messages.
    memclnt::register(&mut table);
    vlib::register(&mut table);
    vpe::register(&mut table);
    interface::register(&mut table);
    ip::register(&mut table);
    neighbor::register(&mut table);
    arp::register(&mut table);
    absent::register(&mut table);
    table
}

/// Sends events to the clients that want them. Runs once for all sockets.
pub async fn watch(table: Rc<Table<Context>>, cx: Rc<RefCell<Context>>) {
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        let mut c = cx.borrow_mut();
        interface::look(&mut c, &table);
        neighbor::look(&mut c, &table);
        for (id, look) in table.looks() {
            for (client, event) in look(&mut c) {
                c.events.send_to(client, with_head(id, &event));
            }
        }
    }
}

/// Returns the bytes of an event message, with its header.
fn message(id: u16, event: &impl Message) -> Vec<u8> {
    with_head(id, &vapi::table::encoded(event))
}

/// Returns an event with the header of an event: its identifier, and a client index of 0, which clients ignore.
fn with_head(id: u16, event: &[u8]) -> Vec<u8> {
    [&id.to_be_bytes()[..], &[0; 4], event].concat()
}
