//! Answers in HTTP, and errors (RFC 9457).

use std::rc::Rc;

use hyper::header::{CONTENT_TYPE, ETAG, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde_json::Value;

use crate::cli::Hold;
use crate::native::body::Body;
use crate::native::client::Client;
use crate::native::problem::{Placed, Problem};

pub(super) const JSON: &str = "application/json";
pub(super) const YAML: &str = "application/yaml";
/// JSON objects, one per line.
pub(super) const LINES: &str = "application/x-ndjson";
/// A capture file.
pub(super) const PCAP: &str = "application/vnd.tcpdump.pcap";
const PROBLEM: &str = "application/problem+json";

/// Returns an answer of one piece.
pub(super) fn whole(
    client: &Rc<Client>,
    status: StatusCode,
    kind: &'static str,
    text: impl Into<hyper::body::Bytes>,
) -> Response<Body> {
    answer(status, kind, Body::whole(client, text, None))
}

/// Returns a value as JSON.
pub(super) fn json(client: &Rc<Client>, value: &impl Serialize) -> Response<Body> {
    // All names in the values of this module are strings, so serializing cannot fail.
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    whole(client, StatusCode::OK, JSON, text + "\n")
}

/// Returns an answer of JSON text. `hold` is the memory reserved for the text.
pub(super) fn held(client: &Rc<Client>, text: String, hold: Hold) -> Response<Body> {
    answer(StatusCode::OK, JSON, Body::whole(client, text, Some(hold)))
}

/// Returns an answer with this body.
pub(super) fn answer(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Adds the generation of the configuration as the entity tag.
pub(super) fn tagged(mut response: Response<Body>, generation: u64) -> Response<Body> {
    // Digits in quotes are a valid header.
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{generation}\"")) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

/// Why a request is answered with an error.
pub(super) enum Refused {
    /// The request is refused, or has failed.
    Problem(Problem),
    /// The resource has only these methods.
    Method(Vec<&'static str>),
}

impl<P: Into<Problem>> From<P> for Refused {
    fn from(problem: P) -> Refused {
        Refused::Problem(problem.into())
    }
}

impl Refused {
    pub(super) fn answer(self, client: &Rc<Client>) -> Response<Body> {
        let methods = match self {
            Refused::Problem(problem) => return of_problem(&problem, client),
            Refused::Method(methods) => methods.join(", "),
        };
        let why = format!("this resource has only {methods}");
        let mut response = of_problem(&Problem::new(StatusCode::METHOD_NOT_ALLOWED, why), client);
        // Names of methods are a valid header.
        if let Ok(methods) = HeaderValue::from_str(&methods) {
            response.headers_mut().insert(hyper::header::ALLOW, methods);
        }
        response
    }
}

fn of_problem(problem: &Problem, client: &Rc<Client>) -> Response<Body> {
    let mut all = serde_json::json!({
        "title": problem.status.canonical_reason().unwrap_or("Error"),
        "status": problem.status.as_u16(),
        "detail": problem.detail,
    });
    let faults: Vec<Value> = problem.faults().map(fault).collect();
    if !faults.is_empty() {
        all["faults"] = faults.into();
    }
    whole(client, problem.status, PROBLEM, format!("{all:#}\n"))
}

fn fault(Placed { detail, place, pointer }: Placed<'_>) -> Value {
    let mut all = serde_json::json!({ "detail": detail });
    if let Some((line, column)) = place {
        all["line"] = line.into();
        all["column"] = column.into();
    }
    if let Some(pointer) = pointer {
        all["pointer"] = pointer.into();
    }
    all
}
