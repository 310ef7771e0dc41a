//! The parts of a request: its parameters, its headers, and its body.

use std::borrow::Cow;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

use hyper::HeaderMap;
use hyper::body::{Body as _, Bytes, Frame, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName, IF_MATCH, IF_NONE_MATCH};
use hyper::http::request::Parts;
use model::place::hint;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::answer::{JSON, YAML};
use crate::native::client::Client;
use crate::native::problem::{Problem, bad};
use crate::native::upload::{Document, Gathered, too_long};

/// Maximum length of a body that is neither a document nor a patch, in bytes.
const LONGEST_SHORT: usize = 1 << 20;
/// Maximum time to wait for the rest of a body that the operation does not use.
const SOON: Duration = Duration::from_millis(100);

/// The body of a request while it arrives.
#[derive(Clone)]
pub(super) struct RequestBody(Rc<RefCell<Incoming>>);

impl RequestBody {
    pub(super) fn new(body: Incoming) -> RequestBody {
        RequestBody(Rc::new(RefCell::new(body)))
    }

    /// Returns the length that the client has announced for the body, in bytes; 0 if it has announced none.
    fn announced(&self) -> u64 {
        self.0.borrow().size_hint().lower()
    }

    /// Waits for the next piece, for a limited time. `None` at the end.
    ///
    /// # Errors
    /// If no piece arrives in time, or if the body cannot be read, for example because the client has left.
    async fn next(&self, client: &Client) -> Result<Option<Frame<Bytes>>, Problem> {
        let next = client.arrival(poll_fn(|cx| Pin::new(&mut *self.0.borrow_mut()).poll_frame(cx))).await?;
        next.transpose().map_err(|e| bad(format!("the body cannot be read: {e}")))
    }

    /// Reads the rest of a short body, if it arrives soon. If a part were left unread, the connection would end after the answer.
    pub(super) async fn skip(&self) {
        let mut bytes = 0;
        let rest = async {
            while bytes < LONGEST_SHORT
                && let Some(Ok(frame)) =
                    poll_fn(|cx| Pin::new(&mut *self.0.borrow_mut()).poll_frame(cx)).await
            {
                bytes += frame.data_ref().map_or(0, Bytes::len);
            }
        };
        // If the client sends no more for this time, it gets its answer.
        let _ = timeout(SOON, rest).await;
    }
}

/// A request whose operation is known.
pub(super) struct Asked {
    /// The method and the path with its query, for the journal.
    pub(super) line: String,
    /// The words of the path that match `{…}` in the operation's path.
    pub(super) rest: Vec<String>,
    headers: HeaderMap,
    query: Vec<(String, String)>,
    body: RequestBody,
}

/// The generation of the configuration in a header, such as `If-Match`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tags {
    /// The header is missing.
    Unsaid,
    /// `*`: any generation.
    Any,
    /// This generation.
    One(u64),
}

impl Asked {
    /// Returns a request for an operation with these parameters. `rest` is the part of the path that matches `{…}`.
    ///
    /// # Errors
    /// If the request has a parameter that is not among these, or has one twice, or if the path is not UTF-8.
    pub(super) fn new(
        head: Parts,
        body: RequestBody,
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
        let part = |part: &str| {
            let part = percent_encoding::percent_decode_str(part).decode_utf8();
            part.map(Cow::into_owned).map_err(|_| bad("the path is not UTF-8 text"))
        };
        let rest = rest.split('/').filter(|part| !part.is_empty()).map(part).collect::<Result<_, _>>()?;
        let line = format!("{} {}", head.method, head.uri);
        Ok(Asked { line, rest, headers: head.headers, query, body })
    }

    /// Returns the value of a parameter; `None` if it is not given.
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
        // The comparison with what a client knows ignores that a tag is weak (RFC 9110 section 13.1.2).
        let text = if name == IF_NONE_MATCH { text.strip_prefix("W/").unwrap_or(text) } else { text };
        let digits = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let generation = digits.and_then(|digits| digits.parse().ok());
        let wrong =
            || bad(format!("{name}: expected the ETag of an earlier answer, such as \"7\" in quotes"));
        generation.map(Tags::One).ok_or_else(wrong)
    }

    /// True if the client accepts YAML, and does not list JSON before YAML.
    pub(super) fn prefers_yaml(&self) -> bool {
        let accepts = self.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        accepts.to_ascii_lowercase().split([',', ';']).map(str::trim).find(|kind| [YAML, JSON].contains(kind))
            == Some(YAML)
    }

    /// Returns the media type of the body, without parameters; `None` if the request does not give it.
    pub(super) fn kind(&self) -> Option<String> {
        let kind = self.headers.get(CONTENT_TYPE)?.to_str().ok()?;
        Some(kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
    }

    /// Reads the body of a request with a document, of at most `longest` bytes. If the document is long, waits for the right to send it,
    /// and then for the right to parse it.
    ///
    /// # Errors
    /// If the body is too long or arrives too slowly, if it waits too long for a right, or if there is no memory for it.
    pub(super) async fn document(&mut self, client: &Client, longest: usize) -> Result<Document, Problem> {
        if self.body.announced() > longest as u64 {
            return Err(too_long(longest));
        }
        let mut gathered = Gathered::new(client, longest);
        while let Some(frame) = self.body.next(client).await? {
            if let Ok(piece) = frame.into_data() {
                gathered.add(client, &piece).await?;
            }
        }
        gathered.document(client).await
    }

    /// Reads and parses a short body of JSON. Without a body, all fields have their defaults.
    ///
    /// # Errors
    /// If it cannot be read or parsed.
    pub(super) async fn fields<T: DeserializeOwned + Default>(
        &mut self,
        client: &Client,
    ) -> Result<T, Problem> {
        let document = self.document(client, LONGEST_SHORT).await?;
        if document.as_ref().iter().all(u8::is_ascii_whitespace) {
            return Ok(T::default());
        }
        serde_json::from_slice(document.as_ref())
            .map_err(|e| bad(format!("the body is not as expected: {e}")))
    }
}
