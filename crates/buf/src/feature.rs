//! Feature fields: data about a packet for later nodes of the same feature.
//!
//! Each buffer has 64 bytes for feature fields. A feature registers a type while the graph is being built,
//! and gets a handle ([`FeatureField`]). With the handle, the feature's nodes read and write the field of any
//! packet ([`Packet::feature`], [`Packet::feature_mut`]).
//!
//! **A field is zero until its feature writes it.** A packet begins without fields, whatever an earlier
//! packet left in its buffer. The first write by any feature clears all 64 bytes and sets
//! [`Flags::FEATURES`]; without that flag a field reads as zeros. So a packet without fields costs nothing,
//! and a feature uses zeros as "not seen yet".
//!
//! A packet keeps its fields on every edge, while it is held, and between threads. Copies of a packet have the same fields. So have the
//! pieces of a fragmented or segmented packet.
//!
//! [`Flags::FEATURES`]: crate::Flags::FEATURES
//! [`Packet::feature`]: crate::Packet::feature
//! [`Packet::feature_mut`]: crate::Packet::feature_mut

use std::any::TypeId;
use std::marker::PhantomData;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::layout::{FEATURE, FEATURE_LEN};

/// A type for fields: plain data, for which any bytes are valid. `zerocopy` derives the traits.
pub trait Field: FromBytes + IntoBytes + KnownLayout + Immutable + Copy + 'static {}
impl<T: FromBytes + IntoBytes + KnownLayout + Immutable + Copy + 'static> Field for T {}

/// The handle of a feature's field: its position in each packet.
pub struct FeatureField<T> {
    /// Offset in the feature bytes: `at + size_of::<T>()` ≤ 64, and a multiple of the alignment of `T`.
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
    /// Returns the field's offset in the buffer.
    #[inline(always)]
    pub(crate) fn offset(self) -> usize {
        FEATURE + usize::from(self.at)
    }
}

impl<T: Field> FeatureField<T> {
    /// Returns the field from the feature bytes of a packet
    /// ([`Packet::feature_bytes`](crate::Packet::feature_bytes)). Returns `None` if the field is zero,
    /// because then the feature has not seen the packet.
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

/// The feature bytes allocated to one feature.
struct Given {
    feature: &'static str,
    at: usize,
    len: usize,
    of: TypeId,
}

impl FeatureFields {
    /// Allocates a field for a feature.
    ///
    /// # Errors
    /// If the feature already has a field, or if the new field does not fit. In the second case, the text lists all fields with their
    /// bytes.
    pub fn add<T: Field>(&mut self, feature: &'static str) -> Result<FeatureField<T>, String> {
        if self.given.iter().any(|g| g.feature == feature) {
            return Err(format!(
                "the feature \"{feature}\" registers a second field: combine both in one type"
            ));
        }
        let (at, len) = (self.end.next_multiple_of(align_of::<T>()), size_of::<T>());
        if at + len > FEATURE_LEN {
            let given: Vec<String> =
                self.given.iter().map(|g| format!("\"{}\" has {}", g.feature, g.len)).collect();
            let given =
                if given.is_empty() { "no other feature has a field".into() } else { given.join(", ") };
            return Err(format!(
                "the field of the feature \"{feature}\" ({len} bytes) does not fit \
                 into the {FEATURE_LEN} bytes that all features share: {given}"
            ));
        }
        self.given.push(Given { feature, at, len, of: TypeId::of::<T>() });
        self.end = at + len;
        Ok(FeatureField { at: at as u8, of: PhantomData })
    }

    /// Returns the field of another feature, for nodes that read it.
    ///
    /// # Errors
    /// If that feature has no field, or a field of another type.
    pub fn find<T: Field>(&self, feature: &str) -> Result<FeatureField<T>, String> {
        match self.given.iter().find(|g| g.feature == feature) {
            Some(g) if g.of == TypeId::of::<T>() => Ok(FeatureField { at: g.at as u8, of: PhantomData }),
            Some(_) => Err(format!("the field of the feature \"{feature}\" has another type")),
            None => Err(format!(
                "the feature \"{feature}\" has no field: install it before the features that read it"
            )),
        }
    }
}
