//! Keys as bytes, which sort in the order of the values.
//!
//! Numbers are big-endian, texts end with two zeros, and addresses begin with their family. So all tuples that begin with the same values
//! are adjacent. A tuple of 22 bytes or less, such as the key of a route, needs no heap memory.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ffi::OsString;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::family::Family;

/// Maximum length, in bytes, of a tuple that needs no heap memory.
const INLINE: usize = 22;

/// A sequence of values, as bytes.
#[derive(Clone)]
pub struct Tuple(Bytes);

#[derive(Clone)]
enum Bytes {
    Inline(u8, [u8; INLINE]),
    Heap(Box<[u8]>),
}

impl Default for Tuple {
    /// Returns a tuple without values.
    fn default() -> Tuple {
        Tuple(Bytes::Inline(0, [0; INLINE]))
    }
}

impl Tuple {
    /// Returns the tuple of this one value.
    pub fn of<P: Push + ?Sized>(part: &P) -> Tuple {
        Tuple::default().with(part)
    }

    /// Returns the same tuple with one more value.
    pub fn with<P: Push + ?Sized>(mut self, part: &P) -> Tuple {
        part.push(&mut self);
        self
    }

    /// Returns a tuple that is greater than the identity of every object: no identity begins with so many 1 bits.
    pub(crate) fn last() -> Tuple {
        Tuple(Bytes::Inline(INLINE as u8, [u8::MAX; INLINE]))
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Inline(len, bytes) => bytes.get(..usize::from(*len)).unwrap_or_default(),
            Bytes::Heap(bytes) => bytes,
        }
    }

    /// Returns the value that the tuple was made of; `None` if the value is not of the type `P`.
    pub fn get<P: Part>(&self) -> Option<P> {
        let mut rest = Rest(self.bytes());
        let part = P::pull(&mut rest)?;
        rest.0.is_empty().then_some(part)
    }

    /// Returns the value after `prefix`; `None` if this tuple does not begin with `prefix`, or no value of the type `P` follows.
    pub fn behind<P: Part>(&self, prefix: &Tuple) -> Option<P> {
        P::pull(&mut Rest(self.bytes().strip_prefix(prefix.bytes())?))
    }

    /// True if this tuple begins with the values of `prefix`.
    pub fn begins_with(&self, prefix: &Tuple) -> bool {
        self.bytes().starts_with(prefix.bytes())
    }

    /// Returns the least tuple that is greater than all tuples that begin with this one; `None` if there is none.
    pub fn after(&self) -> Option<Tuple> {
        let mut bytes = self.bytes().to_vec();
        while let Some(last) = bytes.pop() {
            if last < u8::MAX {
                bytes.push(last + 1);
                let mut after = Tuple::default();
                after.extend(&bytes);
                return Some(after);
            }
        }
        None
    }

    /// Appends the bytes of a value. The bytes of different values must sort in the order of the values.
    pub fn extend(&mut self, more: &[u8]) {
        match &mut self.0 {
            Bytes::Inline(len, bytes) => {
                let begin = usize::from(*len);
                if let Some(room) = bytes.get_mut(begin..begin + more.len()) {
                    room.copy_from_slice(more);
                    *len += more.len() as u8;
                } else {
                    let all = [self.bytes(), more].concat();
                    self.0 = Bytes::Heap(all.into());
                }
            }
            Bytes::Heap(bytes) => *bytes = [&**bytes, more].concat().into(),
        }
    }
}

/// Returns the first 16 bytes of a short tuple as a number that sorts as they do.
fn head(bytes: &[u8; INLINE]) -> u128 {
    bytes.first_chunk().map_or(0, |head| u128::from_be_bytes(*head))
}

/// Returns the last 8 bytes of a short tuple as a number that sorts as they do.
fn tail(bytes: &[u8; INLINE]) -> u64 {
    bytes.last_chunk().map_or(0, |tail| u64::from_be_bytes(*tail))
}

impl PartialEq for Tuple {
    fn eq(&self, other: &Tuple) -> bool {
        match (&self.0, &other.0) {
            (Bytes::Inline(len, bytes), Bytes::Inline(other_len, other)) => {
                len == other_len && bytes == other
            }
            _ => self.bytes() == other.bytes(),
        }
    }
}
impl Eq for Tuple {}
impl PartialOrd for Tuple {
    fn partial_cmp(&self, other: &Tuple) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Tuple {
    fn cmp(&self, other: &Tuple) -> Ordering {
        match (&self.0, &other.0) {
            // Short tuples, such as the keys of routes, are compared as numbers. The bytes after their ends are 0, so the lengths decide
            // only if one is the beginning of the other.
            (Bytes::Inline(len, bytes), Bytes::Inline(other_len, other)) => head(bytes)
                .cmp(&head(other))
                .then_with(|| tail(bytes).cmp(&tail(other)))
                .then_with(|| len.cmp(other_len)),
            _ => self.bytes().cmp(other.bytes()),
        }
    }
}
impl Hash for Tuple {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}
impl Borrow<[u8]> for Tuple {
    fn borrow(&self) -> &[u8] {
        self.bytes()
    }
}
impl fmt::Debug for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x?}", self.bytes())
    }
}

/// The unread part of a tuple.
pub struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    /// Returns the next `len` bytes; `None` if there are fewer.
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
}

/// A value that can be appended to a tuple.
pub trait Push {
    /// Appends the value.
    fn push(&self, to: &mut Tuple);
}

/// A value that can be appended to a tuple and read from it.
pub trait Part: Push + Sized {
    /// Reads the value; `None` if the next bytes are no value of this type.
    fn pull(from: &mut Rest<'_>) -> Option<Self>;
}

impl<P: Push + ?Sized> Push for &P {
    fn push(&self, to: &mut Tuple) {
        (**self).push(to);
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Push for $number {
            fn push(&self, to: &mut Tuple) {
                to.extend(&self.to_be_bytes());
            }
        }
        impl Part for $number {
            fn pull(from: &mut Rest<'_>) -> Option<$number> {
                Some(<$number>::from_be_bytes(from.array()?))
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64, u128);

impl Push for bool {
    fn push(&self, to: &mut Tuple) {
        u8::from(*self).push(to);
    }
}
impl Part for bool {
    fn pull(from: &mut Rest<'_>) -> Option<bool> {
        Some(u8::pull(from)? != 0)
    }
}

impl Push for () {
    fn push(&self, _: &mut Tuple) {}
}
impl Part for () {
    fn pull(_: &mut Rest<'_>) -> Option<()> {
        Some(())
    }
}

/// Encoding of a zero byte within a text. With this code and [`END`], a text sorts before longer texts that begin with it.
const ZERO: [u8; 2] = [0, 0xff];
/// Encoding of the end of a text.
const END: [u8; 2] = [0, 0];

/// Appends a text of any length.
fn push_bytes(bytes: &[u8], to: &mut Tuple) {
    for (n, part) in bytes.split(|byte| *byte == 0).enumerate() {
        if n > 0 {
            to.extend(&ZERO);
        }
        to.extend(part);
    }
    to.extend(&END);
}

fn pull_bytes(from: &mut Rest<'_>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let end = from.0.iter().position(|byte| *byte == 0)?;
        bytes.extend_from_slice(from.take(end)?);
        if from.array()? != ZERO {
            return Some(bytes);
        }
        bytes.push(0);
    }
}

impl Push for str {
    fn push(&self, to: &mut Tuple) {
        push_bytes(self.as_bytes(), to);
    }
}
impl Push for String {
    fn push(&self, to: &mut Tuple) {
        self.as_str().push(to);
    }
}
impl Part for String {
    fn pull(from: &mut Rest<'_>) -> Option<String> {
        String::from_utf8(pull_bytes(from)?).ok()
    }
}

/// Paths that differ only in repeated slashes give equal tuples.
impl Push for Path {
    fn push(&self, to: &mut Tuple) {
        let plain: PathBuf = self.components().collect();
        push_bytes(plain.as_os_str().as_bytes(), to);
    }
}
impl Push for PathBuf {
    fn push(&self, to: &mut Tuple) {
        self.as_path().push(to);
    }
}
impl Part for PathBuf {
    fn pull(from: &mut Rest<'_>) -> Option<PathBuf> {
        pull_bytes(from).map(|bytes| OsString::from_vec(bytes).into())
    }
}

impl Push for IpAddr {
    fn push(&self, to: &mut Tuple) {
        match self {
            IpAddr::V4(address) => (4u8, address.to_bits()).push(to),
            IpAddr::V6(address) => (6u8, address.to_bits()).push(to),
        }
    }
}
impl Part for IpAddr {
    fn pull(from: &mut Rest<'_>) -> Option<IpAddr> {
        match u8::pull(from)? {
            4 => Some(IpAddr::V4(u32::pull(from)?.into())),
            6 => Some(IpAddr::V6(u128::pull(from)?.into())),
            _ => None,
        }
    }
}

impl Push for Family {
    fn push(&self, to: &mut Tuple) {
        (*self == Family::V6).push(to);
    }
}
impl Part for Family {
    fn pull(from: &mut Rest<'_>) -> Option<Family> {
        bool::pull(from).map(|six| if six { Family::V6 } else { Family::V4 })
    }
}

impl<P: Push> Push for Option<P> {
    fn push(&self, to: &mut Tuple) {
        self.is_some().push(to);
        if let Some(part) = self {
            part.push(to);
        }
    }
}
impl<P: Part> Part for Option<P> {
    fn pull(from: &mut Rest<'_>) -> Option<Option<P>> {
        if bool::pull(from)? { P::pull(from).map(Some) } else { Some(None) }
    }
}

macro_rules! tuples {
    ($($($part:ident $n:tt),*;)*) => {$(
        impl<$($part: Push),*> Push for ($($part,)*) {
            fn push(&self, to: &mut Tuple) {
                $(self.$n.push(to);)*
            }
        }
        impl<$($part: Part),*> Part for ($($part,)*) {
            fn pull(from: &mut Rest<'_>) -> Option<Self> {
                Some(($($part::pull(from)?,)*))
            }
        }
    )*};
}
tuples! { A 0, B 1; A 0, B 1, C 2; A 0, B 1, C 2, D 3; }

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Any = (Option<u16>, String, u32, IpAddr);

    fn any_tuple() -> impl Strategy<Value = Any> {
        let text = prop_oneof![Just(String::new()), "[a\u{0}\u{1}é]{0,3}", "[a-z/.0-9-]{0,40}"];
        (any::<Option<u16>>(), text, prop_oneof![any::<u32>(), Just(u32::MAX)], any::<IpAddr>())
    }

    proptest! {
        #[test]
        fn values_are_read_back_and_keep_their_order(a in any_tuple(), b in any_tuple()) {
            let (one, other) = (Tuple::of(&a), Tuple::of(&b));
            prop_assert_eq!(one.get::<Any>(), Some(a.clone()));
            prop_assert_eq!(one.cmp(&other), a.cmp(&b));
            let prefix = Tuple::of(&(a.0, a.1.clone()));
            prop_assert!(one.begins_with(&prefix));
            prop_assert_eq!(one.behind::<u32>(&prefix), Some(a.2));
            if let Some(after) = prefix.after() {
                prop_assert!(one < after);
                prop_assert!(other.begins_with(&prefix) || (other < after) == (other < prefix));
            }
        }
    }

    proptest! {
        /// Short tuples are compared as numbers. Many of these bytes are 0, so that one tuple is often the beginning of the other.
        #[test]
        fn tuples_sort_as_their_bytes(
            a in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..30),
            more in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..30),
            same in 0..30usize,
        ) {
            let b = [&a[..same.min(a.len())], &more].concat();
            let of = |bytes: &[u8]| {
                let mut tuple = Tuple::default();
                tuple.extend(bytes);
                tuple
            };
            prop_assert_eq!(of(&a).cmp(&of(&b)), a.cmp(&b));
            prop_assert_eq!(of(&a) == of(&b), a == b);
        }
    }

    #[test]
    fn bytes_of_another_type_are_refused() {
        assert_eq!(Tuple::of(&7u16).get::<u32>(), None);
        assert_eq!(Tuple::of(&7u16).get::<u8>(), None);
        assert_eq!(Tuple::of(&9u8).get::<IpAddr>(), None);
        assert_eq!(Tuple::of(&7u8).get::<String>(), None);
        assert_eq!(Tuple::of(&u8::MAX).after(), None);
    }

    #[test]
    fn paths_that_are_equal_are_equal_tuples() {
        let of = |path: &str| Tuple::of(Path::new(path));
        assert_eq!(of("/a//b/./c"), of("/a/b/c"));
        assert_ne!(of("/a/b"), of("a/b"));
        assert_eq!(of("/a/b").get::<PathBuf>(), Some("/a/b".into()));
    }

    #[test]
    fn the_key_of_a_route_is_stored_inline() {
        let key = Tuple::of(&(7u16, IpAddr::V6(1.into()), 128u8));
        assert!(matches!(key.0, Bytes::Inline(20, _)));
        assert!(size_of::<Tuple>() <= 24);
    }
}
