//! The command `ping`.

use control::cli::{Call, Role, Step};
use control::testing::Cli;
use net::feature::App;

fn cli() -> Cli {
    Cli::with(&[&ping::Feature])
}

#[test]
fn pings_of_readers_leave_room_for_others() {
    let mut cli = cli();
    let ping = |cli: &mut Cli, role| {
        cli.registry.run(&mut cli.context, "ping 10.0.0.2", Call { role, ..Call::default() })
    };
    let mut jobs: Vec<_> = (0..16).map(|_| ping(&mut cli, Role::Viewer).unwrap().job).collect();
    assert!(ping(&mut cli, Role::Viewer).err().unwrap().to_string().contains("16 active pings"));
    jobs.push(ping(&mut cli, Role::Admin).unwrap().job);
    // A ping that has ended makes room for another.
    jobs.swap_remove(0);
    assert!(ping(&mut cli, Role::Viewer).is_ok());
}

#[test]
fn ping_with_json_prints_one_object() {
    let mut cli = cli();
    let call = Call { json: true, ..Call::default() };
    let line = "ping 10.0.0.1 repeat 2 interval 0";
    let answer = cli.registry.run(&mut cli.context, line, call).unwrap();
    let (mut text, mut job) = (answer.text, answer.job.unwrap());
    loop {
        let now = cli.context.now();
        cli.context.router_mut().poll(now);
        match job.step(&mut cli.context, &mut text) {
            Step::Again | Step::After(_) | Step::Data { .. } => {}
            Step::Done | Step::Failed(_) => break,
        }
    }
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&all["destination"], &all["sent"]), (&"10.0.0.1".into(), &2.into()), "{text}");
    assert_eq!(
        all["replies"].as_array().map(Vec::len),
        all["received"].as_u64().map(|n| n as usize),
        "{text}"
    );
    assert_eq!(all["loss_percent"].as_f64(), all["received"].as_f64().map(|n| 100.0 - 50.0 * n), "{text}");
}

#[test]
fn ping_sends_at_most_65535_requests() {
    let mut cli = cli();
    let message = cli.refused("ping 10.0.0.2 repeat 0", "0");
    assert!(message.contains("the number of requests must be 1 to 65535"), "{message}");
    cli.refused("ping 10.0.0.2 repeat 65536", "65536");
}

#[test]
fn ping_without_a_reply_fails() {
    let mut cli = cli();
    cli.ok("set ip neighbor pg0 10.0.0.2 02:00:00:00:00:02");
    let error = cli.run("ping 10.0.0.2 repeat 1 interval 0").unwrap_err();
    assert!(error.to_string().contains("no answer from 10.0.0.2"), "{error}");
}

#[test]
fn an_unknown_table_is_marked() {
    let mut cli = cli();
    for table in ["9", "65536", "4294967296"] {
        cli.refused(&format!("ping 10.0.0.2 table-id {table}"), table);
    }
}

#[test]
fn without_this_feature_there_is_no_ping() {
    let mut cli = Cli::with(&[]);
    assert!(cli.run("ping 10.0.0.2").is_err());
}
