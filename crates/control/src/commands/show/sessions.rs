//! The connected clients of the command line and of the APIs.

use model::visible::visible;
use serde::Serialize;

use crate::app::{Context, Output};
use crate::cli::{Connected, Entrance, Registry, Role, Table};
use crate::intent::HIDDEN;

/// Declares the command.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "show cli-sessions",
        "Show the connected clients of the CLI and the APIs: socket, role, user and process or address, since when, and the command that \
         runs now with its duration. Only admins see the commands of admins.",
        |c, a| Ok(sessions(c, !a.call().role.is_admin())),
    );
}

#[derive(Serialize)]
struct Session {
    id: u64,
    kind: Entrance,
    role: Role,
    user: Option<String>,
    uid: Option<u32>,
    pid: Option<i32>,
    address: Option<String>,
    since: String,
    age_seconds: f64,
    /// The command that runs or waits for its turn.
    command: Option<String>,
    running_seconds: Option<f64>,
}

impl Session {
    fn of(id: u64, one: Connected, hides: bool) -> Session {
        let Connected { client, since, begun, running } = one;
        let (line, began) = running.unzip();
        // Commands of admins may have secrets.
        let command =
            line.map(|line| if hides && client.role.is_admin() { HIDDEN } else { &line }.to_string());
        Session {
            id,
            kind: client.entrance,
            role: client.role,
            user: client.peer.name().map(str::to_string),
            uid: client.peer.uid(),
            pid: client.pid,
            address: client.peer.address().map(|address| address.to_string()),
            since: humantime::format_rfc3339_seconds(since).to_string(),
            age_seconds: begun.elapsed().as_secs_f64(),
            command,
            running_seconds: began.map(|began| began.elapsed().as_secs_f64()),
        }
    }

    fn row(&self) -> Vec<String> {
        let or = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        let uid = self.uid.map(|uid| format!("uid {uid}"));
        let who = match (&self.user, &self.address) {
            // A name in a certificate must not look like a user of this machine.
            (Some(name), Some(address)) => Some(format!("{name} at {address}")),
            (user, address) => user.clone().or(uid).or_else(|| address.clone()),
        };
        // A client may send line feeds and other characters that break the table.
        let command = self.command.as_deref().map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            visible(&words.join(" ")).into_owned()
        });
        vec![
            self.id.to_string(),
            self.kind.name().into(),
            self.role.name().into(),
            or(who),
            or(self.pid.map(|pid| pid.to_string())),
            self.since.clone(),
            or(self.running_seconds.map(|seconds| format!("{seconds:.1} s"))),
            or(command),
        ]
    }
}

fn sessions(c: &Context, hides: bool) -> Output {
    let all = c.sessions.connected().into_iter();
    let all: Vec<Session> = all.map(|(id, one)| Session::of(id, one, hides)).collect();
    let mut table = Table::new(&["ID", "Socket", "Role", "Client", "PID", "Since", "Runs for", "Command"]);
    all.iter().for_each(|one| table.row(one.row()));
    Output::show(&all, table.to_string())
}

#[cfg(test)]
mod tests {
    use model::origin::Peer;

    use std::time::{Duration, Instant, SystemTime};

    use super::*;
    use crate::cli::Client;
    use crate::testing::Cli;

    fn connected(peer: Peer, role: Role, line: &str) -> Connected {
        let entrance = if peer.uid().is_some() { Entrance::Root } else { Entrance::Tcp };
        Connected {
            client: Client { entrance, role, peer, pid: None },
            since: SystemTime::UNIX_EPOCH,
            begun: Instant::now(),
            running: Some((line.into(), Instant::now() - Duration::from_secs(2))),
        }
    }

    #[test]
    fn sessions_show_user_or_address_and_the_command() {
        let user = || connected(Peer::user(0, Some("root".into())), Role::Admin, "ping\n \x1b[2J 10.0.0.1");
        let row = Session::of(3, user(), false).row();
        let since = "1970-01-01T00:00:00Z";
        let expected = ["3", "root", "admin", "root", "-", since, "2.0 s", "ping \\u001b[2J 10.0.0.1"];
        assert_eq!(row, expected);
        let row = Session::of(3, user(), true).row();
        assert_eq!(row.last().map(String::as_str), Some(HIDDEN));
        let tcp = connected(Peer::Address("[::1]:7".parse().unwrap()), Role::Viewer, "show count");
        let session = Session::of(4, tcp, true);
        assert_eq!(session.address.as_deref(), Some("[::1]:7"));
        assert_eq!(
            (&session.row()[1..4], session.row()[7].as_str()),
            (&["tcp", "viewer", "[::1]:7"].map(String::from)[..], "show count")
        );
    }

    #[test]
    fn router_without_clients_shows_none() {
        let mut cli = Cli::new();
        assert_eq!(cli.json("show cli-sessions"), serde_json::json!([]));
        assert!(cli.ok("show cli-sessions").starts_with("ID"));
    }
}
