//! The graph of statements that wait for each other.
//!
//! A node is a statement that was read, or a barrier that stands for several: it is done when all
//! that it waits for is done. An edge leads from a node to one that waits for it. The memory of a
//! done node is reused, so that memory follows what is pending, not what was played.

use std::collections::VecDeque;

/// No index among the nodes or edges.
const NONE: u32 = u32::MAX;

const NO_SESSION: u32 = u32::MAX;

/// Identifies a node until it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId {
    index: u32,
    generation: u32,
}

impl NodeId {
    /// A node that never exists.
    pub const ABSENT: NodeId = NodeId { index: NONE, generation: 0 };

    /// Its index, unique among nodes that are not done.
    pub fn index(self) -> usize {
        self.index as usize
    }

    /// In one number.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// Of that number.
    pub fn from_bits(bits: u64) -> NodeId {
        NodeId { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Why a statement waits for another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum WaitReason {
    /// All statements keep their order.
    #[default]
    Order = 0,
    /// Both access a table or sequence.
    Object = 1,
    /// Both access rows of the same key.
    Key = 2,
}

impl WaitReason {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            WaitReason::Order => "order",
            WaitReason::Object => "object",
            WaitReason::Key => "key",
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    to: u32,
    wait_reason: WaitReason,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    generation: u32,
    /// Number of edges that lead to it.
    waits: u32,
    /// Number of answers that it needs: its own.
    open: u32,
    first: u32,
    /// The target of its newest edge, to detect repeated edges.
    newest_to: u32,
    session: u32,
    turn: u64,
    ends: bool,
    /// Whether it is a node, and not done.
    is_live: bool,
    /// The reason of its last wait.
    wait_reason: WaitReason,
    /// The statement after it in its session.
    next: Option<NodeId>,
}

/// Nodes and edges.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    links: Vec<Link>,
    spare_nodes: Vec<u32>,
    spare_links: Vec<u32>,
    /// Statements that wait for nothing any more, with their sessions and turns.
    ready: VecDeque<(NodeId, u32, u64)>,
    /// Nodes that are done and have to be removed from their successors.
    ending: Vec<u32>,
    /// Number of edges ever made.
    edges: u64,
}

impl Node {
    fn is_statement(&self) -> bool {
        self.session != NO_SESSION
    }

    fn leave(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.is_live = false;
    }
}

impl Graph {
    /// A statement; `ends` means that a transaction ends with it.
    pub fn statement(&mut self, session: u32, turn: u64, ends: bool) -> NodeId {
        let node = self.node(session, turn, 1);
        self.nodes[node.index as usize].ends = ends;
        node
    }

    /// A barrier: it is done as soon as nothing leads to it, so its edges have to be made at once,
    /// followed by [`Graph::settle`].
    pub fn barrier(&mut self) -> NodeId {
        self.node(NO_SESSION, 0, 0)
    }

    fn node(&mut self, session: u32, turn: u64, open: u32) -> NodeId {
        let node = Node {
            generation: 0,
            waits: 0,
            open,
            first: NONE,
            newest_to: NONE,
            session,
            turn,
            ends: false,
            is_live: true,
            wait_reason: WaitReason::Order,
            next: None,
        };
        match self.spare_nodes.pop() {
            Some(index) => {
                let generation = self.nodes[index as usize].generation;
                self.nodes[index as usize] = Node { generation, ..node };
                NodeId { index, generation }
            }
            None => {
                self.nodes.push(node);
                NodeId { index: (self.nodes.len() - 1) as u32, generation: 0 }
            }
        }
    }

    /// Ends a barrier that nothing leads to.
    pub fn settle(&mut self, barrier: NodeId) {
        self.end_if_done(barrier.index);
        self.release_ended();
    }

    /// Whether it is not done.
    #[inline]
    pub fn is_alive(&self, node: NodeId) -> bool {
        let known = self.nodes.get(node.index as usize);
        known.is_some_and(|known| known.generation == node.generation)
    }

    /// Whether it waits for nothing, or is done.
    pub fn is_ready(&self, node: NodeId) -> bool {
        !self.is_alive(node) || self.nodes[node.index as usize].waits == 0
    }

    /// The reason of its last wait.
    pub fn wait_reason(&self, node: NodeId) -> WaitReason {
        self.nodes[node.index as usize].wait_reason
    }

    /// Number of edges ever made.
    pub fn edges(&self) -> u64 {
        self.edges
    }

    /// Nodes that are not done.
    #[cfg(test)]
    pub fn alive(&self) -> usize {
        self.nodes.len() - self.spare_nodes.len()
    }

    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        let spare = self.spare_nodes.capacity() + self.spare_links.capacity();
        self.nodes.capacity() * size_of::<Node>()
            + self.links.capacity() * size_of::<Link>()
            + spare * size_of::<u32>()
    }

    /// Records the successor of a statement in its session.
    pub fn follows(&mut self, before: NodeId, after: NodeId) {
        if self.is_alive(before) {
            self.nodes[before.index as usize].next = Some(after);
            self.delay_next(before);
        }
    }

    /// A node that was answered out of turn is not done, because others rely on the ones before it;
    /// the same holds for its successor in the session.
    fn delay_next(&mut self, node: NodeId) {
        let own = &self.nodes[node.index as usize];
        if let Some(next) = own.next.filter(|&next| own.open == 0 && self.is_alive(next)) {
            self.nodes[next.index as usize].waits += 1;
            self.link(node.index, next.index, WaitReason::Order);
        }
    }

    /// Makes a node wait for another, unless that is done. It waits for earlier statements of its
    /// own session anyway; but the end of a transaction may be done later than it is answered.
    pub fn wait(&mut self, from: NodeId, to: NodeId, wait_reason: WaitReason) {
        if from == to || !self.is_alive(from) {
            return;
        }
        let before = &self.nodes[from.index as usize];
        let session = self.nodes[to.index as usize].session;
        let is_own = before.session == session && session != NO_SESSION && !before.ends;
        if !is_own && before.newest_to != to.index {
            self.nodes[to.index as usize].waits += 1;
            self.link(from.index, to.index, wait_reason);
        }
    }

    fn link(&mut self, from: u32, to: u32, wait_reason: WaitReason) {
        let node = &mut self.nodes[from as usize];
        let link = Link { to, wait_reason, next: node.first };
        let index = match self.spare_links.pop() {
            Some(index) => {
                self.links[index as usize] = link;
                index
            }
            None => {
                self.links.push(link);
                (self.links.len() - 1) as u32
            }
        };
        node.first = index;
        node.newest_to = to;
        self.edges += 1;
    }

    /// A statement was answered, or will never be.
    pub fn answered(&mut self, node: NodeId) {
        if !self.is_alive(node) {
            return;
        }
        let own = &mut self.nodes[node.index as usize];
        own.open = own.open.saturating_sub(1);
        self.end_if_done(node.index);
        if self.is_alive(node) {
            self.delay_next(node);
        }
        self.release_ended();
    }

    fn end_if_done(&mut self, index: u32) {
        let node = &mut self.nodes[index as usize];
        if node.is_live && node.waits == 0 && node.open == 0 {
            node.leave();
            self.ending.push(index);
        }
    }

    fn release_ended(&mut self) {
        while let Some(index) = self.ending.pop() {
            let mut next = self.nodes[index as usize].first;
            while next != NONE {
                let link = self.links[next as usize];
                self.spare_links.push(next);
                self.remove_edge(&link);
                next = link.next;
            }
            self.nodes[index as usize].first = NONE;
            self.spare_nodes.push(index);
        }
    }

    /// The source of an edge is done.
    fn remove_edge(&mut self, link: &Link) {
        let node = &mut self.nodes[link.to as usize];
        node.waits -= 1;
        node.wait_reason = link.wait_reason;
        if node.waits == 0 && node.is_statement() {
            let id = NodeId { index: link.to, generation: node.generation };
            self.ready.push_back((id, node.session, node.turn));
        }
        self.end_if_done(link.to);
    }

    /// A statement that waits for nothing any more, with its session and turn.
    pub fn next_ready(&mut self) -> Option<(NodeId, u32, u64)> {
        self.ready.pop_front()
    }

    /// Removes all edges and barriers. Edges then have to be rebuilt, followed by
    /// [`Graph::settle_all`].
    pub fn forget_edges(&mut self) {
        self.links.clear();
        self.spare_links.clear();
        self.ready.clear();
        for (index, node) in self.nodes.iter_mut().enumerate() {
            (node.waits, node.first, node.newest_to) = (0, NONE, NONE);
            let is_alive = node.is_statement() && node.is_live;
            if node.is_live && !is_alive {
                node.leave();
                self.spare_nodes.push(index as u32);
            }
        }
    }

    /// Finds the statements that may be sent after all edges were rebuilt.
    pub fn settle_all(&mut self) {
        let there = |(index, node): (usize, &Node)| {
            let generation = node.generation;
            (node.is_live && node.is_statement())
                .then_some(NodeId { index: index as u32, generation })
        };
        let all: Vec<NodeId> = self.nodes.iter().enumerate().filter_map(there).collect();
        for &id in &all {
            if self.nodes[id.index as usize].open == 0 {
                self.delay_next(id);
            }
        }
        for id in all {
            let node = &self.nodes[id.index as usize];
            if node.waits == 0 && node.open > 0 {
                self.ready.push_back((id, node.session, node.turn));
            }
            self.end_if_done(id.index);
        }
        self.release_ended();
    }
}
