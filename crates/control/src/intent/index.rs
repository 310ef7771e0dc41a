//! What objects of the tree are found by, where there may be very many of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use drivers::pcap;
use net::ethernet::Tags;
use net::ip::IpPrefix;

use super::{Interface, Key, Need, Spec, Value, Via, list};

/// Where routes lead to: the next hop, the interface if they name one, and the VRF that they are in.
type Hop = (IpAddr, Option<String>, u16);

/// Objects by what others ask for. Everything here names the interface or route that it is of, so that an object's own
/// can be taken out again.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Index {
    /// Sub-interfaces: parent, tags, name.
    tagged: BTreeSet<(String, Tags, String)>,
    /// Interfaces by their index.
    numbers: BTreeSet<(u32, String)>,
    /// Taps whose other end is the host's: its name there, and that of the tap.
    taps: BTreeSet<(String, String)>,
    /// Files that devices record to, and their interfaces.
    records: BTreeSet<(PathBuf, String)>,
    /// Addresses of interfaces: VRF, address, interface.
    owners: BTreeSet<(u16, IpAddr, String)>,
    /// Networks of interfaces, but the link-local ones: VRF, network, interface.
    networks: BTreeSet<(u16, IpPrefix, String)>,
    /// How many paths there are for each; never none.
    hops: BTreeMap<Hop, usize>,
    /// How many paths name each interface, and how many lead to each VRF: what routes need, but for their own VRFs.
    exits: BTreeMap<Exit, usize>,
    /// Those that use the addresses of another interface: that one, and they.
    borrowers: BTreeSet<(String, String)>,
}

/// What a path of a route needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Exit {
    Table(u16),
    Interface(String),
}

/// Adds so many to what there are of each.
fn add<K: Ord>(all: &mut BTreeMap<K, usize>, more: BTreeMap<K, usize>) {
    for (key, n) in more {
        *all.entry(key).or_default() += n;
    }
}

/// Takes so many away, and what there are none of.
fn take<K: Ord>(all: &mut BTreeMap<K, usize>, fewer: &BTreeMap<K, usize>) {
    for (key, n) in fewer {
        if let Some(left) = all.get_mut(key) {
            *left -= n;
            if *left == 0 {
                all.remove(key);
            }
        }
    }
}

/// The interface or sub-interface with this name, of what `get` gives.
pub(super) fn interface<'t>(name: &str, get: impl Fn(&Key) -> Option<&'t Value>) -> Option<&'t Interface> {
    let value =
        get(&Key::Interface(name.to_string())).or_else(|| get(&Key::SubInterface(name.to_string())))?;
    if let Value::Interface(i) = value { Some(i) } else { None }
}

impl Index {
    /// That of a whole tree.
    pub fn of(tree: &BTreeMap<Key, Value>) -> Index {
        Index::of_some(tree.keys(), |key| tree.get(key))
    }

    /// That of the objects with these keys, and of what lies elsewhere because of them; `get` gives any object.
    fn of_some<'t>(
        keys: impl Iterator<Item = &'t Key>,
        get: impl Fn(&Key) -> Option<&'t Value> + Copy,
    ) -> Index {
        let mut index = Index::default();
        for key in keys {
            if let Key::Interface(name) | Key::SubInterface(name) | Key::Addresses(name) = key {
                index.add_addresses(name, get);
            }
            match (key, get(key)) {
                (Key::Interface(name) | Key::SubInterface(name), Some(Value::Interface(i))) => {
                    index.numbers.extend(i.index.map(|number| (number, name.clone())));
                    match &i.spec {
                        Spec::Sub { parent, tags, .. } => {
                            index.tagged.insert((parent.clone(), *tags, name.clone()));
                        }
                        Spec::Tap(_, c) if c.host_namespace.is_none() => {
                            index.taps.insert((c.host_name.clone(), name.clone()));
                        }
                        Spec::Pcap(_, pcap::Config { record: Some(record), .. }) => {
                            index.records.insert((record.file.clone(), name.clone()));
                        }
                        _ => {}
                    }
                }
                (Key::Unnumbered(borrower), Some(Value::Unnumbered(lender))) => {
                    index.borrowers.insert((lender.clone(), borrower.clone()));
                }
                (Key::Route(table, _), Some(Value::Route(r))) => {
                    for (via, _) in r.paths() {
                        if let Via::NextHop(ip, by) = via {
                            *index.hops.entry((*ip, by.clone(), *table)).or_default() += 1;
                        }
                        let exit = match via {
                            Via::Table(_, other) => Some(Exit::Table(*other)),
                            via => via.interface().cloned().map(Exit::Interface),
                        };
                        if let Some(exit) = exit {
                            *index.exits.entry(exit).or_default() += 1;
                        }
                    }
                }
                _ => {}
            }
        }
        index
    }

    /// Adds an interface's addresses, which are where the interface is.
    fn add_addresses<'t>(&mut self, name: &str, get: impl Fn(&Key) -> Option<&'t Value> + Copy) {
        let addresses = list(get(&Key::Addresses(name.to_string())));
        if let Some(table) = interface(name, get).map(|i| i.table) {
            self.owners.extend(addresses.iter().map(|a| (table, a.address, name.to_string())));
            let apart = addresses.iter().filter(|a| !a.is_link_local());
            self.networks.extend(apart.map(|a| (table, a.network(), name.to_string())));
        }
    }

    /// Gives indices to interfaces that say none, which others do not have: the one that it `has`, or else the lowest that is free.
    /// `among`: what changes, by name; of the others this is the index.
    pub fn number<'t>(
        &self,
        mut among: Vec<(&'t str, &'t mut Interface)>,
        has: impl Fn(&str) -> Option<u32>,
    ) -> Vec<(u32, String)> {
        if among.iter().all(|(_, i)| i.index.is_some()) {
            return Vec::new();
        }
        for (name, i) in &mut among {
            if i.index.is_none() {
                i.index = has(name);
            }
        }
        let names: BTreeSet<&str> = among.iter().map(|(name, _)| *name).collect();
        let others = self.numbers.iter().filter(|(_, name)| !names.contains(name.as_str()));
        let mut taken: Vec<u32> =
            others.map(|(n, _)| *n).chain(among.iter().filter_map(|(_, i)| i.index)).collect();
        taken.sort_unstable();
        let (mut free, mut behind) = (0, taken.into_iter().peekable());
        for (_, i) in among.iter_mut().filter(|(_, i)| i.index.is_none()) {
            while let Some(n) = behind.next_if(|n| *n <= free) {
                free = free.max(n + 1);
            }
            i.index = Some(free);
            free += 1;
        }
        among.into_iter().filter_map(|(name, i)| Some((i.index?, name.to_string()))).collect()
    }

    /// These interfaces have these indices.
    pub fn add_numbers(&mut self, numbers: Vec<(u32, String)>) {
        self.numbers.extend(numbers);
    }

    /// Objects change: what is found of them from what it was to what it is now.
    pub fn replace(&mut self, Changed { was, now }: Changed) {
        fn change<T: Ord>(set: &mut BTreeSet<T>, was: &BTreeSet<T>, now: BTreeSet<T>) {
            for place in was {
                set.remove(place);
            }
            set.extend(now);
        }
        change(&mut self.tagged, &was.tagged, now.tagged);
        change(&mut self.numbers, &was.numbers, now.numbers);
        change(&mut self.taps, &was.taps, now.taps);
        change(&mut self.records, &was.records, now.records);
        change(&mut self.owners, &was.owners, now.owners);
        change(&mut self.networks, &was.networks, now.networks);
        change(&mut self.borrowers, &was.borrowers, now.borrowers);
        add(&mut self.hops, now.hops);
        take(&mut self.hops, &was.hops);
        add(&mut self.exits, now.exits);
        take(&mut self.exits, &was.exits);
    }

    /// Whether routes need this, otherwise than as the VRF that they are in.
    pub fn has_exit(&self, need: Need<'_>) -> bool {
        exit(need).is_some_and(|exit| self.exits.contains_key(&exit))
    }
}

/// What routes may need, otherwise than as the VRF that they are in.
fn exit(need: Need<'_>) -> Option<Exit> {
    match need {
        Need::Table(t) => Some(Exit::Table(t)),
        Need::Interface(name) => Some(Exit::Interface(name.to_string())),
        Need::MemifSocket(_) => None,
    }
}

/// The index of what a transaction changes.
#[derive(Default)]
pub(super) struct Changed {
    was: Index,
    now: Index,
}

impl Changed {
    /// The objects with these keys change; `was` and `now` give any object before and after.
    pub fn of<'t>(
        keys: impl Iterator<Item = &'t Key> + Clone,
        was: impl Fn(&Key) -> Option<&'t Value> + Copy,
        now: impl Fn(&Key) -> Option<&'t Value> + Copy,
    ) -> Changed {
        Changed { was: Index::of_some(keys.clone(), was), now: Index::of_some(keys, now) }
    }
}

/// The index of a tree as it would be after a change.
pub(super) struct Layers<'s> {
    pub tree: &'s Index,
    pub changed: Changed,
}

impl Layers<'_> {
    /// From this place on, as long as `fits` says so.
    fn range<'v, T: Ord + 'v>(
        &'v self,
        set: fn(&Index) -> &BTreeSet<T>,
        from: T,
        fits: impl Fn(&T) -> bool + Copy,
    ) -> impl Iterator<Item = &'v T> {
        let Changed { was, now } = &self.changed;
        let old = set(self.tree).range(&from..).take_while(move |place| fits(place));
        let old = old.filter(move |place| !set(was).contains(place));
        old.chain(set(now).range(&from..).take_while(move |place| fits(place)))
    }

    /// The sub-interfaces of `parent` with these tags; more than one only in a tree that nobody has validated.
    pub fn tagged<'v>(&'v self, parent: &'v str, tags: Tags) -> impl Iterator<Item = &'v str> {
        let from = (parent.to_string(), tags, String::new());
        self.range(|i| &i.tagged, from, move |(p, t, _)| p == parent && *t == tags)
            .map(|(.., name)| name.as_str())
    }

    /// The interfaces with this index; more than one only in a tree that nobody has validated.
    pub fn numbered(&self, number: u32) -> impl Iterator<Item = &str> {
        let from = (number, String::new());
        self.range(|i| &i.numbers, from, move |(n, _)| *n == number).map(|(_, name)| name.as_str())
    }

    /// The taps whose other end is the host's interface of this name; more than one only in a tree that nobody has
    /// validated.
    pub fn taps<'v>(&'v self, host_name: &'v str) -> impl Iterator<Item = &'v str> {
        let from = (host_name.to_string(), String::new());
        self.range(|i| &i.taps, from, move |(host, _)| host == host_name).map(|(_, name)| name.as_str())
    }

    /// The interfaces of devices that record to this file; more than one only in a tree that nobody has validated.
    pub fn recorded<'v>(&'v self, file: &'v Path) -> impl Iterator<Item = &'v str> {
        let from = (file.to_owned(), String::new());
        self.range(|i| &i.records, from, move |(f, _)| f == file).map(|(_, name)| name.as_str())
    }

    /// The interfaces of a VRF that have this address: one, unless it is a link-local one.
    pub fn owners(&self, table: u16, address: IpAddr) -> impl Iterator<Item = &str> {
        let from = (table, address, String::new());
        self.range(|i| &i.owners, from, move |(t, a, _)| (*t, *a) == (table, address))
            .map(|(.., name)| name.as_str())
    }

    /// An interface of a VRF, but not this one, with a network that overlaps.
    pub fn overlapping(&self, table: u16, network: IpPrefix, but: &str) -> Option<&str> {
        let wider = (0..network.len()).flat_map(move |len| {
            let wider = IpPrefix::new(network.address(), len);
            let from = (table, wider, String::new());
            self.range(|i| &i.networks, from, move |(t, n, _)| (*t, *n) == (table, wider))
        });
        // What is in a network stands right behind it.
        let from = (table, network, String::new());
        let within = self.range(|i| &i.networks, from, move |(t, n, _)| *t == table && network.covers(*n));
        within.chain(wider).map(|(.., name)| name.as_str()).find(|name| *name != but)
    }

    /// The interface named, if one is, and the VRF of routes that lead to this next hop.
    pub fn leading_to(&self, next_hop: IpAddr) -> impl Iterator<Item = (Option<&str>, u16)> {
        let Changed { was, now } = &self.changed;
        let from = (next_hop, None, 0);
        let fits = move |(hop, _): &(&Hop, &usize)| hop.0 == next_hop;
        let old = self.tree.hops.range(&from..).take_while(fits);
        let old = old.filter(move |(hop, n)| was.hops.get(hop).is_none_or(|gone| gone < n));
        old.chain(now.hops.range(from..).take_while(fits)).map(|((_, by, table), _)| (by.as_deref(), *table))
    }

    /// Those that use the addresses of this interface.
    pub fn borrowers<'v>(&'v self, lender: &'v str) -> impl Iterator<Item = &'v str> {
        let from = (lender.to_string(), String::new());
        self.range(|i| &i.borrowers, from, move |(l, _)| l == lender).map(|(_, borrower)| borrower.as_str())
    }

    /// Whether routes need this, otherwise than as the VRF that they are in.
    pub fn has_exit(&self, need: Need<'_>) -> bool {
        let Some(exit) = exit(need) else { return false };
        let Changed { was, now } = &self.changed;
        let of = |index: &Index| index.exits.get(&exit).copied().unwrap_or(0);
        of(self.tree) + of(now) > of(was)
    }
}
