//! Frames that wait for their nodes. The node with the lowest rank runs first.

use std::collections::VecDeque;

use buf::Frame;

/// Number of frames allocated in advance, so that in the steady state no frame is allocated on the packet
/// path.
const SPARE: usize = 64;

pub(crate) struct Pending {
    queues: Vec<VecDeque<Box<Frame>>>,
    /// One bit for each node, set if frames wait for the node.
    bits: Vec<u64>,
    frames: usize,
    spare: Vec<Box<Frame>>,
}

impl Pending {
    pub(crate) fn new(nodes: usize) -> Pending {
        Pending {
            queues: (0..nodes).map(|_| VecDeque::with_capacity(4)).collect(),
            bits: vec![0; nodes.div_ceil(64)],
            frames: 0,
            spare: (0..SPARE).map(|_| Box::new(Frame::new())).collect(),
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// Returns the number of pending packets.
    pub(crate) fn packets(&self) -> usize {
        // Visits only nodes with frames: debug builds call this before and after each dispatch.
        let in_word = |(word, bits): (usize, &u64)| {
            let mut left = *bits;
            let next = move || {
                let node = (left != 0).then(|| word as u32 * 64 + left.trailing_zeros())?;
                left &= left - 1;
                Some(node)
            };
            std::iter::from_fn(next)
        };
        self.bits.iter().enumerate().flat_map(in_word).map(|node| self.packets_of(node)).sum()
    }

    /// Returns the number of packets that are pending at `node`.
    pub(crate) fn packets_of(&self, node: u32) -> usize {
        self.queues[node as usize].iter().map(|f| f.len()).sum()
    }

    /// Returns an empty frame.
    #[inline(always)]
    pub(crate) fn spare(&mut self) -> Box<Frame> {
        self.spare.pop().unwrap_or_else(|| Box::new(Frame::new()))
    }

    /// Takes back an unused frame for later use. The frame must be empty.
    #[inline(always)]
    pub(crate) fn recycle(&mut self, frame: Box<Frame>) {
        debug_assert!(frame.is_empty(), "a frame with packets must not be recycled");
        self.spare.push(frame);
    }

    /// Returns a pending frame of `node` with room for `count` more packets: the last pending frame if it has
    /// the room, otherwise a new one.
    #[inline]
    pub(crate) fn frame_for(&mut self, node: u32, count: usize) -> &mut Frame {
        let n = node as usize;
        let fits = self.queues[n].back().is_some_and(|f| f.room() >= count);
        if !fits {
            let frame = self.spare();
            self.queues[n].push_back(frame);
            self.bits[n / 64] |= 1 << (n % 64);
            self.frames += 1;
        }
        let queue = &mut self.queues[n];
        let last = queue.len() - 1;
        &mut queue[last]
    }

    /// Passes a whole frame to `node`. If its packets fit into the last frame pending there, moves them into
    /// that frame.
    #[inline]
    pub(crate) fn push(&mut self, node: u32, mut frame: Box<Frame>) {
        let n = node as usize;
        if let Some(last) = self.queues[n].back_mut()
            && last.room() >= frame.len()
        {
            last.append(&mut frame);
            self.recycle(frame);
            return;
        }
        self.queues[n].push_back(frame);
        self.bits[n / 64] |= 1 << (n % 64);
        self.frames += 1;
    }

    /// Removes the oldest frame of the node with the lowest rank, and returns it with the node's number.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(u32, Box<Frame>)> {
        let word = self.bits.iter().position(|&w| w != 0)?;
        let n = word * 64 + self.bits[word].trailing_zeros() as usize;
        let frame = self.queues[n].pop_front()?;
        if self.queues[n].is_empty() {
            self.bits[word] &= !(1 << (n % 64));
        }
        self.frames -= 1;
        Some((n as u32, frame))
    }
}
