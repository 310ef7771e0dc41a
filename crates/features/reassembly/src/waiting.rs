//! Stores datagrams with missing fragments: the state of each datagram, and its waiting fragments. Limits
//! apply to the number of datagrams, fragments and buffers, and to the time.
//!
//! All memory is reserved when the limits are set. A full table evicts its oldest datagram. So the newest
//! datagrams have the best chance to be completed, and a flood of fragments cannot keep new datagrams out.

use std::collections::HashMap;
use std::hash::Hash;

use infra::hash::Seeded;

/// Stands for no slot or no datagram, where an index is expected.
pub const NONE: u32 = u32::MAX;

/// Limits on waiting datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of datagrams.
    pub datagrams: u32,
    /// Maximum number of fragments of one datagram.
    pub fragments: u32,
    /// Maximum number of buffers of all waiting fragments.
    pub buffers: u32,
    /// Lifetime of a datagram in nanoseconds, counted from the arrival of its earliest fragment.
    pub timeout: u64,
}

/// How many datagrams, fragments and buffers wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Number of datagrams.
    pub datagrams: u32,
    /// Number of fragments of all datagrams.
    pub fragments: u32,
    /// Number of buffers of these fragments.
    pub buffers: u32,
}

/// Why the oldest datagram was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There were too many datagrams.
    Datagrams,
    /// The waiting fragments had too many buffers.
    Buffers,
}

/// The position of a fragment's data in the datagram, and the number of the fragment's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the fragment's first byte in the datagram's payload.
    pub start: u32,
    /// Offset of the first byte after the fragment.
    pub end: u32,
    /// Number of the fragment's buffers.
    pub buffers: u32,
}

/// A slot for one fragment. It is in the list of the fragment's datagram, or in the list of free slots.
struct Place<T> {
    item: Option<T>,
    span: Span,
    next: u32,
}

/// A datagram. It is an element of the list of all datagrams in order of age.
struct Context<K, C> {
    key: K,
    state: C,
    /// Time at which the first of the datagram's fragments arrived, in nanoseconds.
    since: u64,
    older: u32,
    newer: u32,
    head: u32,
    tail: u32,
    fill: Fill,
}

/// One datagram, with the data for show commands.
#[derive(Clone, Copy, Debug)]
pub struct View<K, C> {
    /// The datagram's key.
    pub key: K,
    /// Time at which the first of the datagram's fragments arrived, in nanoseconds.
    pub since: u64,
    /// The numbers of the datagram's waiting fragments and of their buffers.
    pub fill: Fill,
    /// The datagram's state.
    pub state: C,
}

/// A table of datagrams by their keys `K`, each with a state `C` and its waiting fragments `T`.
pub struct Waiting<K, C, T> {
    limits: Limits,
    fill: Fill,
    index: HashMap<K, u32, Seeded>,
    contexts: Vec<Option<Context<K, C>>>,
    free_contexts: Vec<u32>,
    oldest: u32,
    newest: u32,
    places: Vec<Place<T>>,
    free_place: u32,
}

impl<K: Copy + Eq + Hash, C: Copy, T> Waiting<K, C, T> {
    /// Returns an empty table.
    pub fn new(limits: Limits) -> Waiting<K, C, T> {
        let mut waiting = Waiting {
            limits,
            fill: Fill::default(),
            index: HashMap::with_hasher(Seeded::default()),
            contexts: Vec::new(),
            free_contexts: Vec::new(),
            oldest: NONE,
            newest: NONE,
            places: Vec::new(),
            free_place: NONE,
        };
        waiting.set_limits(limits);
        waiting
    }

    /// Sets the limits, and reserves the memory for them. Drops nothing yet: [`open`](Self::open) and [`keep`](Self::keep) evict what
    /// exceeds the new limits.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        // Twice as large as needed, so that removals never make it grow.
        let datagrams = limits.datagrams as usize;
        self.index.reserve((2 * datagrams).saturating_sub(self.index.len()));
        self.contexts.reserve(datagrams.saturating_sub(self.contexts.len()));
        self.free_contexts.reserve(datagrams.saturating_sub(self.free_contexts.len()));
        // Each fragment has at least one buffer.
        self.places.reserve((limits.buffers as usize).saturating_sub(self.places.len()));
    }

    /// Returns the limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns how many datagrams, fragments and buffers wait.
    pub fn fill(&self) -> Fill {
        self.fill
    }

    /// Returns the datagrams, the oldest first.
    pub fn views(&self) -> impl Iterator<Item = View<K, C>> {
        let context = |at: u32| self.contexts.get(at as usize)?.as_ref();
        std::iter::successors(context(self.oldest), move |c| context(c.newer)).map(|c| View {
            key: c.key,
            since: c.since,
            fill: c.fill,
            state: c.state,
        })
    }

    fn context(&mut self, at: u32) -> Option<&mut Context<K, C>> {
        self.contexts.get_mut(at as usize)?.as_mut()
    }

    /// Returns the index of the datagram `key`; `None` if there is no such datagram.
    pub fn find(&self, key: &K) -> Option<u32> {
        self.index.get(key).copied()
    }

    /// Returns the state of the datagram at `at`; `None` if there is no such datagram.
    pub fn state(&mut self, at: u32) -> Option<&mut C> {
        self.context(at).map(|c| &mut c.state)
    }

    /// Returns the number of fragments of the datagram at `at`; 0 if there is no such datagram.
    pub fn fragments(&self, at: u32) -> u32 {
        self.contexts.get(at as usize).and_then(Option::as_ref).map_or(0, |c| c.fill.fragments)
    }

    /// Adds a new datagram and returns its index; `None` if the limit is 0. While there are too many
    /// datagrams, evicts the oldest one and passes its fragments to `refuse`.
    pub fn open(&mut self, now: u64, key: K, state: C, mut refuse: impl FnMut(Why, T)) -> Option<u32> {
        while self.fill.datagrams > 0 && self.fill.datagrams >= self.limits.datagrams {
            self.close(self.oldest, |_, item| refuse(Why::Datagrams, item));
        }
        if self.limits.datagrams == 0 {
            return None;
        }
        let at = self.free_contexts.pop().unwrap_or_else(|| {
            self.contexts.push(None);
            self.contexts.len() as u32 - 1
        });
        let older = std::mem::replace(&mut self.newest, at);
        match self.context(older) {
            Some(context) => context.newer = at,
            None => self.oldest = at,
        }
        let fill = Fill { datagrams: 1, ..Fill::default() };
        let context = Context { key, state, since: now, older, newer: NONE, head: NONE, tail: NONE, fill };
        *self.contexts.get_mut(at as usize)? = Some(context);
        self.index.insert(key, at);
        self.fill.datagrams += 1;
        Some(at)
    }

    /// Stores a fragment of the datagram with the index `at`: in the datagram's list after the slot `after`,
    /// or at the front if `after` is `NONE`. While too many buffers are in use, evicts the oldest of the other
    /// datagrams and passes its fragments to `refuse`.
    ///
    /// # Errors
    /// Returns the fragment if it does not fit although all other datagrams have been evicted.
    pub fn keep(
        &mut self,
        at: u32,
        after: u32,
        span: Span,
        item: T,
        mut refuse: impl FnMut(Why, T),
    ) -> Result<(), T> {
        let most = self.limits.buffers;
        while self.fill.buffers + span.buffers > most {
            let victim =
                if self.oldest == at { self.context(at).map_or(NONE, |c| c.newer) } else { self.oldest };
            if victim == NONE {
                return Err(item);
            }
            self.close(victim, |_, item| refuse(Why::Buffers, item));
        }
        let next = match self.places.get(after as usize) {
            Some(place) => place.next,
            None => self.context(at).map_or(NONE, |c| c.head),
        };
        let place = match self.places.get_mut(self.free_place as usize) {
            Some(place) => {
                let free = std::mem::replace(&mut self.free_place, place.next);
                *place = Place { item: Some(item), span, next };
                free
            }
            None => {
                self.places.push(Place { item: Some(item), span, next });
                self.places.len() as u32 - 1
            }
        };
        if let Some(before) = self.places.get_mut(after as usize) {
            before.next = place;
        }
        if let Some(context) = self.context(at) {
            if after == NONE {
                context.head = place;
            }
            if next == NONE {
                context.tail = place;
            }
            context.fill.fragments += 1;
            context.fill.buffers += span.buffers;
        }
        self.fill.fragments += 1;
        self.fill.buffers += span.buffers;
        Ok(())
    }

    /// Returns the slot index and the span of the last fragment in a datagram's list; `None` if the list is empty.
    pub fn last(&mut self, at: u32) -> Option<(u32, Span)> {
        let tail = self.context(at)?.tail;
        Some((tail, self.places.get(tail as usize)?.span))
    }

    /// Returns the slot index and the [`Span`] of each fragment of a datagram, in the order of the datagram's list. `at` is the
    /// datagram's index.
    pub fn spans(&self, at: u32) -> impl Iterator<Item = (u32, Span)> {
        let head = self.contexts.get(at as usize).and_then(Option::as_ref).map_or(NONE, |c| c.head);
        let first = self.places.get(head as usize).map(|p| (head, p));
        std::iter::successors(first, |(_, p)| self.places.get(p.next as usize).map(|n| (p.next, n)))
            .map(|(at, p)| (at, p.span))
    }

    /// Removes all fragments of a datagram, and passes them to `each` in the order of the datagram's list. The
    /// datagram stays in the table.
    pub fn empty(&mut self, at: u32, mut each: impl FnMut(Span, T)) {
        let Some(context) = self.context(at) else { return };
        let mut head = std::mem::replace(&mut context.head, NONE);
        context.tail = NONE;
        let fill = std::mem::replace(&mut context.fill, Fill { datagrams: 1, ..Fill::default() });
        self.fill.fragments -= fill.fragments;
        self.fill.buffers -= fill.buffers;
        while let Some(place) = self.places.get_mut(head as usize) {
            let next = std::mem::replace(&mut place.next, self.free_place);
            self.free_place = std::mem::replace(&mut head, next);
            let span = place.span;
            if let Some(item) = place.item.take() {
                each(span, item);
            }
        }
    }

    /// Removes a datagram and all its fragments. Passes the fragments to `each` in the order of the datagram's list.
    pub fn close(&mut self, at: u32, each: impl FnMut(Span, T)) {
        self.empty(at, each);
        let Some(context) = self.contexts.get_mut(at as usize).and_then(Option::take) else { return };
        match self.context(context.older) {
            Some(older) => older.newer = context.newer,
            None => self.oldest = context.newer,
        }
        match self.context(context.newer) {
            Some(newer) => newer.older = context.older,
            None => self.newest = context.older,
        }
        self.index.remove(&context.key);
        self.free_contexts.push(at);
        self.fill.datagrams -= 1;
    }

    /// Returns when the oldest datagram expires, in nanoseconds; `None` if there is no datagram.
    pub fn due(&self) -> Option<u64> {
        let oldest = self.contexts.get(self.oldest as usize)?.as_ref()?;
        Some(oldest.since.saturating_add(self.limits.timeout))
    }

    /// Removes the datagrams that have expired at `now`, at most `most` of them; passes their fragments to
    /// `each`.
    pub fn expire(&mut self, now: u64, most: usize, mut each: impl FnMut(Span, T)) {
        for _ in 0..most {
            if self.due().is_none_or(|due| due > now) {
                return;
            }
            self.close(self.oldest, &mut each);
        }
    }

    /// Removes all datagrams; passes all fragments to `each`.
    pub fn clear(&mut self, mut each: impl FnMut(T)) {
        while self.oldest != NONE {
            self.close(self.oldest, |_, item| each(item));
        }
    }
}
