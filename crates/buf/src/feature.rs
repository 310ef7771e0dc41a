//! Feature fields: what one node of a feature tells the next one about a packet.
//!
//! Each buffer has 64 bytes for them. A feature registers a type while the graph is built, and gets a handle
//! ([`FeatureField`]) by which its nodes read and write the field of any packet ([`Packet::feature`],
//! [`Packet::feature_mut`]).
//!
//! **A field is zeros until its feature writes it.** A packet begins without fields, whatever lies in its buffer from the
//! one before. The first write by any feature clears all 64 bytes and sets [`Flags::FEATURES`]; without that flag a field
//! reads as zeros. So a packet that no feature writes to pays nothing, and a feature lets zeros mean "not seen yet".
//!
//! Fields stay with their packet on every edge, while it is held, and between threads. Copies have them, and so have the
//! pieces of a packet that is cut.
//!
//! [`Flags::FEATURES`]: crate::Flags::FEATURES
//! [`Packet::feature`]: crate::Packet::feature
//! [`Packet::feature_mut`]: crate::Packet::feature_mut

use std::any::TypeId;
use std::marker::PhantomData;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::layout::{FEATURE, FEATURE_LEN};

/// What can be a field: a plain type for which any bytes are valid. `zerocopy` derives the traits.
pub trait Field: FromBytes + IntoBytes + KnownLayout + Immutable + Copy + 'static {}
impl<T: FromBytes + IntoBytes + KnownLayout + Immutable + Copy + 'static> Field for T {}

/// Where a feature's field is in each packet.
pub struct FeatureField<T> {
    /// From the start of the feature bytes: `at + size_of::<T>()` ≤ 64, and a multiple of the alignment of `T`.
    at: u8,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for FeatureField<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for FeatureField<T> {}

impl<T> FeatureField<T> {
    /// From the start of the buffer.
    #[inline(always)]
    pub(crate) fn offset(self) -> usize {
        FEATURE + usize::from(self.at)
    }
}

impl<T: Field> FeatureField<T> {
    /// The field among the feature bytes of a packet ([`Packet::feature_bytes`](crate::Packet::feature_bytes)); `None` when
    /// it is zeros, so that its feature has not seen the packet.
    pub fn among(self, bytes: &[u8; FEATURE_LEN]) -> Option<T> {
        let (value, _) = T::read_from_prefix(bytes.get(usize::from(self.at)..)?).ok()?;
        value.as_bytes().iter().any(|b| *b != 0).then_some(value)
    }
}

/// The fields of all features of a graph.
#[derive(Default)]
pub struct FeatureFields {
    given: Vec<Given>,
    end: usize,
}

/// Which bytes a feature has.
struct Given {
    feature: &'static str,
    at: usize,
    len: usize,
    of: TypeId,
}

impl FeatureFields {
    /// Gives a feature a field of its own.
    ///
    /// # Errors
    /// When the feature has a field already, or there is no room; the text says which features have it.
    pub fn add<T: Field>(&mut self, feature: &'static str) -> Result<FeatureField<T>, String> {
        if self.given.iter().any(|g| g.feature == feature) {
            return Err(format!("the feature \"{feature}\" registers a second field: make both one type"));
        }
        let (at, len) = (self.end.next_multiple_of(align_of::<T>()), size_of::<T>());
        if at + len > FEATURE_LEN {
            let given: Vec<String> =
                self.given.iter().map(|g| format!("\"{}\" has {}", g.feature, g.len)).collect();
            let given = if given.is_empty() { "nobody else has any".into() } else { given.join(", ") };
            return Err(format!(
                "there is no room for the field of the feature \"{feature}\", {len} bytes, \
                 in the {FEATURE_LEN} that packets have for all features: {given}"
            ));
        }
        self.given.push(Given { feature, at, len, of: TypeId::of::<T>() });
        self.end = at + len;
        Ok(FeatureField { at: at as u8, of: PhantomData })
    }

    /// The field that another feature was given, for whoever reads what that one tells.
    ///
    /// # Errors
    /// When that feature has no field, or one of another type.
    pub fn find<T: Field>(&self, feature: &str) -> Result<FeatureField<T>, String> {
        match self.given.iter().find(|g| g.feature == feature) {
            Some(g) if g.of == TypeId::of::<T>() => Ok(FeatureField { at: g.at as u8, of: PhantomData }),
            Some(_) => Err(format!("the field of the feature \"{feature}\" is of another type")),
            None => {
                Err(format!("the feature \"{feature}\" has no field: install it before those that read it"))
            }
        }
    }
}
