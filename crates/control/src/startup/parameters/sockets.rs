//! The sections for programs: the APIs and the statistics segment.

use super::Parameter;
use crate::cli::Role;
use crate::startup::value::Cursor;
use crate::startup::{Startup, VPPS_SOCKET, VPPS_STATISTICS, statistics};
use model::place::Fault;

pub(super) const SOCKSVR: &[Parameter] = &[
    Parameter::sets("socket-name", "<path>", |s, c| {
        let path = c.path()?;
        // The word `default` stands for the path that is the default of VPP.
        let path = if path.as_os_str() == "default" { VPPS_SOCKET.into() } else { path };
        s.api.sockets.insert(Role::Admin, path);
        s.api.asked = true;
        Ok(())
    })
    .default("api.sock if the CLI's socket is in runtime-dir, otherwise none")
    .help(
        "The UNIX socket of the [binary API](binary-api.md), for programs that use VPP's API, such as vpp_papi. A relative path is \
         in `runtime-dir`.",
    ),
    Parameter::sets("default", "", |s, _| {
        s.api.sockets.insert(Role::Admin, VPPS_SOCKET.into());
        s.api.asked = true;
        Ok(())
    })
    .help("Listen at `/run/vpp/api.sock`, which VPP's clients try first."),
    Parameter::sets("socket-name-read-only", "<path>", |s, c| {
        s.api.sockets.insert(Role::Viewer, c.path()?);
        Ok(())
    })
    .default("none")
    .help("A second socket of the API, which refuses requests that may change something. A relative path is in `runtime-dir`."),
    Parameter::sets("socket-name-operator", "<path>", |s, c| {
        s.api.sockets.insert(Role::Operator, c.path()?);
        Ok(())
    })
    .default("none")
    .help("Another socket of the API, which refuses requests that may change the configuration. A relative path is in `runtime-dir`."),
];

pub(super) const API_TRACE: &[Parameter] = &[
    Parameter::sets("on | enable", "", |s, _| {
        s.api.is_recorded = true;
        Ok(())
    })
    .help("Record the messages received from clients of the binary API from the start, like the command `api trace on`."),
    Parameter::ignored("nitems", "<n>", |_, c| c.number(0..=u32::MAX as usize).map(|_| ()))
        .help("The last 16 MiB of messages are kept."),
    Parameter::ignored("save-api-table", "<file>", |_, c| c.path().map(|_| ()))
        .help("`get_api_json` and [the binary API](binary-api.md) have all messages."),
];

pub(super) const NATIVE_API: &[Parameter] = &[
    Parameter::sets("socket-name", "<path>", |s, c| {
        s.native.sockets.insert(Role::Admin, c.path()?);
        Ok(())
    })
    .key("native-api socket-name")
    .default("none")
    .help("The UNIX socket of the [native API](native-api.md), JSON over HTTP and gRPC. A relative path is in `runtime-dir`."),
    Parameter::sets("socket-name-read-only", "<path>", |s, c| {
        s.native.sockets.insert(Role::Viewer, c.path()?);
        Ok(())
    })
    .key("native-api socket-name-read-only")
    .default("none")
    .help("A second socket of the native API, which refuses requests that may change something. A relative path is in `runtime-dir`."),
    Parameter::sets("socket-name-operator", "<path>", |s, c| {
        s.native.sockets.insert(Role::Operator, c.path()?);
        Ok(())
    })
    .key("native-api socket-name-operator")
    .default("none")
    .help("Another socket of the native API, which refuses requests that may change the configuration. A relative path is in `runtime-dir`."),
    Parameter::sets("listen", "<address:port>", |s, c| {
        s.native.tls.listen = Some(c.address()?);
        Ok(())
    })
    .key("native-api listen")
    .default("none")
    .help(
        "A TCP port of the native API, with TLS 1.2 or 1.3. It needs `certificate`, `private-key`, and at least one of \
         `client-ca`, `client-ca-operator` and `client-ca-read-only`. Each client must show a certificate issued by one of these CAs.",
    ),
    Parameter::sets("certificate", "<file>", |s, c| {
        s.native.tls.certificate = Some(c.path()?);
        Ok(())
    })
    .default("none")
    .help("The router's certificate for `listen` (PEM), followed by the intermediate CA certificates that clients need."),
    Parameter::sets("private-key", "<file>", |s, c| {
        s.native.tls.key = Some(c.path()?);
        Ok(())
    })
    .default("none")
    .help("The key of `certificate` (PEM)."),
    Parameter::sets("client-ca", "<file>", |s, c| {
        s.native.tls.authorities.insert(Role::Admin, c.path()?);
        Ok(())
    })
    .default("none")
    .help("A file with CA certificates (PEM). Clients with certificates issued by these CAs may do everything."),
    Parameter::sets("client-ca-operator", "<file>", |s, c| {
        s.native.tls.authorities.insert(Role::Operator, c.path()?);
        Ok(())
    })
    .default("none")
    .help("A file with CA certificates (PEM). Clients with certificates issued by these CAs have the rights of operators."),
    Parameter::sets("client-ca-read-only", "<file>", |s, c| {
        s.native.tls.authorities.insert(Role::Viewer, c.path()?);
        Ok(())
    })
    .default("none")
    .help("A file with CA certificates (PEM). Clients with certificates issued by these CAs may only read."),
];

pub(super) const STATSEG: &[Parameter] = &[
    Parameter::sets("socket-name", "<path>", |s, c| {
        let path = c.path()?;
        s.statistics.socket = Some(if path.as_os_str() == "default" { VPPS_STATISTICS.into() } else { path });
        s.statistics.asked = true;
        Ok(())
    })
    .key("statseg socket-name")
    .default("stats.sock if the CLI's socket is in runtime-dir, otherwise none")
    .help(
        "The UNIX socket of the [statistics segment](statistics-segment.md), for programs that read VPP's segment. A relative path is in \
         `runtime-dir`.",
    ),
    Parameter::sets("default", "", |s, _| {
        s.statistics.socket = Some(VPPS_STATISTICS.into());
        s.statistics.asked = true;
        Ok(())
    })
    .key("statseg default")
    .help("Listen at `/run/vpp/stats.sock`, which programs for VPP's segment try first."),
    Parameter::sets("size", "<size>", |s, c| {
        let size = c.size()?;
        s.statistics.size = size.clamp(statistics::LEAST, statistics::MOST);
        s.statistics.asked = true;
        Ok(())
    })
    .key("statseg size")
    .default("64M")
    .help("Size of the segment, 1M to 1G. Only the used part takes memory. 10,000 interfaces need 64M."),
    Parameter::ignored("page-size", "<size>", |_, c| c.size().map(|_| ()))
        .key("statseg page-size")
        .help("The segment has ordinary pages."),
    Parameter::sets("per-node-counters", "on | off", |s, c| {
        // VPP's own test suite leaves out the blank before the next parameter, and VPP accepts that.
        if c.starts_with("onupdate-interval") {
            c.take();
            s.statistics.per_node = true;
            return read_interval(s, c);
        }
        s.statistics.per_node = c.choice(&["on", "off"])? == "on";
        s.statistics.asked = true;
        Ok(())
    })
    .default("off")
    .help("Add a separate entry for each counter of each node, such as `/nodes/ip4-lookup/clocks`."),
    Parameter::sets("update-interval", "<seconds>", read_interval)
    .default("1")
    .help("Time between two updates of all counters, 0.01 to 3600 s."),
];

fn read_interval(s: &mut Startup, c: &mut Cursor<'_>) -> Result<(), Fault> {
    s.statistics.asked = true;
    s.statistics.interval = c.seconds(statistics::SHORTEST..=statistics::LONGEST)?;
    Ok(())
}
