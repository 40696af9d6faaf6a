//! What waits for what, what is done, and who may go on.
//!
//! A node is a statement that was read, or a meeting of several: done when all that it waits for
//! is. An edge leads from a node to one that waits for it. A node that is done leaves, and its
//! room is used again, so that memory follows what is held, not what was played.

use std::collections::VecDeque;

/// No place among the nodes or edges.
const NONE: u32 = u32::MAX;

/// A meeting's session: none.
const NOBODY: u32 = u32::MAX;

/// A node. That of one that is done is none's any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId {
    place: u32,
    generation: u32,
}

impl NodeId {
    /// None: a node that is never there.
    pub const NOBODY: NodeId = NodeId { place: NONE, generation: 0 };

    /// Its place: that of no other one that is not done.
    pub fn place(self) -> usize {
        self.place as usize
    }

    /// In one number.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.place)
    }

    /// Of that number.
    pub fn from_bits(bits: u64) -> NodeId {
        NodeId { place: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Why a statement waits for another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Because {
    /// All keep their order.
    #[default]
    Order = 0,
    /// Both touch a table or sequence.
    Object = 1,
    /// Both touch rows of the same key.
    Key = 2,
}

impl Because {
    /// All of them, in the order of their numbers.
    pub const ALL: [Because; 3] = [Because::Order, Because::Object, Because::Key];

    /// The word that a report has.
    pub fn name(self) -> &'static str {
        match self {
            Because::Order => "order",
            Because::Object => "object",
            Because::Key => "key",
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    to: u32,
    because: Because,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    generation: u32,
    /// Edges that lead to it, of those that wait.
    waits: u32,
    /// Answers without which it is not done: its own.
    open: u32,
    first: u32,
    /// Whom its newest edge leads to: two statements often meet more than once.
    newest_to: u32,
    session: u32,
    turn: u64,
    ends: bool,
    /// Whether it is a node, and not done.
    is_there: bool,
    /// Why it waited for what it waited for last.
    because: Because,
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
    free: VecDeque<(NodeId, u32, u64)>,
    /// Nodes that are done and still have to be said so to those that wait for them.
    ending: Vec<u32>,
    /// Edges that were ever made.
    edges: u64,
}

impl Node {
    fn is_statement(&self) -> bool {
        self.session != NOBODY
    }

    fn leave(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.is_there = false;
    }
}

impl Graph {
    /// A statement; `ends` means that a transaction ends with it.
    pub fn statement(&mut self, session: u32, turn: u64, ends: bool) -> NodeId {
        let node = self.node(session, turn, 1);
        self.nodes[node.place as usize].ends = ends;
        node
    }

    /// A meeting: it is done as soon as nothing leads to it, so edges have to be made at once,
    /// and [`Graph::settle`] called behind them.
    pub fn meeting(&mut self) -> NodeId {
        self.node(NOBODY, 0, 0)
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
            is_there: true,
            because: Because::Order,
            next: None,
        };
        match self.spare_nodes.pop() {
            Some(place) => {
                let generation = self.nodes[place as usize].generation;
                self.nodes[place as usize] = Node { generation, ..node };
                NodeId { place, generation }
            }
            None => {
                self.nodes.push(node);
                NodeId { place: (self.nodes.len() - 1) as u32, generation: 0 }
            }
        }
    }

    /// Ends a meeting that nothing leads to.
    pub fn settle(&mut self, meeting: NodeId) {
        self.end_if_done(meeting.place);
        self.release_ended();
    }

    /// Whether it is not done.
    #[inline]
    pub fn is_alive(&self, node: NodeId) -> bool {
        let known = self.nodes.get(node.place as usize);
        known.is_some_and(|known| known.generation == node.generation)
    }

    /// Whether nothing is left that it waits for; so it is of one that is done.
    pub fn is_free(&self, node: NodeId) -> bool {
        !self.is_alive(node) || self.nodes[node.place as usize].waits == 0
    }

    /// Why it waited for what it waited for last.
    pub fn because(&self, node: NodeId) -> Because {
        self.nodes[node.place as usize].because
    }

    /// Edges that were ever made.
    pub fn edges(&self) -> u64 {
        self.edges
    }

    /// Nodes that are not done.
    pub fn alive(&self) -> usize {
        self.nodes.len() - self.spare_nodes.len()
    }

    /// Memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        let spare = self.spare_nodes.capacity() + self.spare_links.capacity();
        self.nodes.capacity() * size_of::<Node>()
            + self.links.capacity() * size_of::<Link>()
            + spare * size_of::<u32>()
    }

    /// Tells which statement follows another one in its session.
    pub fn follows(&mut self, before: NodeId, after: NodeId) {
        if self.is_alive(before) {
            self.nodes[before.place as usize].next = Some(after);
            self.pass_on(before);
        }
    }

    /// Who was answered out of turn is not done, as others count on what is before it; nor is,
    /// then, who follows it in its session.
    fn pass_on(&mut self, node: NodeId) {
        let own = &self.nodes[node.place as usize];
        if let Some(next) = own.next.filter(|&next| own.open == 0 && self.is_alive(next)) {
            self.nodes[next.place as usize].waits += 1;
            self.link(node.place, next.place, Because::Order);
        }
    }

    /// Lets one wait for another, unless that is done. What its own session sends before it, it
    /// waits for anyway; but the end of a transaction may be done later than it is answered.
    pub fn wait(&mut self, from: NodeId, to: NodeId, because: Because) {
        if from == to || !self.is_alive(from) {
            return;
        }
        let before = &self.nodes[from.place as usize];
        let session = self.nodes[to.place as usize].session;
        let is_own = before.session == session && session != NOBODY && !before.ends;
        if !is_own && before.newest_to != to.place {
            self.nodes[to.place as usize].waits += 1;
            self.link(from.place, to.place, because);
        }
    }

    fn link(&mut self, from: u32, to: u32, because: Because) {
        let node = &mut self.nodes[from as usize];
        let link = Link { to, because, next: node.first };
        let place = match self.spare_links.pop() {
            Some(place) => {
                self.links[place as usize] = link;
                place
            }
            None => {
                self.links.push(link);
                (self.links.len() - 1) as u32
            }
        };
        node.first = place;
        node.newest_to = to;
        self.edges += 1;
    }

    /// A statement was answered, or will never be.
    pub fn answered(&mut self, node: NodeId) {
        if !self.is_alive(node) {
            return;
        }
        let own = &mut self.nodes[node.place as usize];
        own.open = own.open.saturating_sub(1);
        self.end_if_done(node.place);
        if self.is_alive(node) {
            self.pass_on(node);
        }
        self.release_ended();
    }

    fn end_if_done(&mut self, place: u32) {
        let node = &mut self.nodes[place as usize];
        if node.is_there && node.waits == 0 && node.open == 0 {
            node.leave();
            self.ending.push(place);
        }
    }

    fn release_ended(&mut self) {
        while let Some(place) = self.ending.pop() {
            let mut next = self.nodes[place as usize].first;
            while next != NONE {
                let link = self.links[next as usize];
                self.spare_links.push(next);
                self.loosen(&link);
                next = link.next;
            }
            self.nodes[place as usize].first = NONE;
            self.spare_nodes.push(place);
        }
    }

    /// What an edge led from is done.
    fn loosen(&mut self, link: &Link) {
        let node = &mut self.nodes[link.to as usize];
        node.waits -= 1;
        node.because = link.because;
        if node.waits == 0 && node.is_statement() {
            let id = NodeId { place: link.to, generation: node.generation };
            self.free.push_back((id, node.session, node.turn));
        }
        self.end_if_done(link.to);
    }

    /// A statement that waits for nothing any more since it was read, with its session and turn.
    pub fn next_free(&mut self) -> Option<(NodeId, u32, u64)> {
        self.free.pop_front()
    }

    /// Forgets all edges and meetings. Then edges have to be made anew, and [`Graph::settle_all`]
    /// called.
    pub fn forget_edges(&mut self) {
        self.links.clear();
        self.spare_links.clear();
        self.free.clear();
        for (place, node) in self.nodes.iter_mut().enumerate() {
            (node.waits, node.first, node.newest_to) = (0, NONE, NONE);
            let is_alive = node.is_statement() && node.is_there;
            if node.is_there && !is_alive {
                node.leave();
                self.spare_nodes.push(place as u32);
            }
        }
    }

    /// Tells who may go on after all edges were made anew.
    pub fn settle_all(&mut self) {
        let there = |(place, node): (usize, &Node)| {
            let generation = node.generation;
            (node.is_there && node.is_statement())
                .then_some(NodeId { place: place as u32, generation })
        };
        let all: Vec<NodeId> = self.nodes.iter().enumerate().filter_map(there).collect();
        for &id in &all {
            if self.nodes[id.place as usize].open == 0 {
                self.pass_on(id);
            }
        }
        for id in all {
            let node = &self.nodes[id.place as usize];
            if node.waits == 0 && node.open > 0 {
                self.free.push_back((id, node.session, node.turn));
            }
            self.end_if_done(id.place);
        }
        self.release_ended();
    }
}
