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

use std::marker::PhantomData;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::layout::{FEATURE, FEATURE_LEN};

/// What can be a field: a plain type for which any bytes are valid. `zerocopy` derives the traits.
pub trait Field: FromBytes + IntoBytes + KnownLayout + Immutable + Copy {}
impl<T: FromBytes + IntoBytes + KnownLayout + Immutable + Copy> Field for T {}

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

/// The fields of all features of a graph.
#[derive(Default)]
pub struct FeatureFields {
    /// Features with the bytes that they have.
    given: Vec<(&'static str, usize)>,
    end: usize,
}

impl FeatureFields {
    /// Gives a feature a field of its own.
    ///
    /// # Errors
    /// When the feature has a field already, or there is no room; the text says which features have it.
    pub fn add<T: Field>(&mut self, feature: &'static str) -> Result<FeatureField<T>, String> {
        if self.given.iter().any(|(name, _)| *name == feature) {
            return Err(format!("the feature \"{feature}\" registers a second field: make both one type"));
        }
        let (at, len) = (self.end.next_multiple_of(align_of::<T>()), size_of::<T>());
        if at + len > FEATURE_LEN {
            let given: Vec<String> =
                self.given.iter().map(|(name, n)| format!("\"{name}\" has {n}")).collect();
            let given = if given.is_empty() { "nobody else has any".into() } else { given.join(", ") };
            return Err(format!(
                "there is no room for the field of the feature \"{feature}\", {len} bytes, \
                 in the {FEATURE_LEN} that packets have for all features: {given}"
            ));
        }
        self.given.push((feature, len));
        self.end = at + len;
        Ok(FeatureField { at: at as u8, of: PhantomData })
    }
}
