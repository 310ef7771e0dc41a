//! The command `show ip4-count`.

use net::feature::{App, Registrar, Shown, show_counted};
use serde::Serialize;

use crate::Count;

/// Declares the command.
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.command(
        "show ip4-count",
        "Show the IPv4 packets and bytes received while ip4-count was on, by interface.",
        |_, a| Ok(show_counted(a, &["Interface", "Packets", "Bytes"], row, cells)),
    );
    r.supports("show ip4-count".into());
}

#[derive(Serialize)]
struct Counted {
    interface: String,
    packets: u64,
    bytes: u64,
}

fn row(shown: &Shown<'_, Count>) -> Vec<Counted> {
    let &[packets, bytes] = &shown.counted[..] else { return Vec::new() };
    vec![Counted { interface: shown.interface.name.clone(), packets, bytes }]
}

fn cells(c: &Counted) -> Vec<String> {
    vec![c.interface.clone(), c.packets.to_string(), c.bytes.to_string()]
}
