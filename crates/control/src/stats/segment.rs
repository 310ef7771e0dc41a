//! The memory file of the statistics segment, and how it changes under its readers.
//!
//! While only numbers change, they are overwritten in place. If the structure changes, a new image is written to an unused part of the
//! file. Then the pointer to the directory is changed, and finally the epoch. A reader that begins with the old epoch finds the old or the
//! new directory, both complete, and notices the new epoch after reading. So the flag that makes readers wait during a change is never set.
//! A router that is killed at any moment leaves a complete directory. New images overwrite the oldest ones first.

use std::collections::VecDeque;
use std::ffi::CString;
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::image::{ALIGN, DIRECTORY, EPOCH, Entry, HEADER, Image, header};

/// Bytes that are compared and written together.
const BLOCK: usize = 4096;
/// Bytes at the end of the file that stay unused. Readers check that each vector ends before the end of the file, so the last vector must
/// not end exactly there.
const SLACK: u64 = ALIGN;

/// The segment.
pub struct Segment {
    file: File,
    size: u64,
    epoch: u64,
    current: Option<Image>,
    /// The parts of the file that readers may still read, the oldest first. Each part is given by the offsets of its beginning and
    /// end.
    used: VecDeque<(u64, u64)>,
}

impl Segment {
    /// Creates a segment of `size` bytes, without a directory.
    ///
    /// # Errors
    /// If the kernel has no memory for it.
    pub fn new(size: u64) -> io::Result<Segment> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = File::from(memfd_create(CString::new("volley_stats")?.as_c_str(), flags)?);
        // Through /proc, other processes could open the file for writing. Its mode prevents this for all users but the owner.
        file.set_permissions(Permissions::from_mode(0o400))?;
        file.set_len(size)?;
        // The file can neither shrink nor grow, so that readers never lose mapped memory.
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        file.write_all_at(&header(), 0)?;
        Ok(Segment { file, size, epoch: 0, current: None, used: VecDeque::new() })
    }

    /// Returns a file for readers, which cannot change it.
    ///
    /// # Errors
    /// If the kernel refuses to open it.
    pub fn for_readers(&self) -> io::Result<File> {
        OpenOptions::new().read(true).open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// Publishes these entries.
    ///
    /// # Errors
    /// If they do not fit into the segment, or the system has no memory. Readers still find the earlier entries.
    pub fn publish(&mut self, entries: &[Entry]) -> io::Result<()> {
        if let Some(current) = &mut self.current {
            let next = Image::of(entries, current.at);
            if next.has_form_of(current) {
                for (at, (new, old)) in next.bytes.chunks(BLOCK).zip(current.bytes.chunks(BLOCK)).enumerate()
                {
                    if new != old {
                        self.file.write_all_at(new, current.at + (at * BLOCK) as u64)?;
                    }
                }
                *current = next;
                return Ok(());
            }
        }
        // The size of an image does not depend on its offset.
        let len = Image::of(entries, 0).bytes.len() as u64;
        let at = self.place(len)?;
        let image = Image::of(entries, at);
        self.file.write_all_at(&image.bytes, at)?;
        self.epoch += 1;
        self.file.write_all_at(&image.directory().to_le_bytes(), DIRECTORY)?;
        self.file.write_all_at(&self.epoch.to_le_bytes(), EPOCH)?;
        self.used.push_back((at, at + len));
        self.current = Some(image);
        Ok(())
    }

    /// Returns the offset for a new image of `len` bytes: after the newest image if there is room, otherwise at the start. Forgets the
    /// older images that the new one will overwrite.
    ///
    /// # Errors
    /// If the new image does not fit, or would overwrite the newest image.
    fn place(&mut self, len: u64) -> io::Result<u64> {
        let end = self.size - SLACK;
        let behind = self.used.back().map_or(HEADER, |(_, end)| end.next_multiple_of(ALIGN));
        let at = if behind + len <= end { behind } else { HEADER };
        let full = at + len > end || self.used.back().is_some_and(|(from, to)| at < *to && *from < at + len);
        if full {
            return Err(io::Error::other(format!(
                "two copies of the statistics, {len} bytes each, do not fit into {} bytes: raise statseg {{ size }} in startup.conf",
                self.size
            )));
        }
        self.used.retain(|(from, to)| at >= *to || *from >= at + len);
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::image::{Data, reader};
    use super::*;
    use proptest::prelude::*;

    fn contents(file: &File, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    fn data() -> impl Strategy<Value = Data> {
        let number = any::<u64>();
        prop_oneof![
            number.prop_map(Data::Scalar),
            prop::collection::vec(prop::collection::vec(any::<u64>(), 0..20), 0..4).prop_map(Data::Simple),
            prop::collection::vec(prop::collection::vec(any::<[u64; 2]>(), 0..20), 0..4)
                .prop_map(Data::Combined),
            prop::collection::vec(prop::option::of("[a-z/.]{1,40}"), 0..9).prop_map(Data::Names),
            (0u32..9, any::<u32>()).prop_map(|(entry, column)| Data::Link(entry, column)),
        ]
    }

    fn entries() -> impl Strategy<Value = Vec<Entry>> {
        prop::collection::vec(("[a-z/ ]{1,127}", data()).prop_map(|(name, data)| Entry { name, data }), 1..12)
    }

    proptest! {
        /// After any sequence of changes, a plain reader finds the published entries, and the header has the segment's epoch.
        #[test]
        fn readers_find_what_was_published(steps in prop::collection::vec(entries(), 1..12)) {
            const SIZE: usize = 64 << 10;
            let mut segment = Segment::new(SIZE as u64).unwrap();
            let file = segment.for_readers().unwrap();
            for entries in steps {
                segment.publish(&entries).unwrap();
                let bytes = contents(&file, SIZE);
                prop_assert_eq!(reader::read(&bytes), entries);
                prop_assert_eq!(reader::word(&bytes, EPOCH as usize), segment.epoch);
            }
        }
    }

    #[test]
    fn numbers_change_in_place() {
        let mut segment = Segment::new(1 << 20).unwrap();
        let file = segment.for_readers().unwrap();
        let of = |number| {
            vec![Entry { name: "/if/rx".into(), data: Data::Combined(vec![vec![[number, 1]; 1000]]) }]
        };
        segment.publish(&of(1)).unwrap();
        let before = contents(&file, 48);
        segment.publish(&of(2)).unwrap();
        assert_eq!(contents(&file, 48), before);
        assert_eq!(reader::read(&contents(&file, 1 << 20)), of(2));
        let mut more = of(2);
        more.push(Entry { name: "/if/tx".into(), data: Data::Scalar(0) });
        segment.publish(&more).unwrap();
        assert_ne!(contents(&file, 48), before);
    }

    /// An image that is too large is refused, and the newest image stays. A new image never overwrites the newest one.
    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut segment = Segment::new(16 << 10).unwrap();
        let file = segment.for_readers().unwrap();
        let of = |n| vec![Entry { name: "/n".into(), data: Data::Simple(vec![vec![7; n]]) }];
        segment.publish(&of(400)).unwrap();
        for size in [1_200, 10_000] {
            let refused = segment.publish(&of(size)).unwrap_err().to_string();
            assert!(refused.contains("statseg { size }"), "{refused}");
            assert_eq!(reader::read(&contents(&file, 16 << 10)), of(400));
        }
        for n in 1..400 {
            segment.publish(&of(n)).unwrap();
            assert_eq!(reader::read(&contents(&file, 16 << 10)), of(n));
        }
    }

    #[test]
    fn readers_cannot_change_the_segment() {
        let segment = Segment::new(1 << 20).unwrap();
        let file = segment.for_readers().unwrap();
        assert!(file.write_at(&[1], 0).is_err());
        assert!(file.set_len(0).is_err());
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o400);
    }
}
