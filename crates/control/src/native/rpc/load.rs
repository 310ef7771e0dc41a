//! Loads of very many routes and neighbors.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Bound;
use std::rc::Rc;
use std::time::{Duration, Instant};

use infra::mem::Room;
use net::ip::{Ip, IpPrefix, Prefix};
use tonic::Status;
use wire::Mac;

use super::calls::line;
use super::v1::{self, load_options, load_request, load_response, path};
use super::{Replies, Requests};
use crate::app::{
    Attended, Context, Failure, Go, LOOK, Loading, SLICE, Scope, Slice, joined, let_go, on_a_thread,
};
use crate::intent::{Branch, Family, Key, Neighbor, Route, Value, Via};
use crate::native::client::{BUSY, Client};
use crate::native::problem::Problem;

/// Maximum number of routes that are set between two checks of the clock. A route takes about a microsecond.
const BATCH: usize = 256;
/// Number of refused items that the answer describes.
const TOLD: usize = 10;
/// Number of routes added to the list of sent routes between two checks of the free memory.
const CHECK: usize = 1 << 16;
/// Memory in bytes that [`CHECK`] keys of routes may need, including a second copy for sorting.
const CHECKED: u64 = 128 * CHECK as u64;
/// Maximum time of a load until its last item. Changes of the whole configuration wait meanwhile.
const LONGEST: Duration = Duration::from_secs(60);
/// Interval at which a load that waits for a message looks for a rollback that is due.
const WATCH: Duration = Duration::from_millis(100);
/// Maximum number of routes in a load with `replace`. The list of the sent routes needs about 100 bytes for each.
const MOST_KEPT: usize = 10_000_000;
/// Number of keys from which on the next keys go to a new piece of the list of sent routes. A single list would be copied whenever it
/// grows.
const PIECE: usize = 4096;

/// Loads the routes and neighbors that the client sends.
pub(super) async fn load(
    client: Rc<Client>,
    mut requests: Requests<v1::LoadRequest>,
    replies: Replies<v1::LoadResponse>,
) -> Result<(), Status> {
    let first = requests.next().await?.and_then(|request| request.part);
    let Some(load_request::Part::Options(options)) = first else {
        return Err(Status::invalid_argument("the first message must have the options"));
    };
    if client.look(|c| c.system.router.fib(options.table).is_err()) {
        return Err(Status::not_found(format!("there is no table {}", options.table)));
    }
    let family = match options.family() {
        load_options::Family::Ip4 if options.replace => Some(Family::V4),
        load_options::Family::Ip6 if options.replace => Some(Family::V6),
        _ => None,
    };
    let scope = Scope { table: options.table, replaces: options.replace, family };
    let begin = |c: &mut Context| Loading::begin(c, scope).map(|load| Attended::new(load, c));
    let waiting = Instant::now();
    let begun = loop {
        match client.change(&line("Load"), begin).await {
            Err(Failure::Busy { .. }) if waiting.elapsed() < BUSY => tokio::time::sleep(LOOK).await,
            begun => break begun,
        }
    };
    let mut load = Load { work: begun.map_err(Problem::from)?, client, options, tally: Tally::default() };
    match load.run(&mut requests).await {
        Ok(answer) => replies.send(answer).await,
        Err(status) => {
            while load.slice(Loading::roll_back).await {}
            load.work.end();
            Err(status)
        }
    }
}

/// A load, while its items arrive.
struct Load {
    client: Rc<Client>,
    /// Rolls the load back if the client leaves.
    work: Attended<Loading>,
    options: v1::LoadOptions,
    tally: Tally,
}

/// The results of the items so far.
#[derive(Default)]
struct Tally {
    /// Number of items in the groups that were processed completely.
    items: u64,
    refused: u64,
    refusals: Vec<load_response::Refusal>,
    swept: u64,
    /// With `replace`: the routes that the client has sent. They stay when the load removes all others.
    stays: Vec<Vec<Key>>,
    /// Number of keys in `stays`. A route that is sent several times counts several times.
    kept: usize,
}

impl Tally {
    fn refuse(&mut self, item: u64, (name, reason): (String, String)) {
        self.refused += 1;
        if self.refusals.len() < TOLD {
            self.refusals.push(load_response::Refusal { item, name, reason });
        }
    }

    /// Records that the client has sent these routes, so that the end of the load does not remove them.
    ///
    /// # Errors
    /// If there are too many, or if there is not enough memory for a list of so many.
    fn keep(&mut self, keys: &[Key]) -> Result<(), Failure> {
        let before = self.kept / CHECK;
        self.kept += keys.len();
        if self.kept > MOST_KEPT {
            return Err(Failure::from(format!("a load with \"replace\" may have {MOST_KEPT} routes")));
        }
        if before != self.kept / CHECK {
            let why = |e| format!("not enough memory for a list of so many routes: {e}");
            Room::now().must_have(CHECKED).map_err(|e| Failure::from(why(e)))?;
        }
        if self.stays.last().is_none_or(|piece| piece.len() >= PIECE) {
            self.stays.push(Vec::with_capacity(PIECE + BATCH));
        }
        self.stays.last_mut().into_iter().for_each(|piece| piece.extend_from_slice(keys));
        Ok(())
    }
}

/// The result of setting a part of the items: the number of items that were set. If the next item was refused, also its name and the
/// reason.
type Set = (usize, Option<(String, String)>);

impl Load {
    /// Runs a slice of the load, when it is the client's turn.
    async fn slice<R>(&mut self, mut run: impl FnMut(&mut Loading, &mut Context) -> R) -> R {
        loop {
            let slice = self.client.slice(|c| self.work.slice(c, |loading, c| run(loading, c))).await;
            if let Slice::Own(result) = slice {
                return result;
            }
        }
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// If it does not arrive in time, or if the rollback of an unconfirmed configuration is due.
    async fn next(
        &mut self,
        requests: &mut Requests<v1::LoadRequest>,
    ) -> Result<Option<v1::LoadRequest>, Status> {
        let client = self.client.clone();
        let goes_back = async {
            while !client.look(|c| c.is_going_back()) {
                tokio::time::sleep(WATCH).await;
            }
        };
        tokio::select! {
            biased;
            () = goes_back => {
                Err(Status::failed_precondition("the configuration was not confirmed in time, and is being rolled back"))
            }
            next = requests.next() => next,
        }
    }

    /// Processes all messages of the client, and ends the load.
    async fn run(&mut self, requests: &mut Requests<v1::LoadRequest>) -> Result<v1::LoadResponse, Status> {
        let begun = Instant::now();
        while let Some(request) = self.next(requests).await? {
            if begun.elapsed() > LONGEST {
                let why = format!(
                    "the load takes more than {} s, and other changes wait for it: send it when all of it is ready, or send several loads",
                    LONGEST.as_secs()
                );
                return Err(Status::deadline_exceeded(why));
            }
            match request.part {
                Some(load_request::Part::Routes(group)) => self.routes(group).await?,
                Some(load_request::Part::Neighbors(group)) => self.neighbors(group).await?,
                _ => return Err(Status::invalid_argument("after the options, expected groups of items")),
            }
        }
        if self.options.replace {
            self.sweep().await?;
        }
        loop {
            match self.slice(Loading::end).await.map_err(Problem::from)? {
                Go::Done => break,
                Go::Again => {}
                Go::After(time) => tokio::time::sleep(time).await,
            }
        }
        let counts = self.slice(|loading, _| loading.counts).await;
        self.work.end();
        let (generation, warning) = self.client.look(|c| (c.journal.generation(), c.goes_back_too()));
        let Tally { items, refused, ref mut refusals, swept, .. } = self.tally;
        Ok(v1::LoadResponse {
            generation,
            added: counts.added,
            replaced: counts.changed,
            withdrawn: counts.removed - swept,
            unchanged: items.saturating_sub(refused + counts.all() - swept),
            swept,
            refused,
            refusals: std::mem::take(refusals),
            warnings: warning.into_iter().collect(),
        })
    }

    async fn routes(&mut self, group: v1::RouteGroup) -> Result<(), Status> {
        let v1::RouteGroup { paths, ip4, ip6, withdraw } = group;
        if withdraw != paths.is_empty() {
            let why =
                if withdraw { "a group to withdraw must not have paths" } else { "the routes need a path" };
            return Err(Status::invalid_argument(why));
        }
        let (table, keeps) = (self.options.table, self.options.replace && !withdraw);
        let value = |family| (!withdraw).then(|| route(&paths, family)).transpose();
        let (ip4, ip6) = (items::<5>("ip4", &ip4)?, items::<17>("ip6", &ip6)?);
        // A load that replaces the routes of one family may run beside one of the other family.
        let foreign = match self.options.family() {
            load_options::Family::Ip4 if self.options.replace => !ip6.is_empty(),
            load_options::Family::Ip6 if self.options.replace => !ip4.is_empty(),
            _ => false,
        };
        if foreign {
            let why = "the load replaces the routes of one family, and must have no routes of the other";
            return Err(Status::invalid_argument(why));
        }
        if !ip4.is_empty() {
            let key = |&[a, b, c, d, len]: &[u8; 5]| key(table, Ipv4Addr::new(a, b, c, d), len);
            self.put(ip4, batch(value(Family::V4)?, keeps, key)).await?;
        }
        if !ip6.is_empty() {
            let key = |&[ref address @ .., len]: &[u8; 17]| key(table, Ipv6Addr::from(*address), len);
            self.put(ip6, batch(value(Family::V6)?, keeps, key)).await?;
        }
        Ok(())
    }

    async fn neighbors(&mut self, group: v1::NeighborGroup) -> Result<(), Status> {
        let v1::NeighborGroup { interface, ip4, ip6, withdraw } = group;
        let set = |ip: IpAddr, mac: [u8; 6], loading: &mut Loading, c: &mut Context| {
            let value = (!withdraw).then(|| Value::from(Neighbor { mac: Mac(mac) }));
            let (done, refused) = loading.put(c, &[Neighbor::key(&interface, ip)], value.as_ref())?;
            Ok((done, refused.map(|why| (format!("{ip} on {interface}"), why.to_string()))))
        };
        self.put(items::<10>("ip4", &ip4)?, |all, loading, c, _| {
            let Some(&[ref ip @ .., a, b, c4, d, e, f]) = all.first() else { return Ok((0, None)) };
            set(IpAddr::from(*ip), [a, b, c4, d, e, f], loading, c)
        })
        .await?;
        self.put(items::<22>("ip6", &ip6)?, |all, loading, c, _| {
            let Some(&[ref ip @ .., a, b, c6, d, e, f]) = all.first() else { return Ok((0, None)) };
            set(IpAddr::from(*ip), [a, b, c6, d, e, f], loading, c)
        })
        .await
    }

    /// Sets all items, in slices. Each call of `some` sets the first of the given items, as many as it can in one step.
    async fn put<I>(
        &mut self,
        items: &[I],
        mut some: impl FnMut(&[I], &mut Loading, &mut Context, &mut Tally) -> Result<Set, Failure>,
    ) -> Result<(), Status> {
        let mut at = 0;
        while at < items.len() {
            let Load { client, work, tally, options } = self;
            let mut run = |loading: &mut Loading, c: &mut Context| -> Result<(), Failure> {
                let begun = Instant::now();
                while at < items.len() && begun.elapsed() < SLICE {
                    let (done, refusal) = some(&items[at..], loading, c, tally)?;
                    at += done;
                    if let Some(refusal) = refusal {
                        tally.refuse(tally.items + at as u64, refusal);
                        at += 1;
                        if options.strict {
                            break;
                        }
                    }
                }
                Ok(())
            };
            match client.slice(|c| work.slice(c, |loading, c| run(loading, c))).await {
                Slice::Own(result) => result.map_err(no_memory)?,
                Slice::Abandoned | Slice::Nothing => {}
            }
            if let (true, Some(refusal)) = (options.strict, tally.refusals.first()) {
                let v1::load_response::Refusal { item, name, reason } = refusal;
                let why = format!("item {item}, {name}: {reason}; the load was rolled back");
                return Err(Status::invalid_argument(why));
            }
        }
        self.tally.items += items.len() as u64;
        Ok(())
    }

    /// Removes the static routes of the VRF that the client has not sent. Only removes routes of the address families in the load's
    /// options.
    async fn sweep(&mut self) -> Result<(), Status> {
        let stays = std::mem::take(&mut self.tally.stays);
        let sorted = on_a_thread(move || {
            let mut all: Vec<Key> = stays.into_iter().flatten().collect();
            all.sort();
            Ok::<_, Failure>(all)
        });
        let sorted = sorted.map_err(Problem::from)?;
        while !sorted.is_finished() {
            tokio::time::sleep(LOOK).await;
        }
        let stays = joined(sorted).map_err(Problem::from)?;
        let (mut from, end) = Key::beginning::<Route>(self.options.table);
        let family = self.options.family();
        let is_replaced = |key: &Key| match (family, key.get::<Route>()) {
            (load_options::Family::Ip4, Some((_, prefix))) => !prefix.address().is_ipv6(),
            (load_options::Family::Ip6, Some((_, prefix))) => prefix.address().is_ipv6(),
            (load_options::Family::Both, _) | (_, None) => true,
        };
        loop {
            let end = end.clone();
            let (next, removed) = self
                .slice(|loading, c| {
                    let all: Vec<Key> = c
                        .store
                        .tree()
                        .range((from.clone(), end.clone()))
                        .take(BATCH)
                        .map(|(key, _)| key.clone())
                        .collect();
                    let gone: Vec<Key> = all
                        .iter()
                        .filter(|key| is_replaced(key) && stays.binary_search(key).is_err())
                        .cloned()
                        .collect();
                    let (done, refused) = loading.put(c, &gone, None)?;
                    match refused {
                        Some(why) => Err(Failure::from(format!("{}: {why}", gone[done]))),
                        None => Ok((all.last().cloned(), done as u64)),
                    }
                })
                .await
                .map_err(Problem::from)?;
            self.tally.swept += removed;
            match next {
                Some(last) => from = Bound::Excluded(last),
                None => break,
            }
        }
        let_go(stays);
        Ok(())
    }
}

/// Returns a function that sets a batch of routes to `value`, or removes them if it is `None`. With `keeps`, the function also records that
/// the client has sent these routes. `key` returns the key of an item.
fn batch<I>(
    value: Option<Value>,
    keeps: bool,
    key: impl Fn(&I) -> Result<Key, String>,
) -> impl FnMut(&[I], &mut Loading, &mut Context, &mut Tally) -> Result<Set, Failure> {
    let mut keys = Vec::with_capacity(BATCH);
    move |items, loading, c, tally| {
        keys.clear();
        let mut fault = None;
        for item in items.iter().take(BATCH) {
            match key(item) {
                Ok(key) => keys.push(key),
                Err(why) => {
                    fault = Some(("a prefix".to_owned(), why));
                    break;
                }
            }
        }
        if keeps {
            tally.keep(&keys)?;
        }
        Ok(match loading.put(c, &keys, value.as_ref())? {
            (done, Some(why)) => (done, Some((keys[done].to_string(), why.to_string()))),
            (done, None) => (done, fault),
        })
    }
}

/// Returns the status of a load for which there is no memory.
fn no_memory(failure: Failure) -> Status {
    Status::resource_exhausted(failure.to_string())
}

/// Splits the packed items of a field. Each item has `LENGTH` bytes.
fn items<'b, const LENGTH: usize>(field: &str, bytes: &'b [u8]) -> Result<&'b [[u8; LENGTH]], Status> {
    match bytes.as_chunks() {
        (items, []) => Ok(items),
        _ => Err(Status::invalid_argument(format!(
            "the field {field} has {} bytes: expected a multiple of {LENGTH}, the length of an item",
            bytes.len()
        ))),
    }
}

/// Returns the key of a route.
fn key<A: Ip + Display>(table: u32, address: A, len: u8) -> Result<Key, String>
where
    IpPrefix: From<Prefix<A>>,
{
    let prefix = Prefix::new(address, len);
    if prefix.len() != len {
        return Err(format!("{address}: prefix length {len} is more than {}", prefix.len()));
    }
    if prefix.address() != address {
        return Err(format!("{address}/{len} has host bits set: did you mean {prefix}?"));
    }
    Ok(Route::key(table, prefix.into()))
}

/// Returns a route with these paths, in an address family.
fn route(paths: &[v1::Path], family: Family) -> Result<Value, Status> {
    let bad = |why: String| Status::invalid_argument(format!("a path of the routes: {why}"));
    let mut branches = Vec::with_capacity(paths.len());
    for path in paths {
        let interface = (!path.interface.is_empty()).then(|| path.interface.clone());
        let via = match (&path.to, interface) {
            (Some(path::To::NextHop(bytes)), interface) => {
                let address = <[u8; 4]>::try_from(&bytes[..]).map(IpAddr::from);
                let address = address.or_else(|_| <[u8; 16]>::try_from(&bytes[..]).map(IpAddr::from));
                let why = |_| bad(format!("a next hop has 4 or 16 bytes, not {}", bytes.len()));
                Via::NextHop(address.map_err(why)?, interface)
            }
            (Some(path::To::Attached(_)), Some(interface)) => Via::Attached(interface),
            (Some(path::To::Table(table)), None) => Via::Table(family, *table),
            (Some(path::To::Special(special)), None) => match path::Special::try_from(*special) {
                Ok(path::Special::Drop) => Via::Drop,
                Ok(path::Special::Local) => Via::Local,
                Ok(path::Special::Unreachable) => Via::Unreachable,
                Ok(path::Special::Prohibit) => Via::Prohibit,
                Err(_) => return Err(bad(format!("unknown special {special}"))),
            },
            (Some(path::To::Attached(_)), None) => return Err(bad("\"attached\" needs an interface".into())),
            (Some(_), Some(_)) => return Err(bad("this path cannot have an interface".into())),
            (None, _) => {
                return Err(bad("it leads nowhere: set next_hop, attached, special or table".into()));
            }
        };
        let weight = u8::try_from(path.weight.max(1))
            .map_err(|_| bad(format!("weight {} is more than 255", path.weight)))?;
        let branch = Branch { via, weight };
        branch.may_join(&branches).map_err(|e| bad(format!("{branch}: {e}")))?;
        branches.push(branch);
    }
    Route::new(branches).map(Value::from).ok_or_else(|| bad("there is none".into()))
}
