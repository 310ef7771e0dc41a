//! Encoding of fields: packed, without padding, in network byte order. Floating-point numbers are little-endian.

use std::fmt;

use crate::shape::Shape;

/// A message or field that does not have the form of its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The message ends within a field.
    Short,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformed::Short => "the message is shorter than its definition",
        })
    }
}

impl std::error::Error for Malformed {}

/// A type of a field.
pub trait Field: Sized + Default {
    /// The type's description.
    const SHAPE: &'static Shape;

    /// Appends the encoded value.
    fn put(&self, w: &mut Writer);

    /// Decodes a value.
    ///
    /// # Errors
    /// If the bytes end too early.
    fn take(r: &mut Reader<'_>) -> Result<Self, Malformed>;
}

/// Encodes fields.
#[derive(Default)]
pub struct Writer {
    bytes: Vec<u8>,
    /// Offset and length of the [`Count`] to fill in.
    count: Option<(usize, usize)>,
}

impl Writer {
    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the encoded fields.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Reserves this many bytes for the number of elements of the array that follows.
    pub(crate) fn reserve_count(&mut self, length: usize) {
        self.count = Some((self.bytes.len(), length));
        self.bytes.resize(self.bytes.len() + length, 0);
    }

    /// Writes the number of elements into the field that was reserved last. Returns `None` if the number does not fit; the field then gets
    /// the lower bytes of the number.
    pub(crate) fn fill_count(&mut self, n: usize) -> Option<()> {
        let Some((at, length)) = self.count.take() else { return Some(()) };
        let place = self.bytes.get_mut(at..at + length)?;
        let number = (n as u64).to_be_bytes();
        let (upper, lower) = number.split_at(number.len().checked_sub(length)?);
        place.copy_from_slice(lower);
        upper.iter().all(|byte| *byte == 0).then_some(())
    }
}

/// Decodes fields.
pub struct Reader<'a> {
    rest: &'a [u8],
    /// The value of the last [`Count`].
    count: u64,
}

impl<'a> Reader<'a> {
    /// Returns a reader of these bytes.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes, count: 0 }
    }

    /// Takes the next `n` bytes.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(n).ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Sets the number of elements of the following [`Vec`].
    pub(crate) fn announce(&mut self, n: u64) {
        self.count = n;
    }

    /// Returns the number of elements of the following [`Vec`]. Every element has at least one byte, so a number larger than the number of
    /// remaining bytes is refused before memory is allocated for it.
    pub(crate) fn announced(&self) -> Result<usize, Malformed> {
        usize::try_from(self.count).ok().filter(|n| *n <= self.rest.len()).ok_or(Malformed::Short)
    }

    /// Takes the next `N` bytes.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(*taken)
    }
}

macro_rules! number {
    ($($t:ident)*) => { $(
        impl Field for $t {
            const SHAPE: &'static Shape = &Shape::Plain(stringify!($t));
            fn put(&self, w: &mut Writer) {
                w.put(&self.to_be_bytes());
            }
            fn take(r: &mut Reader<'_>) -> Result<Self, Malformed> {
                r.array().map($t::from_be_bytes)
            }
        }
    )* };
}
number!(u8 u16 u32 u64 i8 i16 i32 i64);

impl Field for bool {
    const SHAPE: &'static Shape = &Shape::Plain("bool");
    fn put(&self, w: &mut Writer) {
        w.put(&[u8::from(*self)]);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(u8::take(r)? != 0)
    }
}

impl Field for f64 {
    const SHAPE: &'static Shape = &Shape::Plain("f64");
    fn put(&self, w: &mut Writer) {
        w.put(&self.to_le_bytes());
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.array().map(f64::from_le_bytes)
    }
}

/// An array of fixed length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Array<T, const N: usize>(pub [T; N]);

impl<T: Default, const N: usize> Default for Array<T, N> {
    fn default() -> Self {
        Array(std::array::from_fn(|_| T::default()))
    }
}

impl<T: Field, const N: usize> Field for Array<T, N> {
    const SHAPE: &'static Shape = &Shape::Array(T::SHAPE, N);
    fn put(&self, w: &mut Writer) {
        self.0.iter().for_each(|element| element.put(w));
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut all = Self::default();
        for element in &mut all.0 {
            *element = T::take(r)?;
        }
        Ok(all)
    }
}

/// A text of at most `N` - 1 bytes, filled up with zeros to `N` bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text<const N: usize>(pub String);

impl<const N: usize> From<&str> for Text<N> {
    fn from(text: &str) -> Self {
        Text(text.to_owned())
    }
}

impl<const N: usize> Field for Text<N> {
    const SHAPE: &'static Shape = &Shape::Text(N);

    /// Truncates a text that is too long.
    fn put(&self, w: &mut Writer) {
        let end = self.0.floor_char_boundary(N.saturating_sub(1));
        w.put(&self.0.as_bytes()[..end]);
        w.bytes.resize(w.bytes.len() + N - end, 0);
    }

    fn take(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let bytes = r.bytes(N)?;
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(N);
        Ok(Text(String::from_utf8_lossy(&bytes[..end]).into_owned()))
    }
}

/// A text of any length, the last field of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line(pub String);

impl Field for Line {
    const SHAPE: &'static Shape = &Shape::Line;

    fn put(&self, w: &mut Writer) {
        (self.0.len() as u32).put(w);
        w.put(self.0.as_bytes());
    }

    fn take(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let length = u32::take(r)? as usize;
        let bytes = r.bytes(length)?;
        // VPP's clients in C send the final zero, too.
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(length);
        Ok(Line(String::from_utf8_lossy(&bytes[..end]).into_owned()))
    }
}

/// A field with the number of elements of the [`Vec`] that follows it. Encoding the `Vec` fills in this number, and decoding the
/// `Vec` uses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count<T>(std::marker::PhantomData<T>);

impl<T: Field + Into<u64>> Field for Count<T> {
    const SHAPE: &'static Shape = &Shape::Count(T::SHAPE);

    fn put(&self, w: &mut Writer) {
        w.reserve_count(T::SHAPE.length());
    }

    fn take(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let n = T::take(r)?.into();
        r.announce(n);
        Ok(Count::default())
    }
}

/// An array as the last field of a message. The preceding [`Count`] contains the number of its elements.
impl<T: Field> Field for Vec<T> {
    const SHAPE: &'static Shape = &Shape::Tail(T::SHAPE);

    fn put(&self, w: &mut Writer) {
        w.fill_count(self.len());
        self.iter().for_each(|element| element.put(w));
    }

    fn take(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let n = r.announced()?;
        (0..n).map(|_| T::take(r)).collect()
    }
}
