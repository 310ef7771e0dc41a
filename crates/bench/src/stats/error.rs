//! Errors of computing figures.

use std::fmt;

/// Reason why a figure cannot be computed. Names the value at fault.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// There are no values.
    Empty,
    /// The value at this index (from 0) is missing.
    Missing(usize),
    /// The value at this index (from 0) is not a number, infinite, or beyond ±10¹⁵⁰.
    NotFinite(usize, f64),
    /// There are fewer values than needed.
    TooFew {
        /// The kind of values: runs, points.
        what: &'static str,
        /// The number given.
        have: usize,
        /// The number needed.
        needed: usize,
    },
    /// A value is out of range.
    Invalid {
        /// The value's name.
        what: &'static str,
        /// The value.
        value: f64,
        /// The permitted range.
        must: &'static str,
    },
    /// A value is given twice.
    Twice {
        /// The value's name.
        what: &'static str,
        /// The value.
        value: u64,
    },
    /// Internal error: the delay histogram rejected a valid value; with a description of the value.
    Histogram(&'static str),
    /// The points do not determine the model; with the reason.
    Undetermined(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Empty => f.write_str("there are no values"),
            Error::Missing(index) => write!(f, "value {} is missing", index + 1),
            Error::NotFinite(index, value) => {
                write!(f, "value {} is {value:e}: it must be a finite number", index + 1)
            }
            Error::TooFew { what, have, needed } => {
                write!(f, "{needed} {what} are needed, only {have} given")
            }
            Error::Invalid { what, value, must } => write!(f, "{what} is {value}: it must be {must}"),
            Error::Twice { what, value } => write!(f, "{what} {value} is given twice"),
            Error::Histogram(what) => write!(f, "internal error: the delay histogram rejected {what}"),
            Error::Undetermined(why) => write!(f, "the points do not determine the model: {why}"),
        }
    }
}

impl std::error::Error for Error {}

/// Maximum magnitude of a value. Larger values are rejected, so that the sum of many squares stays finite.
const LARGEST: f64 = 1e150;

/// Checks that all values are finite, and at most [`LARGEST`] in magnitude.
///
/// # Errors
/// [`Error::NotFinite`] for the first value that is not.
pub(crate) fn check_finite(values: impl IntoIterator<Item = f64>) -> Result<(), Error> {
    match values.into_iter().enumerate().find(|(_, value)| !is_usable(*value)) {
        Some((index, value)) => Err(Error::NotFinite(index, value)),
        None => Ok(()),
    }
}

/// Checks that a value is above 0, and at most [`LARGEST`].
///
/// # Errors
/// [`Error::Invalid`] with the value's name if it is not.
pub(crate) fn check_positive(what: &'static str, value: f64) -> Result<f64, Error> {
    if is_usable(value) && value > 0.0 {
        return Ok(value);
    }
    Err(Error::Invalid { what, value, must: "a finite number above 0" })
}

/// True if a value is a finite number of at most [`LARGEST`] in magnitude.
pub(crate) fn is_usable(value: f64) -> bool {
    value.abs() <= LARGEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_value_and_the_reason() {
        assert_eq!(
            check_finite([1.0, f64::NAN]).unwrap_err().to_string(),
            "value 2 is NaN: it must be a finite number"
        );
        assert_eq!(
            check_finite([f64::INFINITY]).unwrap_err().to_string(),
            "value 1 is inf: it must be a finite number"
        );
        assert_eq!(
            check_finite([1e200]).unwrap_err().to_string(),
            "value 1 is 1e200: it must be a finite number"
        );
        assert_eq!(check_finite([-1e150, 0.0]), Ok(()));
        assert_eq!(
            check_positive("the energy", 0.0).unwrap_err().to_string(),
            "the energy is 0: it must be a finite number above 0"
        );
        assert!(check_positive("the energy", f64::NAN).is_err());
    }
}
