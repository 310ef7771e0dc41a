//! A client's connection: requests come in, and answers go out, one after the other.

use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::EXPECT;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::time::interval;

use super::answer::Body;
use super::client::Client;
use super::operations;
use super::requests::RequestBody;
use super::stream::Watched;
use crate::cli::Stream;

/// Maximum size of the head of a request, in bytes.
const HEAD: usize = 64 << 10;
/// Time in which a client must read something of its answers.
const STALLED: Duration = Duration::from_secs(10);
/// Interval at which the connection is checked.
const CHECK: Duration = Duration::from_secs(1);

/// Serves a client until it leaves, or until it is disconnected in favor of another client.
pub(super) async fn serve(client: Client, stream: Box<dyn Stream>) -> io::Result<()> {
    let client = Rc::new(client);
    let seat = client.seat.clone();
    let service = service_fn(|request| respond(client.clone(), request));
    let stream = TokioIo::new(Watched::new(stream, &seat));
    let served = http1::Builder::new().max_buf_size(HEAD).serve_connection(stream, service);
    let stalls = async {
        let mut ticks = interval(CHECK);
        loop {
            ticks.tick().await;
            if seat.told_since().is_some_and(|since| since.elapsed() >= STALLED) {
                return;
            }
        }
    };
    tokio::select! {
        // Checked first: the next request of a disconnected client must not start.
        biased;
        () = seat.left() => {
            Err(io::Error::other("it was idle, and the router needed its slot or its memory for another client"))
        }
        () = stalls => Err(io::Error::other("it does not read its answers")),
        ended = served => ended.map_err(io::Error::other),
    }
}

async fn respond(client: Rc<Client>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    client.seat.begin();
    // Each request waits for the client's turn, however fast it is answered.
    client.slice(|_| ()).await;
    let (head, body) = request.into_parts();
    let waits = head.headers.contains_key(EXPECT);
    let body = RequestBody::new(body);
    match operations::run(&client, head, body.clone()).await {
        Ok(answer) => Ok(answer),
        Err(problem) => {
            // A client that waits for permission to send its body gets the refusal instead.
            if !waits {
                body.skip().await;
            }
            Ok(problem.answer(&client.seat))
        }
    }
}
