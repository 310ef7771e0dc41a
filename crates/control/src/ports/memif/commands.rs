//! Commands of memif.

use std::fmt::Write;
use std::path::PathBuf;

use drivers::memif::{Config, InterfaceState, RingShown, Role, Secret};
use net::feature::{App, Registrar};
use serde::Serialize;

use super::MemifSocket;
use super::state::{DEFAULT_SOCKET, Memif};
use crate::app::{Context, Done, Output};
use crate::cli::{Args, Table};
use crate::intent::Change;

/// Declares the commands.
pub fn register(r: &mut Registrar<'_, Context>) {
    r.command(
        "create memif socket id <id:u32> filename <file:word>",
        "Make a memif socket: a path, or @NAME for an abstract socket. A relative path is in the run-time directory; its missing \
         directories are created.",
        create_socket,
    );
    r.command("delete memif socket id <id:u32>", "Remove a memif socket that has no interfaces.", |c, a| {
        let key = MemifSocket::key(a.need("id")?);
        if c.store.get(&key).is_none() {
            return Err(a.fault("id", "no memif socket with this ID was created"));
        }
        c.transact(vec![Change::remove(key)]).map_err(|e| a.about("id", e))?;
        Ok(Output::none())
    });
    r.command(
        "create interface memif [id <id:u32>] [socket-id <socket:u32>] [{master | slave}] [rx-queues <rx:u16>] \
         [tx-queues <tx:u16>] [ring-size <ring:u16>] [buffer-size <buffer:u32>] [secret <secret:word>] \
         [hw-addr <mac:mac>] [trusted] [no-zero-copy] [index <index:u32>]",
        "Make memifSOCKET/ID, an interface to another program through shared memory. A slave connects and provides the memory; \
         a master listens. With \"trusted\", this router trusts the peer: as master, it accepts memory that \
         the slave can truncate; as slave, it shares all its buffers with the master, and never copies.",
        create_interface,
    );
    r.command("delete interface memif <interface:interface>", "Remove a memif interface.", |c, a| {
        c.delete_interface::<Config>(a, "interface", &a.need::<String>("interface")?)
    });
    r.command(
        "show memif [<interface:interface>] [descriptors]",
        "Show memif sockets and interfaces with their rings. Secrets are in \"show config\" only.",
        show,
    );
}

fn create_socket(c: &mut Context, a: &Args) -> Done {
    let (id, path) = (a.need::<u32>("id")?, PathBuf::from(a.need::<String>("file")?));
    let key = MemifSocket::key(id);
    if c.store.get(&key).is_some() {
        return Err(a.fault("id", format!("memif socket {id} already exists")));
    }
    let about = if id == DEFAULT_SOCKET { "id" } else { "file" };
    c.transact(vec![Change::set(key, MemifSocket(path))]).map_err(|e| a.about(about, e))?;
    Ok(Output::none())
}

fn create_interface(c: &mut Context, a: &Args) -> Done {
    let role = if a.has("master") { Role::Server } else { Role::Client };
    let socket = a.get::<u32>("socket").unwrap_or(DEFAULT_SOCKET);
    let mut config = Config::new(socket, a.get::<u32>("id").unwrap_or(0), role);
    config.rx_queues = a.get::<u16>("rx").map_or(config.rx_queues, usize::from);
    config.tx_queues = a.get::<u16>("tx").map_or(config.tx_queues, usize::from);
    config.ring_size = a.get("ring").unwrap_or(config.ring_size);
    config.buffer_size = a.get("buffer").unwrap_or(config.buffer_size);
    config.trusted = a.has("trusted");
    if config.lends() && a.has("no-zero-copy") {
        return Err(a.fault(
            "no-zero-copy",
            "a \"trusted\" slave never copies: leave out \"trusted\" or \"no-zero-copy\"",
        ));
    }
    if let Some(secret) = a.get::<String>("secret") {
        config.secret = Some(Secret::new(secret).map_err(|e| a.fault("secret", e))?);
    }
    // Checks each number alone, so that its fault is shown at its word.
    let one = |name: &str, config: Config| match config.check() {
        Err(e) if a.has(name) => Err(a.fault(name, e)),
        _ => Ok(()),
    };
    let usual = Config::new(socket, config.id, role);
    one("rx", Config { rx_queues: config.rx_queues, ..usual.clone() })?;
    one("tx", Config { tx_queues: config.tx_queues, ..usual.clone() })?;
    one("ring", Config { ring_size: config.ring_size, ..usual.clone() })?;
    one("buffer", Config { buffer_size: config.buffer_size, ..usual })?;
    let name = config.name();
    let about = ["socket", "id"].into_iter().find(|name| a.has(name)).unwrap_or("memif");
    c.create_interface(a, about, &name, config)
}

#[derive(Serialize)]
struct Shown {
    sockets: Vec<Socket>,
    interfaces: Vec<Shared>,
}

#[derive(Serialize)]
struct Socket {
    id: u32,
    listens: bool,
    interfaces: usize,
    /// Number of the socket's threads that hang while the kernel closes file descriptors of former peers.
    hanging_threads: usize,
    filename: String,
}

/// A memif interface, in the output of `show memif`.
#[derive(Serialize)]
struct Shared {
    name: String,
    socket_id: u32,
    id: u32,
    role: &'static str,
    admin_up: bool,
    connected: bool,
    trusted: bool,
    zero_copy: bool,
    has_secret: bool,
    remote_name: String,
    remote_interface: String,
    not_connected_because: Option<String>,
    ring_size: u16,
    buffer_size_bytes: u32,
    rx_queues: usize,
    tx_queues: usize,
    region_bytes: Vec<u64>,
    rings: Vec<Ring>,
}

#[derive(Serialize)]
struct Ring {
    direction: &'static str,
    number: usize,
    size: u16,
    head: u16,
    tail: u16,
    reader_sleeps: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    descriptors: Vec<Descriptor>,
}

#[derive(Serialize)]
struct Descriptor {
    slot: usize,
    flags: u16,
    region: u16,
    length_bytes: u32,
    offset: u32,
}

fn show(c: &mut Context, a: &Args) -> Done {
    let name = a.get::<String>("interface");
    let memif = &c.system.router.state::<Memif>()?.sockets;
    let sockets = memif.sockets().into_iter().map(|s| Socket {
        id: s.id,
        listens: s.listens,
        interfaces: s.interfaces,
        hanging_threads: s.lingering,
        filename: s.path.display().to_string(),
    });
    let interfaces = memif.interfaces(name.as_deref(), a.has("descriptors"));
    if let (Some(name), true) = (&name, interfaces.is_empty()) {
        return Err(a.fault("interface", format!("{name} is not a memif interface")));
    }
    let shown =
        Shown { sockets: sockets.collect(), interfaces: interfaces.into_iter().map(shared).collect() };
    let text = text(&shown);
    Ok(Output::show(&shown, text))
}

fn shared(s: InterfaceState) -> Shared {
    let (c, role) = (&s.config, s.config.role);
    Shared {
        name: c.name(),
        socket_id: c.socket,
        id: c.id,
        role: if role == Role::Server { "master" } else { "slave" },
        admin_up: s.up,
        connected: s.connected,
        trusted: c.trusted,
        zero_copy: c.lends(),
        has_secret: c.secret.is_some(),
        remote_name: s.peer,
        remote_interface: s.peer_interface,
        not_connected_because: s.reason,
        ring_size: c.ring_size,
        buffer_size_bytes: c.buffer_size,
        rx_queues: c.rx_queues,
        tx_queues: c.tx_queues,
        region_bytes: s.regions,
        rings: s.rings.into_iter().map(|r| ring(r, role)).collect(),
    }
}

fn ring(r: RingShown, role: Role) -> Ring {
    let to_master = r.receives == (role == Role::Server);
    let descriptor = |(slot, (flags, region, length_bytes, offset))| Descriptor {
        slot,
        flags,
        region,
        length_bytes,
        offset,
    };
    Ring {
        direction: if to_master { "slave-to-master" } else { "master-to-slave" },
        number: r.number,
        size: r.state.size,
        head: r.state.head,
        tail: r.state.tail,
        reader_sleeps: r.state.wants_signals,
        descriptors: r.descriptors.into_iter().enumerate().map(descriptor).collect(),
    }
}

fn text(shown: &Shown) -> String {
    let mut s = String::from("sockets\n");
    let mut sockets = Table::new(&["id", "listener", "filename"]);
    for socket in &shown.sockets {
        let listens = if socket.listens { format!("yes ({})", socket.interfaces) } else { "no".into() };
        let hangs = match socket.hanging_threads {
            0 => String::new(),
            n => format!(" ({n} threads hang while they close file descriptors of former peers)"),
        };
        sockets.row(vec![socket.id.to_string(), listens, format!("{}{hangs}", socket.filename)]);
    }
    for line in sockets.to_string().lines() {
        let _ = writeln!(s, "  {line}");
    }
    for i in &shown.interfaces {
        let _ = writeln!(s, "\ninterface {}", i.name);
        if i.connected {
            let _ = writeln!(s, "  remote-name \"{}\"", i.remote_name);
            let _ = writeln!(s, "  remote-interface \"{}\"", i.remote_interface);
        }
        let _ = writeln!(s, "  socket-id {} id {} mode ethernet {}", i.socket_id, i.id, i.role);
        let flags = [
            (i.admin_up, "admin-up"),
            (i.connected, "connected"),
            (i.trusted, "trusted"),
            (i.zero_copy, "zero-copy"),
            (i.has_secret, "secret"),
        ];
        let flags: Vec<&str> = flags.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect();
        let _ = writeln!(s, "  flags {}", if flags.is_empty() { "none".into() } else { flags.join(" ") });
        if let Some(why) = &i.not_connected_because {
            let _ = writeln!(s, "  not connected: {why}");
        }
        let _ = writeln!(
            s,
            "  rx-queues {} tx-queues {} ring-size {} buffer-size {} bytes",
            i.rx_queues, i.tx_queues, i.ring_size, i.buffer_size_bytes
        );
        for (n, bytes) in i.region_bytes.iter().enumerate() {
            let _ = writeln!(s, "  region {n} size {bytes} bytes");
        }
        for r in &i.rings {
            let _ = writeln!(s, "  {} ring {}:", r.direction, r.number);
            let reader = if r.reader_sleeps { "sleeps" } else { "polls" };
            let _ = writeln!(s, "    ring-size {} head {} tail {} reader {reader}", r.size, r.head, r.tail);
            if r.descriptors.is_empty() {
                continue;
            }
            let mut table = Table::new(&["slot", "flags", "region", "length", "offset"]);
            for d in &r.descriptors {
                let (flags, region) = (d.flags.to_string(), d.region.to_string());
                table.row(vec![
                    d.slot.to_string(),
                    flags,
                    region,
                    d.length_bytes.to_string(),
                    d.offset.to_string(),
                ]);
            }
            for line in table.to_string().lines() {
                let _ = writeln!(s, "    {line}");
            }
        }
    }
    s
}
