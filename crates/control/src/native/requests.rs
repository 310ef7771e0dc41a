//! The parts of a request: its parameters, its headers, and its body.

use std::borrow::Cow;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

use hyper::body::{Body as _, Bytes, Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderName, IF_MATCH, IF_NONE_MATCH};
use hyper::http::request::Parts;
use hyper::{HeaderMap, StatusCode};
use model::place::hint;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::answer::Problem;
use super::client::Client;

/// Maximum length of a document, in bytes. A million routes have about 60 MB.
const LONGEST: usize = 256 << 20;
/// Maximum length of any other body, in bytes.
const LONGEST_SHORT: usize = 1 << 20;
/// Time in which a client must send something of its body.
const SILENCE: Duration = Duration::from_secs(10);

/// The body of a request while it arrives.
#[derive(Clone)]
pub(super) struct Arriving(Rc<RefCell<Incoming>>);

impl Arriving {
    pub(super) fn new(body: Incoming) -> Arriving {
        Arriving(Rc::new(RefCell::new(body)))
    }

    /// Waits for the next piece, at most for [`SILENCE`]. `None` at the end.
    ///
    /// # Errors
    /// If no piece arrives in time, or if the client leaves.
    async fn next(&self) -> Result<Option<Frame<Bytes>>, Problem> {
        let next = poll_fn(|cx| Pin::new(&mut *self.0.borrow_mut()).poll_frame(cx));
        let late = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the body does not arrive");
        let next = timeout(SILENCE, next).await.map_err(late)?;
        next.transpose().map_err(|e| bad(format!("the body cannot be read: {e}")))
    }

    /// Reads the rest of a short body: otherwise the connection would end after the answer.
    pub(super) async fn skip(&self) {
        let mut bytes = 0;
        while let Ok(Some(frame)) = self.next().await
            && bytes < LONGEST_SHORT
        {
            bytes += frame.data_ref().map_or(0, Bytes::len);
        }
    }
}

/// A request whose operation is known.
pub(super) struct Asked {
    /// The method and the path, for the journal.
    pub(super) line: String,
    /// The end of the path that stands for `{…}` in the operation's path.
    pub(super) rest: String,
    headers: HeaderMap,
    query: Vec<(String, String)>,
    body: Arriving,
}

/// The generations that a request demands of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tags {
    /// None.
    Unsaid,
    /// Any.
    Any,
    /// This one.
    One(u64),
}

impl Asked {
    /// Returns a request for an operation with these parameters. `rest` is the end of its path.
    ///
    /// # Errors
    /// If the request has another parameter, or one twice.
    pub(super) fn new(
        head: Parts,
        body: Arriving,
        rest: &str,
        parameters: &[&str],
    ) -> Result<Asked, Problem> {
        let query = head.uri.query().unwrap_or_default().as_bytes();
        let query: Vec<(String, String)> = form_urlencoded::parse(query).into_owned().collect();
        for (n, (name, _)) in query.iter().enumerate() {
            if !parameters.contains(&name.as_str()) {
                let known = match parameters {
                    [] => "this operation has none".into(),
                    _ => hint(name, parameters.iter().copied()),
                };
                return Err(bad(format!("unknown parameter '{name}': {known}")));
            }
            if query.iter().take(n).any(|(other, _)| other == name) {
                return Err(bad(format!("the parameter '{name}' is given twice")));
            }
        }
        let rest = percent_encoding::percent_decode_str(rest).decode_utf8();
        let rest = rest.map(Cow::into_owned).map_err(|_| bad("the path is not UTF-8 text"))?;
        let line = format!("{} {}", head.method, head.uri);
        Ok(Asked { line, rest, headers: head.headers, query, body })
    }

    /// Returns the value of a parameter.
    ///
    /// # Errors
    /// If it is not valid. `valid` describes the valid values.
    pub(super) fn parameter<T: FromStr>(&self, name: &str, valid: &str) -> Result<Option<T>, Problem> {
        let Some((_, value)) = self.query.iter().find(|(other, _)| other == name) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| bad(format!("{name}={value}: expected {valid}")))
    }

    /// True if the parameter is given as `true`.
    ///
    /// # Errors
    /// If its value is neither `true` nor `false`.
    pub(super) fn flag(&self, name: &str) -> Result<bool, Problem> {
        Ok(self.parameter(name, "true or false")?.unwrap_or(false))
    }

    /// Returns the generation that the configuration must have for the request (`If-Match`).
    ///
    /// # Errors
    /// If the header is not the entity tag of one generation, or `*`.
    pub(super) fn expected(&self) -> Result<Tags, Problem> {
        self.tag(IF_MATCH)
    }

    /// Returns the generation that the client knows (`If-None-Match`).
    ///
    /// # Errors
    /// If the header is not the entity tag of one generation, or `*`.
    pub(super) fn known(&self) -> Result<Tags, Problem> {
        self.tag(IF_NONE_MATCH)
    }

    fn tag(&self, name: HeaderName) -> Result<Tags, Problem> {
        let Some(value) = self.headers.get(&name) else { return Ok(Tags::Unsaid) };
        let text = value.to_str().unwrap_or_default().trim();
        if text == "*" {
            return Ok(Tags::Any);
        }
        let digits = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let generation = digits.and_then(|digits| digits.parse().ok());
        let wrong =
            || bad(format!("{name}: expected the ETag of an earlier answer, such as \"7\" in quotes"));
        generation.map(Tags::One).ok_or_else(wrong)
    }

    /// True if the header is there and begins with this media type.
    pub(super) fn prefers(&self, name: HeaderName, kind: &str) -> bool {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.starts_with(kind))
    }

    /// Returns the media type of the body, without parameters; `None` if it is not said.
    pub(super) fn kind(&self) -> Option<&str> {
        let kind = self.headers.get(CONTENT_TYPE)?.to_str().ok()?;
        Some(kind.split(';').next().unwrap_or_default().trim())
    }

    /// Reads the body of a request with a document.
    ///
    /// # Errors
    /// If it is too long, is not UTF-8 text, stops arriving, or if there is no memory for it.
    pub(super) async fn document(&mut self, client: &Client) -> Result<String, Problem> {
        self.text(client, LONGEST).await
    }

    /// Reads and parses a short body of JSON. Without a body, all fields have their defaults.
    ///
    /// # Errors
    /// If it cannot be read or parsed.
    pub(super) async fn fields<T: DeserializeOwned + Default>(
        &mut self,
        client: &Client,
    ) -> Result<T, Problem> {
        let text = self.text(client, LONGEST_SHORT).await?;
        if text.trim().is_empty() {
            return Ok(T::default());
        }
        serde_json::from_str(&text).map_err(|e| bad(format!("the body is not as expected: {e}")))
    }

    async fn text(&mut self, client: &Client, longest: usize) -> Result<String, Problem> {
        let mut bytes = Vec::new();
        let mut hold = client.hold();
        loop {
            let Some(frame) = self.body.next().await? else { break };
            if let Ok(piece) = frame.into_data() {
                bytes.extend(piece);
            }
            if bytes.len() > longest {
                let why = format!("the body has more than {longest} bytes");
                return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why));
            }
            let no_memory =
                |e: model::cli::CliError| Problem::new(StatusCode::SERVICE_UNAVAILABLE, e.to_string());
            hold.set(bytes.len()).map_err(no_memory)?;
        }
        String::from_utf8(bytes).map_err(|_| bad("the body is not UTF-8 text"))
    }
}

/// Returns the problem of a request that is wrong in itself.
pub(super) fn bad(why: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, why)
}
