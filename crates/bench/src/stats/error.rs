//! Why a figure cannot be computed.

use std::fmt;

/// Why a figure cannot be computed. Each says which value is at fault.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// There is nothing to compute from.
    Empty,
    /// A value is missing, at this place (from 0).
    Missing(usize),
    /// A value is no number, infinite, or so large that its square has no room, at this place (from 0).
    NotFinite(usize, f64),
    /// There are fewer values than it takes.
    TooFew {
        /// What is counted: runs, points.
        what: &'static str,
        /// How many there are.
        have: usize,
        /// How many it takes.
        needed: usize,
    },
    /// A value is not what it must be.
    Invalid {
        /// What the value is.
        what: &'static str,
        /// The value.
        value: f64,
        /// What it must be.
        must: &'static str,
    },
    /// The same thing was given twice.
    Twice {
        /// What the value is.
        what: &'static str,
        /// The value.
        value: u64,
    },
    /// The histogram of delays refused something that its bounds should allow: what.
    Histogram(&'static str),
    /// The points do not determine the model: why.
    Undetermined(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Empty => f.write_str("there are no values"),
            Error::Missing(index) => write!(f, "value {} is missing", index + 1),
            Error::NotFinite(index, value) => {
                write!(f, "value {} is {value:e}: not a finite figure", index + 1)
            }
            Error::TooFew { what, have, needed } => write!(f, "{have} {what} are too few: it takes {needed}"),
            Error::Invalid { what, value, must } => write!(f, "{what} is {value}: it must be {must}"),
            Error::Twice { what, value } => write!(f, "{what} {value} was given twice"),
            Error::Histogram(what) => write!(f, "the histogram of delays refused {what}"),
            Error::Undetermined(why) => write!(f, "the points do not determine the model: {why}"),
        }
    }
}

impl std::error::Error for Error {}

/// Values beyond this are refused, so that sums of their squares stay finite.
const LARGEST: f64 = 1e150;

/// Checks that every value is a finite figure.
///
/// # Errors
/// [`Error::NotFinite`] for the first that is not.
pub(crate) fn check_finite(values: impl IntoIterator<Item = f64>) -> Result<(), Error> {
    match values.into_iter().enumerate().find(|(_, value)| !is_usable(*value)) {
        Some((index, value)) => Err(Error::NotFinite(index, value)),
        None => Ok(()),
    }
}

/// Checks that a value is a finite figure above zero.
///
/// # Errors
/// [`Error::Invalid`] with the value's name when it is not.
pub(crate) fn check_positive(what: &'static str, value: f64) -> Result<f64, Error> {
    if is_usable(value) && value > 0.0 {
        return Ok(value);
    }
    Err(Error::Invalid { what, value, must: "a finite figure above 0" })
}

/// Whether a value is a finite figure whose square has room.
pub(crate) fn is_usable(value: f64) -> bool {
    value.abs() <= LARGEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_which_value_and_why() {
        assert_eq!(
            check_finite([1.0, f64::NAN]).unwrap_err().to_string(),
            "value 2 is NaN: not a finite figure"
        );
        assert_eq!(
            check_finite([f64::INFINITY]).unwrap_err().to_string(),
            "value 1 is inf: not a finite figure"
        );
        assert_eq!(check_finite([1e200]).unwrap_err().to_string(), "value 1 is 1e200: not a finite figure");
        assert_eq!(check_finite([-1e150, 0.0]), Ok(()));
        assert_eq!(
            check_positive("the energy", 0.0).unwrap_err().to_string(),
            "the energy is 0: it must be a finite figure above 0"
        );
        assert!(check_positive("the energy", f64::NAN).is_err());
    }
}
