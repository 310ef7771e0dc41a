//! Feature fields.

use proptest::prelude::*;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::feature::{FeatureField, FeatureFields};
use crate::{Flags, Held, Pool};

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Session {
    id: u64,
    state: u16,
    spare: [u8; 6],
}

const NAMES: [&str; 8] = ["f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7"];

/// A field of some type, and its last value.
enum Any {
    Byte(FeatureField<u8>, u8),
    Half(FeatureField<u16>, u16),
    Bytes(FeatureField<[u8; 5]>, [u8; 5]),
    Word(FeatureField<u64>, u64),
    Session(FeatureField<Session>, Session),
}

impl Any {
    fn add(fields: &mut FeatureFields, kind: u8, name: &'static str) -> Result<Any, String> {
        Ok(match kind {
            0 => Any::Byte(fields.add(name)?, 0),
            1 => Any::Half(fields.add(name)?, 0),
            2 => Any::Bytes(fields.add(name)?, [0; 5]),
            3 => Any::Word(fields.add(name)?, 0),
            _ => Any::Session(fields.add(name)?, Session::new_zeroed()),
        })
    }

    fn len(kind: u8) -> usize {
        [1, 2, 5, 8, 16][usize::from(kind)]
    }

    fn write(&mut self, held: &mut Held, value: u64) {
        let mut p = held.packet();
        match self {
            Any::Byte(f, v) => (*v, *p.feature_mut(*f)) = (value as u8, value as u8),
            Any::Half(f, v) => (*v, *p.feature_mut(*f)) = (value as u16, value as u16),
            Any::Bytes(f, v) => (*v, *p.feature_mut(*f)) = ([value as u8; 5], [value as u8; 5]),
            Any::Word(f, v) => (*v, *p.feature_mut(*f)) = (value, value),
            Any::Session(f, v) => {
                *v = Session { id: value, state: value as u16, spare: [value as u8; 6] };
                *p.feature_mut(*f) = *v;
            }
        }
    }

    fn check(&self, held: &mut Held) -> bool {
        let p = held.packet();
        match *self {
            Any::Byte(f, v) => p.feature(f) == v,
            Any::Half(f, v) => p.feature(f) == v,
            Any::Bytes(f, v) => p.feature(f) == v,
            Any::Word(f, v) => p.feature(f) == v,
            Any::Session(f, v) => p.feature(f) == v,
        }
    }
}

proptest! {
    /// A write to one field changes no other, in a buffer used before by another packet.
    #[test]
    fn fields_do_not_overlap(
        kinds in prop::collection::vec(0u8..5, 1..8),
        writes in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 0..20),
    ) {
        let pool = Pool::new(1)?;
        let mut cache = pool.cache();
        let mut before = Held::alloc(&mut cache).ok_or(TestCaseError::fail("no buffer"))?;
        let all = FeatureFields::default().add::<[u8; 64]>("before").map_err(TestCaseError::fail)?;
        *before.packet().feature_mut(all) = [0xee; 64];
        before.free(&mut cache);
        let mut held = Held::alloc(&mut cache).ok_or(TestCaseError::fail("no buffer"))?;
        let (mut registered, mut fields) = (FeatureFields::default(), Vec::new());
        for (kind, name) in kinds.iter().zip(NAMES) {
            match Any::add(&mut registered, *kind, name) {
                Ok(field) => fields.push(field),
                // Fields are adjacent, as far as their alignment allows: at most 7 bytes for each are unused.
                Err(_) => {
                    let sum: usize = kinds.iter().map(|k| Any::len(*k) + 7).sum();
                    prop_assert!(sum > 64);
                }
            }
        }
        prop_assert!(!fields.is_empty());
        for (which, value) in writes {
            prop_assert!(fields.iter().all(|f| f.check(&mut held)));
            let which = which.index(fields.len());
            fields[which].write(&mut held, value);
        }
        prop_assert!(fields.iter().all(|f| f.check(&mut held)));
        held.free(&mut cache);
    }
}

#[test]
fn fields_that_exceed_the_room_are_refused_by_name() {
    let mut fields = FeatureFields::default();
    assert!(fields.add::<[u8; 50]>("nat44").is_ok());
    assert!(fields.add::<u32>("acl").is_ok());
    assert_eq!(
        fields.add::<[u8; 9]>("policer").err().as_deref(),
        Some(
            "the field of the feature \"policer\" (9 bytes) does not fit into the 64 bytes that all \
             features share: \"nat44\" has 50, \"acl\" has 4"
        )
    );
    assert_eq!(
        fields.add::<u8>("acl").err().as_deref(),
        Some("the feature \"acl\" registers a second field: combine both in one type")
    );
    // The u64 is aligned to 8 bytes: it takes the last 8 of the 64 bytes, and leaves no room for another field.
    assert!(fields.add::<u64>("policer").is_ok() && fields.add::<u8>("flow").is_err());
    let large = FeatureFields::default().add::<[u64; 9]>("large").err().unwrap_or_default();
    assert!(large.ends_with("no other feature has a field"), "{large}");
    assert!(FeatureFields::default().add::<[u64; 8]>("all").is_ok());
}

#[test]
fn a_field_is_found_by_name_and_type() -> std::io::Result<()> {
    let mut fields = FeatureFields::default();
    let mut add = |name| fields.add::<u32>(name).map_err(std::io::Error::other);
    let (one, two) = (add("one")?, add("two")?);
    let found = fields.find::<u32>("two").map_err(std::io::Error::other)?;
    let pool = Pool::new(1)?;
    let mut cache = pool.cache();
    let mut held = Held::alloc(&mut cache).ok_or(std::io::ErrorKind::OutOfMemory)?;
    assert_eq!(held.packet().feature_bytes(), None);
    *held.packet().feature_mut(two) = 7;
    assert_eq!(held.packet().feature(found), 7);
    let bytes = held.packet().feature_bytes().unwrap_or([1; 64]);
    assert_eq!((one.among(&bytes), two.among(&bytes)), (None, Some(7)));
    held.free(&mut cache);
    let refused = |found: Result<FeatureField<[u8; 4]>, String>| found.err().unwrap_or_default();
    assert_eq!(refused(fields.find("two")), "the field of the feature \"two\" has another type");
    assert!(refused(fields.find("three")).starts_with("the feature \"three\" has no field"));
    Ok(())
}

#[test]
fn only_writing_makes_fields_valid() -> std::io::Result<()> {
    let pool = Pool::new(2)?;
    let mut cache = pool.cache();
    let field = FeatureFields::default().add::<u32>("f").map_err(std::io::Error::other)?;
    let alloc = |cache: &mut _| Held::alloc(cache).ok_or(std::io::ErrorKind::OutOfMemory);
    let (mut one, mut two) = (alloc(&mut cache)?, alloc(&mut cache)?);
    *one.packet().feature_mut(field) = 7;
    // `set_flags` must not change whether the fields are valid.
    one.packet().set_flags(Flags::GSO);
    assert_eq!((one.packet().flags(), one.packet().feature(field)), (Flags::GSO | Flags::FEATURES, 7));
    two.packet().set_flags(Flags::FEATURES);
    assert_eq!((two.packet().flags(), two.packet().feature(field)), (Flags::NONE, 0));
    // A piece of a packet has the fields of the packet. If the packet has no fields, the piece has none either.
    two.packet().copy_features(&one.packet());
    *one.packet().feature_mut(field) = 8;
    assert_eq!(two.packet().feature(field), 7);
    one.packet().forget_features();
    assert_eq!(one.packet().feature(field), 0);
    two.packet().copy_features(&one.packet());
    assert_eq!((two.packet().feature(field), two.packet().flags()), (0, Flags::NONE));
    one.free(&mut cache);
    two.free(&mut cache);
    Ok(())
}
