//! The calls, except those of [`load`] and [`stats`].

use std::rc::Rc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, Response};
use tonic::Status;

use super::v1::{self, Call};
use super::{LONGEST as LONGEST_MESSAGE, LONGEST_SHORT, Replies, Requests, load, serve, stats};
use crate::native::body::{Body, Cut};
use crate::native::client::Client;
use crate::native::commands::{Ran, Shown, run_all};
use crate::native::document::{self, Changed, LONGEST, LONGEST_PATCH, Reader};
use crate::native::packets::{Captured, Traced, Wanted, traced};
use crate::native::patch::Form;
use crate::native::problem::Problem;
use crate::native::upload::Gathered;
use crate::native::watch::{Event, Watcher};

/// Runs a call, and answers it.
pub(super) async fn run(client: &Rc<Client>, call: Call, request: Request<Incoming>) -> Response<Body> {
    client.shows(&line(request.uri().path().rsplit('/').next().unwrap_or_default()));
    match call {
        Call::About => serve(client, request, LONGEST_SHORT, about).await,
        Call::Get => serve(client, request, LONGEST_SHORT, get).await,
        Call::Apply => serve(client, request, LONGEST_MESSAGE, apply).await,
        Call::Confirm => serve(client, request, LONGEST_SHORT, confirm).await,
        Call::Rollback => serve(client, request, LONGEST_SHORT, roll_back).await,
        Call::Watch => serve(client, request, LONGEST_SHORT, watch).await,
        Call::Show => serve(client, request, LONGEST_SHORT, show).await,
        Call::Exec => serve(client, request, LONGEST_SHORT, exec).await,
        Call::Trace => serve(client, request, LONGEST_SHORT, trace).await,
        Call::Capture => serve(client, request, LONGEST_SHORT, capture).await,
        Call::Stats => serve(client, request, LONGEST_SHORT, stats::stats).await,
        Call::Load => serve(client, request, LONGEST_MESSAGE, load::load).await,
    }
}

/// Returns the name of a call in the journal.
pub(super) fn line(call: &str) -> String {
    format!("gRPC {call}")
}

type Answered = Result<(), Status>;

async fn about(
    client: Rc<Client>,
    mut requests: Requests<v1::AboutRequest>,
    replies: Replies<v1::AboutResponse>,
) -> Answered {
    requests.only().await?;
    let generation = client.look(|c| c.journal.generation());
    replies.send(v1::AboutResponse { version: env!("CARGO_PKG_VERSION").into(), generation }).await
}

async fn get(
    client: Rc<Client>,
    mut requests: Requests<v1::GetRequest>,
    replies: Replies<v1::GetResponse>,
) -> Answered {
    use v1::get_response::{Head, Part};
    let asked = requests.only().await?;
    let mut config = Reader::begin(&client, asked.format() == v1::Format::Json).await;
    let generation = config.generation;
    let is_known = generation.is_some() && generation == asked.known_generation;
    let part = |part| v1::GetResponse { part: Some(part) };
    replies.send(part(Part::Head(Head { generation, is_known }))).await?;
    let cut = |Cut(why)| Status::aborted(why);
    while !is_known && let Some(text) = config.next(&client).await.map_err(cut)? {
        replies.send(part(Part::Document(text.into()))).await?;
    }
    Ok(())
}

async fn apply(
    client: Rc<Client>,
    mut requests: Requests<v1::ApplyRequest>,
    replies: Replies<v1::ApplyResponse>,
) -> Answered {
    use v1::apply_options::Kind;
    use v1::apply_request::Part;
    use v1::apply_response::Result as Outcome;
    let first = requests.next().await?.and_then(|request| request.part);
    let Some(Part::Options(options)) = first else {
        return Err(Status::invalid_argument("the first message must have the options"));
    };
    let terms = document::terms(options.dry_run, options.confirm_seconds, options.expected_generation)?;
    let kind =
        Kind::try_from(options.kind).map_err(|_| Status::invalid_argument("unknown kind of document"))?;
    let longest = if kind == Kind::Document { LONGEST } else { LONGEST_PATCH };
    let mut gathered = Gathered::new(&client, longest);
    while let Some(request) = requests.next().await? {
        match request.part {
            Some(Part::Document(piece)) => gathered.add(&client, &piece).await?,
            _ => return Err(Status::invalid_argument("after the options, expected pieces of the document")),
        }
    }
    let document = gathered.document(&client).await?;
    let applied = match kind {
        Kind::Document => document::put(&client, &line("Apply"), document, terms).await,
        Kind::MergePatch => document::patch(&client, &line("Apply"), Form::Merge, document, terms).await,
        Kind::JsonPatch => document::patch(&client, &line("Apply"), Form::Operations, document, terms).await,
    };
    let result = match applied {
        Ok(all) => Outcome::Changed(changed(all)),
        Err(problem) => Outcome::Faults(faults(problem)?),
    };
    replies.send(v1::ApplyResponse { result: Some(result) }).await
}

/// Returns the faults of the document, for the answer. If the problem has no such faults, returns the problem as the error.
fn faults(problem: Problem) -> Result<v1::Faults, Problem> {
    let faults: Vec<v1::Fault> = problem
        .faults()
        .map(|fault| v1::Fault {
            detail: fault.detail.to_owned(),
            pointer: fault.pointer.map(str::to_owned),
            line: fault.place.map(|(line, _)| line as u64),
            column: fault.place.map(|(_, column)| column as u64),
        })
        .collect();
    if faults.is_empty() { Err(problem) } else { Ok(v1::Faults { faults }) }
}

fn changed(all: Changed) -> v1::Changed {
    let Changed { generation, changed, difference, is_cut, warnings, notes, rolls_back_in, .. } = all;
    v1::Changed { generation, changed, difference, is_cut, warnings, notes, rolls_back_in }
}

async fn confirm(
    client: Rc<Client>,
    mut requests: Requests<v1::ConfirmRequest>,
    replies: Replies<v1::Changed>,
) -> Answered {
    let v1::ConfirmRequest { expected_generation } = requests.only().await?;
    replies.send(changed(document::confirm(&client, &line("Confirm"), expected_generation).await?)).await
}

async fn roll_back(
    client: Rc<Client>,
    mut requests: Requests<v1::RollbackRequest>,
    replies: Replies<v1::Changed>,
) -> Answered {
    let v1::RollbackRequest { changes, dry_run, expected_generation } = requests.only().await?;
    let changes = changes.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let line = line("Rollback");
    let back = document::roll_back(&client, &line, changes, dry_run, expected_generation).await?;
    replies.send(changed(back)).await
}

async fn watch(
    client: Rc<Client>,
    mut requests: Requests<v1::WatchRequest>,
    replies: Replies<v1::Event>,
) -> Answered {
    use v1::event::Event as Of;
    requests.only().await?;
    let mut watcher = Watcher::new();
    loop {
        for event in watcher.next(&client).await? {
            let event = match event {
                Event::Generation(generation) => Of::Generation(generation),
                Event::Interface(port) => Of::Interface(v1::Interface {
                    name: port.name,
                    index: port.index,
                    admin_up: port.admin_up,
                    link_up: port.link_up,
                    mtu: port.mtu.into(),
                }),
                Event::Removed(name) => Of::Removed(name),
                Event::Complete(complete) => Of::Complete(complete),
            };
            replies.send(v1::Event { event: Some(event) }).await?;
        }
    }
}

async fn show(
    client: Rc<Client>,
    mut requests: Requests<v1::ShowRequest>,
    replies: Replies<v1::ShowResponse>,
) -> Answered {
    let command = requests.only().await?.command;
    let command = command.trim();
    let line = match command.split_whitespace().next() {
        Some("show") => command.to_owned(),
        _ => format!("show {command}"),
    };
    show_all(&client, Shown::begin(&client, &line).await?, replies).await
}

async fn show_all(client: &Client, mut shown: Shown, replies: Replies<v1::ShowResponse>) -> Answered {
    while let Some(text) = shown.next(client).await.map_err(Problem::from)? {
        replies.send(v1::ShowResponse { json: text.into() }).await?;
    }
    Ok(())
}

async fn trace(
    client: Rc<Client>,
    mut requests: Requests<v1::TraceRequest>,
    replies: Replies<v1::ShowResponse>,
) -> Answered {
    let v1::TraceRequest { node, packets, filter, wait_ms } = requests.only().await?;
    let wait = wait_ms.map(|ms| Duration::from_millis(ms.into()));
    let shown = traced(&client, &Traced { node, packets, filter, wait }).await?;
    show_all(&client, shown, replies).await
}

async fn capture(
    client: Rc<Client>,
    mut requests: Requests<v1::CaptureRequest>,
    replies: Replies<v1::CaptureResponse>,
) -> Answered {
    use v1::capture_request::Point;
    let asked = requests.only().await?;
    let point = |point: &i32| match Point::try_from(*point) {
        Ok(Point::Received) => Ok("rx"),
        Ok(Point::Sent) => Ok("tx"),
        Ok(Point::Dropped) => Ok("drop"),
        Err(_) => Err(Status::invalid_argument(format!("unknown point {point}"))),
    };
    let points = asked.points.iter().map(point).collect::<Result<_, _>>()?;
    let v1::CaptureRequest { interface, packets, bytes_per_packet: bytes, filter, .. } = asked;
    let mut captured =
        Captured::begin(&client, &Wanted { points, interface, packets, bytes, filter }).await?;
    while let Some(pcap) = captured.next(&client).await.map_err(Problem::from)? {
        replies.send(v1::CaptureResponse { pcap: pcap.into() }).await?;
    }
    Ok(())
}

async fn exec(
    client: Rc<Client>,
    mut requests: Requests<v1::ExecRequest>,
    replies: Replies<v1::ExecResponse>,
) -> Answered {
    let commands = requests.only().await?.commands;
    let wanted = commands.len();
    let (all, _hold) = run_all(&client, commands).await?;
    let complete = all.len() == wanted && all.iter().all(|ran| ran.error.is_none());
    let ran = |Ran { command, output, error }| v1::exec_response::Ran { command, output, error };
    replies.send(v1::ExecResponse { results: all.into_iter().map(ran).collect(), complete }).await
}
