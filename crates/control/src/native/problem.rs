//! Why a request is refused, or has failed, for all protocols.

use hyper::StatusCode;
use model::cli::{CliError, Role};
use model::reason::Reason;

use crate::app::Failure;
use crate::startup::{Fault, Place};

/// Why a request is refused, or has failed.
#[derive(Debug)]
pub(super) struct Problem {
    /// The HTTP status code that describes the problem.
    pub(super) status: StatusCode,
    pub(super) detail: String,
    faults: Vec<Fault>,
    /// The JSON Pointers of the faults (RFC 6901), as far as known.
    pointers: Vec<Option<String>>,
}

/// A fault of a document, and its place if that is known.
pub(super) struct Placed<'p> {
    pub(super) detail: &'p str,
    /// Line and column, from 1.
    pub(super) place: Option<(usize, usize)>,
    /// The place as a JSON Pointer (RFC 6901).
    pub(super) pointer: Option<&'p str>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem { status, detail: detail.into(), faults: Vec::new(), pointers: Vec::new() }
    }

    /// Returns the faults of the document of the request.
    pub(super) fn faults(&self) -> impl Iterator<Item = Placed<'_>> {
        let pointers = self.pointers.iter().map(Option::as_deref).chain(std::iter::repeat(None));
        self.faults.iter().zip(pointers).map(|(fault, pointer)| Placed {
            detail: &fault.message,
            place: match fault.place {
                Place::File { line, column, .. } => Some((line, column)),
                _ => None,
            },
            pointer,
        })
    }

    /// Adds the JSON Pointers of the faults.
    pub(super) fn pointing(self, pointers: Vec<Option<String>>) -> Problem {
        Problem { pointers, ..self }
    }

    /// Removes the lines and columns of the faults. For faults in a text that the client did not send.
    pub(super) fn without_lines(mut self) -> Problem {
        self.faults.iter_mut().for_each(|fault| fault.place = Place::Argument(0));
        self
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Problem {
        let status = match &failure {
            // Not that of another change: a client that tries again would roll back what it does not know.
            Failure::Changed { .. } | Failure::OtherUnconfirmed { .. } | Failure::Overtaken => {
                StatusCode::PRECONDITION_FAILED
            }
            Failure::Faults(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Failure::Refused(_) => of_reason(failure.reason()),
            _ => StatusCode::CONFLICT,
        };
        match failure {
            Failure::Faults(faults) => {
                let detail = "the document has faults; nothing was changed";
                Problem { faults, ..Problem::new(status, detail) }
            }
            other => Problem::new(status, other.to_string()),
        }
    }
}

impl From<CliError> for Problem {
    fn from(error: CliError) -> Problem {
        Problem::new(of_reason(error.reason()), error.render())
    }
}

fn of_reason(reason: Reason) -> StatusCode {
    match reason {
        Reason::NoInterface | Reason::NoTable | Reason::NotThere => StatusCode::NOT_FOUND,
        Reason::There | Reason::InUse | Reason::Busy => StatusCode::CONFLICT,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

/// Returns the problem of a request for which there is not enough memory.
pub(super) fn no_memory(e: CliError) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, e.to_string())
}

/// Returns the problem of an invalid request (400).
pub(super) fn bad(why: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, why)
}

/// Returns the problem of a request that the client's role does not allow (403).
pub(super) fn limited(role: Role) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, format!("this socket is {}", role.limits()))
}
