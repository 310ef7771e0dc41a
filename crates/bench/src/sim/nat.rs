//! A simulated router with address translation, frame by frame in virtual time: simple and slow, with a state that tests can check.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::Random;
use crate::sessions::{Attempt, Establish, Tuple, tuples};
use crate::trial::{Failure, Invalid};

/// Handling of a new connection when the table is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Drops the frame of the new connection.
    Refuse,
    /// Replaces the oldest connection.
    Evict,
}

/// A simulated router with a connection table. By default it has infinite speed and refuses connections beyond its capacity.
#[derive(Clone, Debug)]
pub struct Nat {
    capacity: usize,
    full: Full,
    /// Time to establish a connection, in nanoseconds.
    service_ns: f64,
    queue: f64,
    free_at_ns: f64,
    invalid: f64,
    random: Random,
    /// The router's own address: the source of translated frames.
    outside: IpAddr,
    /// Four-tuples of the initiator's frames, with their translation.
    inside: HashMap<Tuple, Tuple>,
    /// Four-tuples of the responder's frames, with their translation.
    answers: HashMap<Tuple, Tuple>,
    /// Connections, oldest first.
    order: VecDeque<Tuple>,
}

impl Nat {
    /// Makes a router with a table of `capacity` connections.
    pub fn new(capacity: usize) -> Nat {
        Nat {
            capacity,
            full: Full::Refuse,
            service_ns: 0.0,
            queue: 0.0,
            free_at_ns: 0.0,
            invalid: 0.0,
            random: Random::new(1),
            outside: Ipv4Addr::new(198, 19, 0, 1).into(),
            inside: HashMap::new(),
            answers: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Sets the handling of a new connection when the table is full.
    pub fn full(mut self, full: Full) -> Nat {
        self.full = full;
        self
    }

    /// Establishes `per_second` connections per second, one at a time, with a queue of `queue` frames; further frames are lost.
    pub fn rate(mut self, per_second: f64, queue: u32) -> Nat {
        (self.service_ns, self.queue) = (1e9 / per_second, queue.into());
        self
    }

    /// Makes this share of the attempts invalid.
    pub fn invalid(mut self, share: f64, seed: u64) -> Nat {
        (self.invalid, self.random) = (share, Random::new(seed));
        self
    }

    /// Returns the number of connections in the table.
    pub fn connections(&self) -> usize {
        self.inside.len()
    }

    /// Empties the table, and ends the service time of the last connection: the next connection need not wait.
    pub fn forget(&mut self) {
        self.inside.clear();
        self.answers.clear();
        self.order.clear();
        self.free_at_ns = 0.0;
    }

    /// Translates a frame that the initiator sends at `now_ns`; `None` if the frame is dropped. Frames must be passed in the order of their
    /// times.
    pub fn out(&mut self, now_ns: u64, of: Tuple) -> Option<Tuple> {
        if let Some(known) = self.inside.get(&of) {
            return Some(*known);
        }
        let start_ns = self.free_at_ns.max(now_ns as f64);
        let waiting = (start_ns - now_ns as f64) / self.service_ns.max(f64::MIN_POSITIVE);
        // Times are whole nanoseconds: a wait below 1 ns means that the server was free.
        if start_ns - now_ns as f64 >= 1.0 && waiting > self.queue {
            return None;
        }
        self.free_at_ns = start_ns + self.service_ns;
        if self.inside.len() >= self.capacity {
            let oldest = self.order.front().copied().filter(|_| self.full == Full::Evict)?;
            self.order.pop_front();
            let gone = self.inside.remove(&oldest)?;
            self.answers.remove(&gone.answer());
        }
        // Start with a port that differs from the frame's own. If that port is taken, use the next free one.
        let mut translated = Tuple { source: self.outside, source_port: !of.source_port, ..of };
        while self.answers.contains_key(&translated.answer()) {
            translated.source_port = translated.source_port.wrapping_add(1);
        }
        self.inside.insert(of, translated);
        self.answers.insert(translated.answer(), of.answer());
        self.order.push_back(of);
        Some(translated)
    }

    /// Translates a frame of the responder; `None` (dropped) if it belongs to no connection.
    pub fn back(&self, of: Tuple) -> Option<Tuple> {
        self.answers.get(&of).copied()
    }
}

/// Sends the frames at even intervals, one by one.
impl Establish for Nat {
    fn establish(&mut self, connections: u64, rate_fps: f64) -> Result<Attempt, Failure> {
        self.forget();
        let of = Tuple {
            source: Ipv4Addr::new(198, 18, 0, 2).into(),
            source_port: 0,
            destination: Ipv4Addr::new(198, 19, 0, 2).into(),
            destination_port: 0,
        };
        let count = u32::try_from(connections).map_err(|_| Failure("too many connections".into()))?;
        let all = tuples(of, count, 1);
        let at = |n: usize| (n as f64 * 1e9 / rate_fps) as u64;
        let came: Vec<_> = all.iter().enumerate().filter_map(|(n, tuple)| self.out(at(n), *tuple)).collect();
        let arrived = came.len() as u64;
        let there =
            || all.iter().zip(&came).filter(|(own, came)| self.back(came.answer()) == Some(own.answer()));
        let confirmed = (arrived == connections).then(|| there().count() as u64);
        let invalid = self.random.happens(self.invalid).then_some(Invalid::Stolen(0.01));
        Ok(Attempt {
            connections,
            rate_fps,
            arrived,
            different: arrived,
            confirmed,
            counted: Some(self.inside.len() as u64),
            invalid: invalid.into_iter().collect(),
            took: Duration::from_secs_f64(connections as f64 / rate_fps),
        })
    }
}
