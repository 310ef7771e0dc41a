//! Documents that clients send.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use tokio::sync::OwnedSemaphorePermit;

use super::client::Client;
use super::problem::{Problem, no_memory};
use crate::app::let_go;
use crate::cli::Hold;

/// Length in bytes above which a document is long. A client needs a right to send a long document, and another one to have it parsed.
const LARGE: usize = 2 << 20;

/// Rate at which a long document must arrive, in bytes per second.
const RATE: usize = 1 << 20;
/// Maximum delay of a long document, compared with an arrival at [`RATE`].
const PATIENCE: Duration = Duration::from_secs(5);

/// A document while it arrives.
pub(super) struct Gathered {
    bytes: Vec<u8>,
    /// The right to send a long document, and the time when the client got it.
    permit: Option<(OwnedSemaphorePermit, Instant)>,
    /// The memory of the bytes.
    hold: Hold,
    longest: usize,
}

impl Gathered {
    /// Returns an empty document, which may have `longest` bytes.
    pub(super) fn new(client: &Client, longest: usize) -> Gathered {
        Gathered { bytes: Vec::new(), permit: None, hold: client.hold(), longest }
    }

    /// Adds a piece. Before a document becomes long, waits for the right to send one.
    ///
    /// # Errors
    /// If the document is too long, if a long one arrives too slowly or waits too long for the right, or if there is no memory for it.
    pub(super) async fn add(&mut self, client: &Client, piece: &[u8]) -> Result<(), Problem> {
        self.bytes.extend_from_slice(piece);
        if self.bytes.len() > self.longest {
            return Err(too_long(self.longest));
        }
        if self.bytes.len() > LARGE && self.permit.is_none() {
            self.permit = Some((client.long_arrival().await?, Instant::now()));
        }
        if let Some((_, since)) = &self.permit {
            let due = PATIENCE + Duration::from_secs(((self.bytes.len() - LARGE) / RATE) as u64);
            if since.elapsed() > due {
                let why =
                    "a document of more than 2 MiB must arrive at 1 MiB a second, because others wait for it";
                return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, why));
            }
        }
        self.hold.set(self.bytes.len()).map_err(no_memory)
    }

    /// Returns the whole document. Before, waits for the right to parse a long one.
    ///
    /// # Errors
    /// If other clients have the right for too long.
    pub(super) async fn document(self, client: &Client) -> Result<Document, Problem> {
        let permit = if self.permit.is_some() { Some(client.long().await?) } else { None };
        Ok(Document(Arc::new(Sent { bytes: self.bytes, permit })))
    }
}

/// A document that a client has sent. Threads that read it share it.
#[derive(Clone)]
pub(super) struct Document(Arc<Sent>);

struct Sent {
    bytes: Vec<u8>,
    /// The right to parse a long document, until the last thread that reads it has ended; `None` for a short document.
    permit: Option<OwnedSemaphorePermit>,
}

impl Document {
    /// True if the document is long: its client already has the right to have a long document parsed.
    pub(super) fn is_long(&self) -> bool {
        self.0.permit.is_some()
    }
}

impl AsRef<[u8]> for Document {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if self.permit.is_some() {
            let_go((std::mem::take(&mut self.bytes), self.permit.take()));
        }
    }
}

/// Returns the problem of a document that is too long.
pub(super) fn too_long(longest: usize) -> Problem {
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {longest} bytes"))
}
