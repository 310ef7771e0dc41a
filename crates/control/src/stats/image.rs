//! The format of the statistics segment's contents, as programs that read VPP's segment expect it (version 2; host byte order).
//!
//! The segment is a file that readers map. It begins with a header ([`HEADER`] bytes), which points to the directory: a vector of entries
//! of 144 bytes. A vector has 8 bytes before its first element, with the number of elements. Pointers are addresses in the writer's memory;
//! readers subtract the header's base. Here the base is a constant, and a pointer is the base plus the offset in the file.
//!
//! An [`Image`] is a directory with all vectors that it points to, in one piece, so that it can be written before readers find it.

/// Bytes before the first image.
pub const HEADER: u64 = 4096;
/// The base of all pointers.
pub const BASE: u64 = 1 << 32;
/// Alignment of vectors and images in bytes.
pub const ALIGN: u64 = 64;
/// Offset of the epoch in the header. The field after it, at offset 24, which VPP sets during changes, is always 0 here.
pub const EPOCH: u64 = 16;
/// Offset of the pointer to the directory in the header.
pub const DIRECTORY: u64 = 32;
/// Version of the format.
const VERSION: u64 = 2;
/// Bytes of a directory entry.
const ENTRY: usize = 144;
/// Bytes of the name in a directory entry, with the zero at its end.
const NAME: usize = 128;
/// Offset of an entry's value or pointer.
const VALUE: usize = 8;

/// The contents of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// A number.
    Scalar(u64),
    /// A counter for each thread and index; an index stands for an interface, a node or a drop reason, for example.
    Simple(Vec<Vec<u64>>),
    /// A counter of packets and a counter of bytes for each thread and index.
    Combined(Vec<Vec<[u64; 2]>>),
    /// A name for each index, if it has one.
    Names(Vec<Option<String>>),
    /// A link to a column of another entry: the number of the entry, and the index of the column.
    Link(u32, u32),
}

/// A named entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The name, of at most 127 bytes.
    pub name: String,
    /// The contents.
    pub data: Data,
}

/// A directory and its vectors.
pub struct Image {
    /// Offset in the file.
    pub at: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The parts of the image that clients may cache during an epoch: names, types and offsets. If two images differ in them, a new epoch
    /// begins.
    structure: Vec<u8>,
}

impl Image {
    /// Builds the image of these entries for an offset in the file, a multiple of [`ALIGN`].
    pub fn of(entries: &[Entry], at: u64) -> Image {
        let mut image = Image { at, bytes: Vec::new(), structure: Vec::new() };
        let directory = image.vector(entries.len(), ENTRY);
        for (entry, place) in entries.iter().zip((directory..).step_by(ENTRY)) {
            image.entry(entry, place);
        }
        image
    }

    /// Returns the pointer to the directory, which is the first vector.
    pub fn directory(&self) -> u64 {
        BASE + self.at + ALIGN
    }

    /// True if readers that know the other image find everything at the same offset in this one.
    pub fn has_form_of(&self, other: &Image) -> bool {
        self.structure == other.structure && self.bytes.len() == other.bytes.len()
    }

    fn entry(&mut self, entry: &Entry, place: usize) {
        let (kind, value) = match &entry.data {
            Data::Scalar(number) => (1, *number),
            Data::Simple(threads) => {
                (2, self.threads(threads, 8, |number, to| to.copy_from_slice(&number.to_le_bytes())))
            }
            Data::Combined(threads) => {
                let put = |[packets, bytes]: &[u64; 2], to: &mut [u8]| {
                    let (first, second) = to.split_at_mut(8);
                    first.copy_from_slice(&packets.to_le_bytes());
                    second.copy_from_slice(&bytes.to_le_bytes());
                };
                (3, self.threads(threads, 16, put))
            }
            Data::Names(names) => (4, self.names(names)),
            Data::Link(entry, column) => (6, u64::from(*column) << 32 | u64::from(*entry)),
        };
        let name = name_of(&entry.name);
        self.put(place, &u64::to_le_bytes(kind));
        self.put(place + VALUE, &value.to_le_bytes());
        self.put(place + ENTRY - NAME, name);
        self.structure.push(kind as u8);
        self.structure.extend_from_slice(name);
        self.structure.push(0);
        if !matches!(entry.data, Data::Scalar(_)) {
            self.structure.extend_from_slice(&(value - if kind == 6 { 0 } else { self.at }).to_le_bytes());
        }
    }

    /// Appends a vector for each thread, and a vector of pointers to them. Returns the pointer to the vector of pointers.
    fn threads<T>(&mut self, threads: &[Vec<T>], size: usize, put: impl Fn(&T, &mut [u8])) -> u64 {
        let outer = self.vector(threads.len(), 8);
        for (number, columns) in threads.iter().enumerate() {
            let inner = self.vector(columns.len(), size);
            let to = self.bytes.get_mut(inner..).unwrap_or_default();
            columns.iter().zip(to.chunks_exact_mut(size)).for_each(|(column, to)| put(column, to));
            let pointer = self.pointer(inner);
            self.put(outer + 8 * number, &pointer.to_le_bytes());
            self.structure.extend_from_slice(&(columns.len() as u32).to_le_bytes());
        }
        self.pointer(outer)
    }

    /// Appends names, each a vector of bytes with a final zero, and a vector of pointers to them. Returns the pointer to the vector of
    /// pointers.
    fn names(&mut self, names: &[Option<String>]) -> u64 {
        let outer = self.vector(names.len(), 8);
        for (number, name) in names.iter().enumerate() {
            self.structure.push(u8::from(name.is_some()));
            let Some(name) = name else { continue };
            let inner = self.vector(name.len() + 1, 1);
            self.put(inner, name.as_bytes());
            let pointer = self.pointer(inner);
            self.put(outer + 8 * number, &pointer.to_le_bytes());
            self.structure.extend_from_slice(name.as_bytes());
            self.structure.push(0);
        }
        self.pointer(outer)
    }

    /// Appends a vector of zeros. Returns the offset of its first element in the image.
    fn vector(&mut self, len: usize, size: usize) -> usize {
        // The first element is aligned, and the length is in the 8 bytes before it.
        let first = (self.bytes.len() + 8).next_multiple_of(ALIGN as usize);
        self.bytes.resize(first + len * size, 0);
        self.put(first - 8, &(len as u32).to_le_bytes());
        first
    }

    fn pointer(&self, place: usize) -> u64 {
        BASE + self.at + place as u64
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(to) = self.bytes.get_mut(at..at + bytes.len()) {
            to.copy_from_slice(bytes);
        }
    }
}

/// Returns the bytes of a name, without those that do not fit into an entry.
fn name_of(name: &str) -> &[u8] {
    &name.as_bytes()[..name.floor_char_boundary(NAME - 1)]
}

/// Returns the header of a segment without a directory.
pub fn header() -> Vec<u8> {
    [VERSION, BASE].iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[cfg(test)]
pub(super) mod reader {
    //! A plain reader of segments, as VPP's clients read.
    use super::*;

    /// Returns the entries of a segment, as VPP's clients find them.
    pub fn read(segment: &[u8]) -> Vec<Entry> {
        assert_eq!(
            [word(segment, 0), word(segment, 8), word(segment, 24), word(segment, 40)],
            [2, BASE, 0, 0]
        );
        let directory = place(word(segment, DIRECTORY as usize));
        (0..len(segment, directory)).map(|i| entry(segment, directory + i * ENTRY)).collect()
    }

    pub fn word(segment: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(*segment[at..].first_chunk().unwrap())
    }

    fn place(pointer: u64) -> usize {
        assert!(pointer > BASE);
        (pointer - BASE) as usize
    }

    fn len(segment: &[u8], vector: usize) -> usize {
        assert_eq!(vector % 64, 0);
        u32::from_le_bytes(*segment[vector - 8..].first_chunk().unwrap()) as usize
    }

    fn text(segment: &[u8], at: usize) -> String {
        let bytes = &segment[at..];
        String::from_utf8(bytes[..bytes.iter().position(|b| *b == 0).unwrap()].to_vec()).unwrap()
    }

    fn entry(segment: &[u8], at: usize) -> Entry {
        let value = word(segment, at + 8);
        let words = |pointer| {
            let vector = place(pointer);
            (0..len(segment, vector)).map(move |i| word(segment, vector + 8 * i))
        };
        let data = match word(segment, at) as u32 {
            1 => Data::Scalar(value),
            2 => Data::Simple(words(value).map(|thread| words(thread).collect()).collect()),
            3 => Data::Combined(
                words(value)
                    .map(|thread| {
                        let vector = place(thread);
                        let pair = |i| [word(segment, vector + 16 * i), word(segment, vector + 16 * i + 8)];
                        (0..len(segment, vector)).map(pair).collect()
                    })
                    .collect(),
            ),
            4 => Data::Names(
                words(value).map(|name| (name != 0).then(|| text(segment, place(name)))).collect(),
            ),
            6 => Data::Link(value as u32, (value >> 32) as u32),
            kind => panic!("entry of type {kind}"),
        };
        Entry { name: text(segment, at + 16), data }
    }
}
