//! The binary API, with VPP's own client for Python (unchanged, from the registry of Python packages), and with frames that no client
//! sends.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use scenarios::status;
use scenarios::tool::of_python;
use testkit::netns::{Host, Lab};
use testkit::process::until;
use testkit::router::Router;
use testkit::skip::skipped;

/// Returns a namespace, a router there that serves the API, and the API's sockets: the unrestricted and the read-only one. `None` if
/// namespaces are not available (reported as skipped).
fn served(commands: &str) -> Option<(Host, Router, [PathBuf; 2])> {
    let lab = Lab::new()?;
    let (r, far) = (lab.host("r"), lab.host("far"));
    lab.link((&r, "eth0"), (&far, "eth0"));
    let sockets = ["api.sock", "api-ro.sock"].map(|name| lab.dir().join(name));
    let [all, readers] = &sockets;
    let section =
        format!("socksvr {{ socket-name {} socket-name-read-only {} }}\n", all.display(), readers.display());
    let router = Router::start_with(&r, &section, commands);
    Some((r, router, sockets))
}

/// Runs a task of VPP's client. `None` if the client is not installed.
fn papi(host: &Host, socket: &Path, task: &str) -> Option<()> {
    let python = of_python("python3")?;
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/papi.py");
    let said = host.run(&format!("{} {tool} {} {task}", python.display(), socket.display()));
    assert_eq!(said.trim(), "done");
    Some(())
}

#[test]
fn vpps_client_configures_interfaces() {
    let Some((r, router, [socket, _])) = served("create host-interface name eth0\n") else { return };
    if papi(&r, &socket, "configure").is_none() {
        return;
    }
    // The CLI shows the state that the API's client has made, and undoes it.
    assert!(router.ctl("show interface address").contains("10.77.0.1/24"));
    let history = router.json("show config history");
    let last = &history["changes"].as_array().map_or(history.clone(), |all| all[0].clone());
    assert!(last.to_string().contains("\"api\""), "{last}");
    router.ctl("config rollback 2");
    assert!(!router.ctl("show interface").contains("host-eth0.20"));
}

#[test]
fn vpps_client_adds_and_reads_routes() {
    let Some((r, router, [socket, _])) = served("create host-interface name eth0\n") else { return };
    if papi(&r, &socket, "routes").is_some() {
        assert!(router.ctl("show ip6 fib").contains("2001:db8::/32"));
    }
}

#[test]
fn many_routes_are_flushed_in_slices() {
    let Some((r, router, [socket, _])) = served("") else { return };
    if papi(&r, &socket, "many").is_some() {
        let history = router.ctl("show config history");
        assert!(history.contains("ip_table_flush"), "{history}");
    }
}

#[test]
fn vpps_client_makes_devices() {
    let Some((r, router, [socket, _])) = served("") else { return };
    if !r.can_tap() {
        return;
    }
    let before = router.ctl("show config");
    if papi(&r, &socket, "devices").is_some() {
        assert_eq!(router.ctl("show config"), before);
    }
}

#[test]
fn vpps_client_reads_statistics() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let sockets = ["api.sock", "stats.sock"].map(|name| lab.dir().join(name));
    let [api, stats] = &sockets;
    let section = format!(
        "socksvr {{ socket-name {} }}\nstatseg {{ socket-name {} size 1M }}\n",
        api.display(),
        stats.display()
    );
    let commands = "create packet-generator interface pg7\nset interface state pg7 up\n\
                    packet-generator new { name x limit 5 size 64-64 interface pg7 node ethernet-input \
                    data { IP4: 02:00:00:00:00:01 -> 02:fe:00:00:00:07 UDP: 10.0.0.2 -> 10.0.1.2 } }\n";
    let router = Router::start_with(&r, &section, commands);
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", router.id())).unwrap().count();
    let before = descriptors();
    if papi(&r, api, &format!("statistics {}", stats.display())).is_some() {
        // 200 readers have come and gone. The router may still be closing the last ones.
        until("the descriptors of all readers are closed", Duration::from_secs(5), || {
            descriptors() <= before + 2
        });
    }
    drop(router);
    assert!(!stats.exists());
}

/// If a worker is removed and added again, it keeps its counters: no counter of an interface or of a node decreases.
#[test]
fn counters_are_those_of_each_worker() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let sockets = ["api.sock", "stats.sock"].map(|name| lab.dir().join(name));
    let [api, stats] = &sockets;
    let section = format!(
        "socksvr {{ socket-name {} }}\nstatseg {{ socket-name {} update-interval 0.1 }}\n",
        api.display(),
        stats.display()
    );
    let router = Router::start_with(&r, &section, "");
    router.ctl("set workers 2");
    router.script("create packet-generator interface pg7\nset interface state pg7 up\n");
    papi(&r, api, &format!("workers {}", stats.display()));
}

/// One router traces the requests of its clients. Another router replays the trace, and then has the same configuration.
#[test]
fn a_trace_makes_the_same_configuration_in_another_router() {
    let Some((r, router, [socket, _])) = served("create host-interface name eth0\n") else { return };
    router.ctl("api trace on");
    for task in ["configure", "routes"] {
        if papi(&r, &socket, task).is_none() {
            return;
        }
    }
    let names = ["save", "save-json"].map(|save| {
        let name = format!("volley-api-{save}-{}", router.id());
        router.ctl(&format!("api trace {save} {name}"));
        name
    });
    let wanted = router.ctl("show config");
    drop((router, r));
    for (replay, name) in ["replay", "replay-json"].into_iter().zip(names) {
        let Some((_r, router, _)) = served("create host-interface name eth0\n") else { return };
        let said = router.ctl(&format!("api trace {replay} /tmp/{name}"));
        std::fs::remove_file(Path::new("/tmp").join(name)).unwrap();
        assert_eq!(router.ctl("show config"), wanted, "{said}");
    }
}

#[test]
fn vpps_client_gets_events_of_interfaces() {
    let Some((r, router, [socket, _])) = served("") else { return };
    router.ctl("api trace on");
    router.ctl("api trace tx on");
    if papi(&r, &socket, "events").is_none() {
        return;
    }
    // The trace has the requests and the events, with their fields.
    let name = format!("volley-api-{}.json", router.id());
    router.ctl(&format!("api trace all save-json {name}"));
    let path = Path::new("/tmp").join(name);
    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    std::fs::remove_file(path).unwrap();
    let said = |name: &str, field: &str, value: i64| {
        let all = trace.as_array().unwrap().iter();
        all.filter(|message| message["_msgname"] == name && message[field] == value).count()
    };
    assert_eq!(said("want_interface_events", "pid", 4242), 4, "{trace}");
    assert_eq!(said("want_interface_events_reply", "retval", 0), 2, "{trace}");
    assert_eq!(said("want_interface_events_reply", "retval", -31), 2, "{trace}");
}

#[test]
fn connections_leave_no_descriptor() {
    let Some((r, router, [socket, _])) = served("") else { return };
    let files = || std::fs::read_dir(format!("/proc/{}/fd", router.id())).unwrap().count();
    // The sockets are served only after the router has said that it is ready: the first client waits for that.
    if papi(&r, &socket, "reconnect 1").is_none() {
        return;
    }
    // That client's thread may take a moment to end.
    std::thread::sleep(Duration::from_secs(1));
    let before = files();
    papi(&r, &socket, "reconnect 200");
    testkit::process::until("all descriptors are closed", Duration::from_secs(10), || files() <= before);
}

#[test]
fn a_read_only_socket_changes_nothing() {
    let Some((r, _router, [_, readers])) = served("") else { return };
    papi(&r, &readers, "reads");
}

#[test]
fn an_operator_resets_counters_but_changes_no_configuration() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let socket = lab.dir().join("api-op.sock");
    let _router =
        Router::start_with(&r, &format!("socksvr {{ socket-name-operator {} }}\n", socket.display()), "");
    papi(&r, &socket, "operates");
}

/// Returns a frame with this message.
fn frame(message: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 16];
    frame[8..12].copy_from_slice(&(message.len() as u32).to_be_bytes());
    frame.extend(message);
    frame
}

/// Returns the frame with which a client opens a session of the API.
fn create() -> Vec<u8> {
    let mut message = vec![0, 15, 0, 0, 0, 124];
    message.extend([0; 64]);
    frame(&message)
}

/// Reads a frame. `None` if the router closed the connection.
fn answer(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut header = [0; 16];
    match stream.read_exact(&mut header) {
        Err(e) if [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset].contains(&e.kind()) => return None,
        read => read.unwrap(),
    }
    let mut message = vec![0; u32::from_be_bytes(header[8..12].try_into().unwrap()) as usize];
    stream.read_exact(&mut message).unwrap();
    Some(message)
}

fn connected(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// Silent clients make room for new ones when all connections are in use. Clients that do not read their answers make the router's memory
/// grow by less than 48 MiB.
#[test]
fn clients_that_do_nothing_lock_nobody_out() {
    let Some(lab) = Lab::new() else { return };
    let r = lab.host("r");
    let socket = lab.dir().join("api.sock");
    let section =
        format!("unix {{ gid 65534 cli-idle-timeout 1 }}\nsocksvr {{ socket-name {} }}\n", socket.display());
    let router = Router::start_with(&r, &section, "");
    let introduced = || {
        let mut stream = connected(&socket);
        stream.write_all(&create()).unwrap();
        answer(&mut stream).map(|table| (stream, table))
    };
    // Root may have 72 connections.
    let silent: Vec<_> = (0..72).map(|_| introduced().unwrap()).collect();
    std::thread::sleep(Duration::from_millis(1500));
    let (mut late, table) = introduced().expect("a place");
    late.write_all(&command(&table, "show version")).unwrap();
    assert!(answer(&mut late).unwrap().len() > 20);
    drop(silent);
    // 60 answers of nearly 4 MiB each, which nobody reads.
    let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    if !r.attempt(&format!("{nobody} true"), Duration::from_secs(5)).ok() {
        return skipped("needs root, to become another user");
    }
    std::fs::set_permissions(lab.dir(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let memory = || status(router.id(), "VmRSS");
    let before = memory();
    let at = table.windows(11).position(|name| name == b"cli_inband_").unwrap();
    let id = u16::from_be_bytes(table[at - 2..at].try_into().unwrap());
    // In a folder that the other user can read.
    let tool = lab.dir().join("unread.py");
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/tools/unread.py"), &tool).unwrap();
    let python = "/usr/bin/env -i PATH=/usr/bin:/bin python3";
    let said = r.run(&format!("{nobody} {python} {} {} {id}", tool.display(), socket.display()));
    assert_eq!(said.trim(), "done");
    let grown = memory().saturating_sub(before);
    assert!(grown < (48 << 10), "{grown} KiB more");
}

/// A client sends a message byte by byte, several messages at once, unknown ones and one that is too short. Another client announces one
/// that is too long, and only its connection ends.
#[test]
fn no_frame_disturbs_other_clients() {
    let Some((_r, _router, [socket, _])) = served("") else { return };
    let mut slow = connected(&socket);
    for byte in create() {
        slow.write_all(&[byte]).unwrap();
    }
    let table = answer(&mut slow).unwrap();
    assert_eq!(&table[..10], [0, 16, 0, 0, 0, 0, 0, 0, 0, 124]);
    // control_ping is message 23: twice in one write, after an unknown message, an empty request and one that is too short.
    let ping = |context: u8| frame(&[0, 23, 0, 0, 0, 0, 0, 0, 0, context]);
    let all =
        [frame(&[0xff, 0xff, 1]), frame(&[0, 23]), frame(&[0, 8, 0, 0, 0, 0, 0, 0, 0, 7]), ping(8), ping(9)];
    slow.write_all(&all.concat()).unwrap();
    // A request that is too short is refused (rpc_call: -9), in order.
    assert_eq!(answer(&mut slow).unwrap(), [0, 9, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xf7]);
    for context in [8, 9] {
        let reply = answer(&mut slow).unwrap();
        assert_eq!((reply.len(), &reply[..6]), (18, &[0, 24, 0, 0, 0, context][..]));
    }
    // 4 GB announced: the connection ends at once, and another client is served.
    let mut greedy = connected(&socket);
    greedy.write_all(&create()).unwrap();
    answer(&mut greedy).unwrap();
    greedy.write_all(&[0xff; 16]).unwrap();
    assert_eq!(answer(&mut greedy), None);
    let asked = Instant::now();
    slow.write_all(&ping(10)).unwrap();
    assert_eq!(answer(&mut slow).unwrap()[5], 10);
    assert!(asked.elapsed() < Duration::from_secs(5));
}

/// Returns a frame with the request `cli_inband`, whose identifier is in a table of messages.
fn command(table: &[u8], lines: &str) -> Vec<u8> {
    let at = table.windows(11).position(|name| name == b"cli_inband_").unwrap();
    let mut message = table[at - 2..at].to_vec();
    message.extend([0, 0, 0, 0, 0, 0, 0, 5]);
    message.extend((lines.len() as u32).to_be_bytes());
    message.extend(lines.bytes());
    frame(&message)
}

/// Many commands in one request do not delay other clients. A request has a maximum length, and a waiting command ends when its client
/// disconnects.
#[test]
fn commands_of_a_client_disturb_nobody() {
    let Some((_r, router, [_, readers])) = served("") else { return };
    let connect = || {
        let mut stream = connected(&readers);
        stream.write_all(&create()).unwrap();
        let table = answer(&mut stream).unwrap();
        (stream, table)
    };
    let ((mut many, table), (mut other, _)) = (connect(), connect());
    many.write_all(&command(&table, &"show version\n".repeat(9000))).unwrap();
    for _ in 0..20 {
        let asked = Instant::now();
        other.write_all(&frame(&[0, 23, 0, 0, 0, 0, 0, 0, 0, 1])).unwrap();
        answer(&mut other).unwrap();
        assert!(asked.elapsed() < Duration::from_millis(500), "{:?}", asked.elapsed());
    }
    let said = answer(&mut many).unwrap();
    assert_eq!((said[5], &said[6..10]), (5, &[0; 4][..]));
    assert_eq!(said.windows(7).filter(|word| word == b"volley ").count(), 9000);
    // A message that is longer than any client needs ends the connection.
    let (mut greedy, table) = connect();
    // The router may close the connection before everything is sent.
    let _ = greedy.write_all(&command(&table, &"show version\n".repeat(100_000)));
    assert_eq!(answer(&mut greedy), None);
    // A waiting command ends with its client.
    let (mut waits, table) = connect();
    waits.write_all(&command(&table, "monitor interface local 3600")).unwrap();
    drop(waits);
    let there = || router.json("show cli-sessions").as_array().unwrap().len();
    testkit::process::until("the client has left", Duration::from_secs(5), || there() <= 3);
}

/// Returns a frame with the request `ip_route_add_del`, whose identifier is in a table of messages: adds the `n`th /24 from 20.0.0.0 on,
/// which drops all packets. Unless `valid`, the request has an unknown type of path.
fn route(table: &[u8], n: u32, valid: bool) -> Vec<u8> {
    // The checksum follows the name. In the name of the message's other version, `v2` precedes the checksum.
    let is_this = |name: &[u8]| name.starts_with(b"ip_route_add_del_") && !name.ends_with(b"v2");
    let at = table.windows(19).position(is_this).unwrap();
    let mut message = table[at - 2..at].to_vec();
    message.extend([0; 4]);
    message.extend(n.to_be_bytes());
    // Add, no multipath, VRF 0, no counters, IPv4.
    message.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    message.extend(((20 << 24) + (n << 8)).to_be_bytes());
    message.extend([0; 12]);
    // The prefix's length, and one path: no interface, table 0, no interface for reverse paths, weight 1.
    message.extend([24, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 0]);
    // Type, flags and protocol, next hop, and no labels.
    message.extend([0, 0, 0, if valid { 2 } else { 99 }]);
    message.extend([0; 8 + 28 + 1 + 16 * 7]);
    frame(&message)
}

/// A client sends many requests for routes without waiting for answers. The router answers them in order, each with its own return value,
/// and combines them into few entries of the configuration history.
#[test]
fn pipelined_routes_make_few_changes() {
    const ROUTES: u32 = 1000;
    let Some((_r, router, [socket, _])) = served("") else { return };
    let mut stream = connected(&socket);
    stream.write_all(&create()).unwrap();
    let table = answer(&mut stream).unwrap();
    let is_valid = |n: &u32| n % 10 != 3;
    let mut requests: Vec<u8> = (0..ROUTES).flat_map(|n| route(&table, n, is_valid(&n))).collect();
    // A request of another kind is answered after those before it.
    requests.extend(frame(&[0, 23, 0, 0, 0, 0, 0, 0, 0, 9]));
    requests.extend(route(&table, ROUTES, true));
    stream.write_all(&requests).unwrap();
    for n in 0..ROUTES {
        let reply = answer(&mut stream).unwrap();
        let retval = i32::from_be_bytes(reply[6..10].try_into().unwrap());
        assert_eq!((&reply[2..6], retval < 0), (&n.to_be_bytes()[..], !is_valid(&n)), "{n}: {retval}");
    }
    assert_eq!(answer(&mut stream).unwrap()[..2], [0, 24]);
    assert_eq!(answer(&mut stream).unwrap()[2..10], [ROUTES.to_be_bytes(), [0; 4]].concat());
    let there = || router.ctl("show config").matches("ip route add 20.").count();
    assert_eq!(there(), 901);
    let history = router.json("show config history");
    let all = history.as_array().or_else(|| history["changes"].as_array()).unwrap().clone();
    let by_routes = all.iter().filter(|entry| entry["command"] == "ip_route_add_del").count();
    assert!((2..200).contains(&by_routes), "{by_routes} changes");
    // A rollback undoes a whole change.
    router.ctl("config rollback");
    assert_eq!(there(), 900);
    router.ctl(&format!("config rollback {}", by_routes - 1));
    assert_eq!(there(), 0);
}

/// If a client is disconnected right after it has sent a route, the route does not become part of the next client's change.
#[test]
fn a_batch_ends_with_its_client() {
    let Some((_r, router, [socket, _])) = served("") else { return };
    let connect = || {
        let mut stream = connected(&socket);
        stream.write_all(&create()).unwrap();
        let table = answer(&mut stream).unwrap();
        (stream, table)
    };
    let (mut first, table) = connect();
    // An empty message ends the connection.
    first.write_all(&[route(&table, 1, true), frame(&[])].concat()).unwrap();
    while answer(&mut first).is_some() {}
    assert!(router.ctl("show config").contains("ip route add 20.0.1.0/24"));
    let history = || router.json("show config history");
    let number = |history: serde_json::Value| {
        let all = history.as_array().or_else(|| history["changes"].as_array()).unwrap().clone();
        all[0]["generation"].as_u64().unwrap()
    };
    let before = number(history());
    let (mut second, _) = connect();
    second.write_all(&route(&table, 2, true)).unwrap();
    assert_eq!(answer(&mut second).unwrap()[2..10], [2u32.to_be_bytes(), [0; 4]].concat());
    assert_eq!(number(history()), before + 1);
    router.ctl("config rollback");
    let config = router.ctl("show config");
    assert!(config.contains("20.0.1.0/24") && !config.contains("20.0.2.0/24"), "{config}");
}
