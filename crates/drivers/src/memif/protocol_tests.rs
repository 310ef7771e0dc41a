//! Tests of both sides of the protocol, against each other and against arbitrary events, on virtual time.

use proptest::prelude::*;

use super::client::{self, Client, Wish};
use super::message::{AddRing, Direction, Hello, Init, Message, SECRET_LEN, VERSION};
use super::server::{self, Listed, Server};
use super::{Layout, MAX_LOG2_RING, SECOND};

const LAYOUT: Layout = Layout { to_server: 2, to_client: 1, log2_ring: 8, buffer_size: 2048 };

fn secret(text: &str) -> [u8; SECRET_LEN] {
    let mut all = [0; SECRET_LEN];
    all[..text.len()].copy_from_slice(text.as_bytes());
    all
}

fn client() -> Client {
    Client::new(Wish { id: 3, secret: Some(secret("sesame")), name: "memif0/3".into(), layout: LAYOUT })
}

fn listed() -> Listed {
    Listed {
        up: true,
        barred: false,
        taken: false,
        secret: Some(secret("sesame")),
        trusted: false,
        name: "memif0/3".into(),
    }
}

fn only(id: u32) -> Option<Listed> {
    (id == 3).then(listed)
}

/// Passes messages between client and server until none are left. Returns the other actions of both, in order.
fn converse(c: &mut Client, s: &mut Server<()>, mut to_client: Vec<server::Action<()>>) -> Vec<String> {
    let mut log = Vec::new();
    let mut to_server: Vec<client::Action> = Vec::new();
    loop {
        let mut heard = Vec::new();
        for action in to_client.drain(..) {
            match action {
                server::Action::Send(m) => heard.push(m),
                server::Action::Claim(id) => log.push(format!("claim {id}")),
                server::Action::Attach(p) => log.push(format!(
                    "server attaches {} regions, {} + {} rings of {} {}",
                    p.regions.len(),
                    p.to_server.len(),
                    p.to_client.len(),
                    p.peer,
                    p.peer_interface
                )),
                server::Action::Close(why) => log.push(format!("server closes: {why}")),
            }
        }
        for m in heard {
            to_server.extend(c.handle(0, client::Event::Message(Ok(m))));
        }
        if to_server.is_empty() {
            return log;
        }
        let mut waiting = std::mem::take(&mut to_server);
        while !waiting.is_empty() {
            match waiting.remove(0) {
                client::Action::Make(layout) => {
                    log.push(format!("client makes {} + {} rings", layout.to_server, layout.to_client));
                    let made = c.handle(0, client::Event::Made(vec![layout.len() as u64]));
                    waiting.splice(0..0, made);
                }
                client::Action::Send(m) => {
                    let file = matches!(m, Message::AddRegion { .. } | Message::AddRing(_)).then_some(());
                    to_client.extend(s.handle(server::Event::Message(Ok(m), file), only));
                }
                client::Action::Attach(peer, interface) => {
                    log.push(format!("client attaches to {peer} {interface}"))
                }
                client::Action::Close(why) => log.push(format!("client closes: {why}")),
                client::Action::Connect => log.push("client connects".into()),
            }
        }
    }
}

#[test]
fn a_client_and_a_server_agree() {
    let mut c = client();
    assert_eq!(c.handle(0, client::Event::Admin(true)), [client::Action::Connect]);
    let (mut s, hello) = Server::new(0);
    let name = super::NAME;
    assert_eq!(
        converse(&mut c, &mut s, hello),
        [
            "client makes 2 + 1 rings".to_string(),
            "claim 3".into(),
            format!("server attaches 1 regions, 2 + 1 rings of {name} memif0/3"),
            format!("client attaches to {name} memif0/3"),
        ]
    );
    assert_eq!((c.poll_timeout(), s.poll_timeout()), (None, None), "no timeout is left");

    // The client's operator ends the connection: the server gets the reason.
    let goodbye = c.handle(0, client::Event::Admin(false));
    let [client::Action::Send(m), client::Action::Close(_)] = &goodbye[..] else { panic!("{goodbye:?}") };
    let heard = s.handle(server::Event::Message(Ok(m.clone()), None), only);
    let why = "the client disconnected: the interface is set down";
    assert_eq!(heard, [server::Action::Close(why.into())]);
    assert_eq!(c.poll_timeout(), None);
}

/// Returns the reason that a server gives when it refuses this request for an interface in state `listed`.
fn refusal(init: Init, listed: Option<Listed>) -> String {
    let (mut s, _) = Server::<()>::new(0);
    let actions = s.handle(server::Event::Message(Ok(Message::Init(init)), None), |_| listed.clone());
    let [server::Action::Send(Message::Disconnect { reason, .. }), server::Action::Close(why)] = &actions[..]
    else {
        panic!("{actions:?}");
    };
    assert_eq!(reason, why, "the client gets the reason in the log");
    why.clone()
}

#[test]
fn a_refused_client_gets_the_reason() {
    let init = Init { version: VERSION, id: 3, mode: 0, secret: secret("sesame"), name: "x".into() };
    let other = |f: fn(&mut Init)| {
        let mut init = init.clone();
        f(&mut init);
        refusal(init, Some(listed()))
    };
    assert_eq!(
        other(|i| i.version = 0x0301),
        "the client uses protocol version 3.1, but this router uses 2.0"
    );
    assert_eq!(other(|i| i.secret[0] = b'S'), "the secret for interface id 3 is wrong");
    assert_eq!(other(|i| i.secret = [0; SECRET_LEN]), "the secret for interface id 3 is wrong");
    assert_eq!(other(|i| i.mode = 1), "interface id 3 uses Ethernet mode, not mode 1");
    assert_eq!(refusal(init.clone(), None), "no server interface has id 3");
    let taken = Listed { taken: true, ..listed() };
    assert_eq!(refusal(init.clone(), Some(taken)), "interface id 3 is already connected");
    let barred = Listed { barred: true, ..listed() };
    let why = "interface id 3 is blocked for some seconds after a fault of its last client";
    assert_eq!(refusal(init.clone(), Some(barred)), why);
    assert_eq!(refusal(init, Some(Listed { up: false, ..listed() })), "interface id 3 is set down");
}

#[test]
fn a_server_of_another_version_is_refused() {
    let mut c = client();
    c.handle(0, client::Event::Admin(true));
    let (_, hello) = Server::<()>::new(0);
    let Some(server::Action::Send(Message::Hello(hello))) = hello.into_iter().next() else { panic!() };
    let hello = Hello { min_version: 0x0201, max_version: 0x0300, ..hello };
    let actions = c.handle(0, client::Event::Message(Ok(Message::Hello(hello))));
    let why = "the server supports protocol versions 2.1 to 3.0, but this router supports only 2.0";
    assert_eq!(actions.last(), Some(&client::Action::Close(why.into())));
}

#[test]
fn a_client_uses_at_most_the_rings_of_the_server() {
    let mut c = client();
    c.handle(0, client::Event::Admin(true));
    let hello = Hello {
        name: "small".into(),
        min_version: VERSION,
        max_version: VERSION,
        max_region: 0,
        max_to_client: 0,
        max_to_server: 0,
        max_log2_ring_size: 4,
    };
    let actions = c.handle(0, client::Event::Message(Ok(Message::Hello(hello))));
    let layout = Layout { to_server: 1, to_client: 1, log2_ring: 4, buffer_size: 2048 };
    assert_eq!(actions, [client::Action::Make(layout)]);
}

/// Returns a client that has received HELLO and has created its memory. Also returns the client's next actions.
fn offering() -> (Client, Vec<client::Action>) {
    let mut c = client();
    c.handle(0, client::Event::Admin(true));
    let (_, hello) = Server::<()>::new(0);
    let Some(server::Action::Send(hello)) = hello.into_iter().next() else { panic!() };
    assert_eq!(c.handle(0, client::Event::Message(Ok(hello))), [client::Action::Make(LAYOUT)]);
    let sent = c.handle(0, client::Event::Made(vec![LAYOUT.len() as u64]));
    (c, sent)
}

fn kinds(actions: &[client::Action]) -> Vec<&'static str> {
    let kind = |a: &client::Action| match a {
        client::Action::Send(m) => m.kind(),
        client::Action::Close(_) => "close",
        other => panic!("{other:?}"),
    };
    actions.iter().map(kind).collect()
}

/// The client sends each message only after the acknowledgement of the one before. VPP 26.06 needs this: it reads only one message each
/// time a message arrives.
#[test]
fn a_client_waits_for_each_acknowledgement() {
    let (mut c, mut sent) = offering();
    let mut all: Vec<&str> = Vec::new();
    let mut now = 0;
    loop {
        let kinds = kinds(&sent);
        assert_eq!(kinds.len(), 1, "one message at a time: {kinds:?}");
        all.extend(&kinds);
        if kinds == ["CONNECT"] {
            break;
        }
        // Each step has its own time limit, so a slow server succeeds too.
        now += SECOND / 5;
        assert!(c.poll_timeout().is_some_and(|at| at > now));
        sent = c.handle(now, client::Event::Message(Ok(Message::Ack)));
    }
    assert_eq!(all, ["INIT", "ADD_REGION", "ADD_RING", "ADD_RING", "ADD_RING", "CONNECT"]);
    let up = c.handle(now, client::Event::Message(Ok(Message::Connected("x".into()))));
    assert!(matches!(up[..], [client::Action::Attach(..)]), "{up:?}");
}

#[test]
fn a_client_sends_all_after_a_wait_without_acknowledgements() {
    let (mut c, sent) = offering();
    assert_eq!(kinds(&sent), ["INIT"]);
    let at = c.poll_timeout().unwrap();
    assert_eq!(at, SECOND / 4);
    assert_eq!(c.timeout(at - 1), []);
    assert_eq!(kinds(&c.timeout(at)), ["ADD_REGION", "ADD_RING", "ADD_RING", "ADD_RING", "CONNECT"]);
    assert_eq!(c.poll_timeout(), Some(5 * SECOND), "then it waits for the answer only");
    // The server was only slow: its late acknowledgements are ignored.
    assert_eq!(c.handle(at + 1, client::Event::Message(Ok(Message::Ack))), []);
    let up = c.handle(at + 2, client::Event::Message(Ok(Message::Connected("x".into()))));
    assert!(matches!(up[..], [client::Action::Attach(..)]), "{up:?}");
}

#[test]
fn a_servers_refusal_is_reported_as_the_reason() {
    let (mut c, _) = offering();
    let refusal = Message::Disconnect { code: 0, reason: "Incorrect secret".into() };
    let actions = c.handle(1, client::Event::Message(Ok(refusal)));
    assert_eq!(
        actions,
        [client::Action::Close("the server refused or disconnected: Incorrect secret".into())]
    );
    // CONNECTED before the offer is complete is an error.
    let (mut c, _) = offering();
    let early = c.handle(1, client::Event::Message(Ok(Message::Connected("x".into()))));
    assert_eq!(kinds(&early), ["DISCONNECT", "close"]);
}

#[test]
fn a_client_retries_after_a_second_and_ends_silent_connections() {
    let mut c = client();
    c.handle(0, client::Event::Admin(true));
    assert_eq!(
        c.handle(10, client::Event::Closed("nobody".into())),
        [client::Action::Close("nobody".into())]
    );
    assert_eq!(c.poll_timeout(), Some(10 + SECOND));
    assert_eq!(c.timeout(9 + SECOND), []);
    assert_eq!(c.timeout(10 + SECOND), [client::Action::Connect]);
    // The server accepts the connection, but sends nothing.
    let due = c.poll_timeout().unwrap();
    assert_eq!(due, 10 + 6 * SECOND);
    let why = "the server did not answer in time";
    assert_eq!(c.timeout(due).last(), Some(&client::Action::Close(why.into())));
    assert_eq!(c.poll_timeout(), Some(due + SECOND));
}

#[test]
fn a_silent_client_is_disconnected() {
    let (mut s, _) = Server::<()>::new(7);
    assert_eq!(s.timeout(6 + 5 * SECOND), []);
    let actions = s.timeout(7 + 5 * SECOND);
    let why = "the client did not complete the connection in time";
    assert_eq!(actions.last(), Some(&server::Action::Close(why.into())));
    assert_eq!(s.poll_timeout(), None);
}

fn message() -> impl Strategy<Value = Message> {
    // Small numbers, so that many messages are valid and the protocol advances.
    let small = 0u16..3;
    prop_oneof![
        Just(Message::Ack),
        (0x01ffu16..0x0203, 0u16..300, 0u8..20).prop_map(|(v, n, log2)| Message::Hello(Hello {
            name: "h".into(),
            min_version: v,
            max_version: VERSION,
            max_region: n,
            max_to_client: n,
            max_to_server: u16::MAX - n,
            max_log2_ring_size: log2,
        })),
        (0x01ffu16..0x0202, 2u32..5, 0u8..2, any::<bool>()).prop_map(|(version, id, mode, knows)| {
            let secret = secret(if knows { "sesame" } else { "guess" });
            Message::Init(Init { version, id, mode, secret, name: "i".into() })
        }),
        (small.clone(), any::<u64>()).prop_map(|(index, size)| Message::AddRegion { index, size }),
        (any::<bool>(), small.clone(), small, 0u8..16, 0u16..2).prop_map(
            |(to_server, index, region, log2_size, private_header)| {
                let direction = if to_server { Direction::ToServer } else { Direction::ToClient };
                Message::AddRing(AddRing { direction, index, region, offset: 0, log2_size, private_header })
            }
        ),
        Just(Message::Connect("c".into())),
        Just(Message::Connected("d".into())),
        Just(Message::Disconnect { code: 1, reason: "r".into() }),
    ]
}

proptest! {
    #[test]
    fn a_server_survives_any_messages(
        first in any::<bool>(),
        said in proptest::collection::vec((message(), any::<bool>(), 0u16..20), 0..40),
    ) {
        let (mut s, _) = Server::<()>::new(0);
        let (mut claimed, mut closed) = (false, false);
        let init = Init { version: VERSION, id: 3, mode: 0, secret: secret("sesame"), name: "i".into() };
        let opening = first.then_some((Message::Init(init), false, 20));
        for (m, file, kind) in opening.into_iter().chain(said) {
            let m = if kind == 0 { Err(99) } else { Ok(m) };
            for action in s.handle(server::Event::Message(m, file.then_some(())), only) {
                prop_assert!(!closed, "nothing happens after the end");
                match action {
                    server::Action::Claim(id) => {
                        prop_assert!(!claimed && id == 3);
                        claimed = true;
                    }
                    server::Action::Attach(p) => {
                        prop_assert!(claimed);
                        let rings: Vec<_> = p.to_server.iter().chain(&p.to_client).collect();
                        prop_assert!(!rings.is_empty());
                        for r in rings {
                            prop_assert!(usize::from(r.region) < p.regions.len());
                            prop_assert!(r.log2_size <= MAX_LOG2_RING);
                        }
                    }
                    server::Action::Close(why) => {
                        prop_assert!(!why.is_empty());
                        closed = true;
                    }
                    server::Action::Send(_) => {}
                }
            }
        }
        prop_assert!(!closed || s.poll_timeout().is_none());
    }

    #[test]
    fn a_client_survives_any_messages(
        said in proptest::collection::vec((message(), 0u16..20), 0..40),
    ) {
        let mut c = client();
        let mut connected = !c.handle(0, client::Event::Admin(true)).is_empty();
        let mut now = 0;
        for (m, kind) in said {
            now += SECOND / 4;
            let m = if kind == 0 { Err(99) } else { Ok(m) };
            let mut actions = c.handle(now, client::Event::Message(m));
            actions.extend(c.timeout(now));
            while !actions.is_empty() {
                match actions.remove(0) {
                    client::Action::Connect => {
                        prop_assert!(!connected);
                        connected = true;
                    }
                    client::Action::Make(layout) => {
                        prop_assert!(connected && layout.to_server <= 2 && layout.log2_ring <= 8);
                        let made = c.handle(now, client::Event::Made(vec![1]));
                        actions.splice(0..0, made);
                    }
                    client::Action::Close(_) => {
                        prop_assert!(connected);
                        connected = false;
                    }
                    client::Action::Send(_) | client::Action::Attach(..) => prop_assert!(connected),
                }
            }
            prop_assert!(connected || c.poll_timeout().is_some(), "the client retries");
        }
    }
}
