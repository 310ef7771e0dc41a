//! Tests of the commands of captures.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use control::app::{Context, Feature};
use control::cli::{Call, Job, Role, Step};
use control::features;
use control::testing::{self, Cli};
use net::router::Sizes;

const FEATURES: &[&Feature] = &[&captures::Feature];

fn cli() -> Cli {
    Cli::with(FEATURES)
}

#[test]
fn a_capture_includes_interfaces_created_later() {
    let mut cli = cli();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x.pcap").display().to_string();
    let on = |cli: &mut Cli, name: &str| {
        let shown = cli.ok(&format!("show interface features {name} --json"));
        ["pcap-rx", "pcap-drop"].map(|feature| {
            let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
            let arcs = shown.as_array().unwrap();
            arcs.iter()
                .flat_map(|arc| arc["features"].as_array().unwrap())
                .any(|f| f["name"] == feature && f["enabled"] == true)
        })
    };
    for (scope, everywhere) in [("any", true), ("pg0", false)] {
        cli.ok(&format!("pcap trace rx intfc {scope} file {file}"));
        cli.ok("create sub-interfaces pg0 7");
        cli.ok("create packet-generator interface pg7");
        assert_eq!(on(&mut cli, "pg0.7"), [true, false], "{scope}");
        assert_eq!(on(&mut cli, "pg7"), [everywhere, false], "{scope}");
        // A sub-interface is removed and added again, perhaps with the same index.
        cli.ok("delete sub-interface pg0.7");
        cli.ok("create sub-interfaces pg0 7");
        assert_eq!(on(&mut cli, "pg0.7"), [true, false], "{scope}");
        cli.ok("pcap trace off");
        for name in ["pg0", "pg0.7", "pg7"] {
            assert_eq!(on(&mut cli, name), [false, false], "{scope} {name}");
        }
        cli.ok("delete sub-interface pg0.7");
        cli.ok("delete packet-generator interface pg7");
    }
}

#[test]
fn captures_stream_to_binary_clients_and_yield_to_full_ones() {
    let mut cli = cli();
    let ask = |cli: &mut Cli, call: Call| cli.registry.run(&mut cli.context, "capture rx", call);
    assert!(ask(&mut cli, Call::default()).err().unwrap().render().contains("volley capture"));
    assert!(cli.ok("pcap trace status").contains("no capture runs"));
    // A read-only client has a capture until a full client wants one.
    let reader = || Call { binary: true, role: Role::Viewer, ..Call::default() };
    let mut first = ask(&mut cli, reader()).unwrap().job.unwrap();
    assert!(ask(&mut cli, reader()).err().unwrap().render().contains("a capture is already running"));
    let mut second = ask(&mut cli, Call { binary: true, ..Call::default() }).unwrap().job.unwrap();
    let told = |job: &mut Box<dyn Job<Context>>, cli: &mut Cli| match job
        .step(&mut cli.context, &mut String::new())
    {
        Step::Data { told, .. } => told,
        other => panic!("{other:?}"),
    };
    assert!(told(&mut first, &mut cli).ends_with("; ended by another command"));
    assert!(!told(&mut second, &mut cli).contains("ended"));
    assert!(ask(&mut cli, reader()).err().unwrap().render().contains("a capture is already running"));
}

#[test]
fn limits_of_a_capture_are_checked() {
    let mut cli = cli();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x.pcap").display().to_string();
    let line = |bounds: &str| format!("pcap trace rx {bounds} max-bytes-per-pkt 90 file {file}");
    assert!(cli.refused(&line("max-file-bytes 129"), "129").contains("needs 130 bytes"));
    cli.refused(&line("leave-free 100"), "100");
    for (bounds, said) in [
        ("", "100 packets"),
        ("max-file-bytes 130", "130 bytes"),
        ("max 7 max-file-bytes 5000000000 leave-free 0", "7 packets or 5000000000 bytes"),
    ] {
        assert_eq!(cli.ok(&line(bounds)), format!("capturing {said} into {file}\n"));
        cli.ok("pcap trace off");
    }
}

#[test]
fn only_ordinary_files_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, link) = (folder.path().join("pipe"), folder.path().join("link"));
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink(&pipe, &link).unwrap();
    let mut cli = cli();
    for file in [&pipe, &link] {
        let file = file.display().to_string();
        let told = cli.refused(&format!("pcap trace rx file {file}"), &file);
        assert!(told.contains("cannot be written: it is not an ordinary file"), "{told}");
    }
    let kind = |path: &Path| path.symlink_metadata().unwrap().file_type();
    assert!(kind(&pipe).is_fifo() && kind(&link).is_symlink());
}

#[test]
fn the_main_thread_runs_often_while_a_capture_is_written() {
    let mut cli = cli();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x.pcap").display().to_string();
    let waits = |cli: &mut Cli| {
        let router = &mut cli.context.system.router;
        router.poll(1_000_000);
        router.next_timeout().is_some_and(|at| at <= 1_500_000)
    };
    assert!(!waits(&mut cli));
    cli.ok(&format!("pcap trace rx file {file}"));
    assert!(waits(&mut cli));
    cli.ok("pcap trace off");
    assert!(!waits(&mut cli));
}

#[test]
fn a_stopping_router_completes_the_file() {
    let system = testing::system(FEATURES, &Sizes { buffers: 2048, workers: 1 }, true);
    let mut cli = Cli { registry: Rc::new(features::declared(FEATURES).0), context: Context::new(system) };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.pcap");
    cli.ok("create packet-generator interface pg0");
    cli.ok("set interface state pg0 up");
    cli.ok(&format!("pcap trace rx max 1000 file {}", path.display()));
    cli.ok(
        "packet-generator new { name x limit 300 rate 100000 size 100-100 interface pg0 node ethernet-input \
         data { IP4: 02:00:00:00:00:01 -> 02:fe:00:00:00:00 UDP: 10.0.0.2 -> 192.0.2.1 UDP: 1 -> 2 } }",
    );
    cli.ok("packet-generator enable-stream x");
    let end = Instant::now() + Duration::from_secs(10);
    // The drops are counted behind the copying feature, so all packets are copied when the loop ends.
    while cli.context.system.router.graph().stats().drops_total(1) < 300 {
        assert!(Instant::now() < end, "all packets come");
        sleep(Duration::from_millis(1));
    }
    // The main thread has taken no copy yet.
    assert_eq!(cli.json("pcap trace status")["packets"], 0);
    drop(cli);
    assert_eq!(std::fs::metadata(path).unwrap().len(), 24 + 300 * (16 + 100));
}
