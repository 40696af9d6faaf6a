//! Who touched what last, and so: for whom the next one that touches it waits.
//!
//! A database has tables, a table has rows that keys distinguish. An access to a row passes through
//! its table and the database: on its way it waits for accesses to the whole of these, and at its
//! own level for all that conflict with it there.
//!
//! A table has a facet for each set of columns by which statements name rows. An access that names
//! rows by them is in one of the facet's cells, any other in the whole of the facet. Each statement
//! is in all facets, and looks into one: whatever conflicts with it is there, in the same cell or
//! in the whole.
//!
//! An access that waited for all present ones represents all of them from then on. Where many would
//! wait for the same many, there is a [meeting](super::graph) that waits for these once.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::graph::{Because, Graph, NodeId};
use super::object_access::{AccessMode, AccessSet, Columns, Object, ObjectAccess};

/// Those who are waited for one by one; more of them meet.
const APART_MAX: usize = 4;

/// Those who are looked through for such as are done.
const LOOKED_THROUGH: usize = 32;

/// Facets of a table; further keys count as any rows.
const FACETS_MAX: usize = 8;

/// The accesses of one mode. Most often that is one, for which nothing is allocated.
#[derive(Clone, Debug)]
struct Crowd {
    one: NodeId,
    others: Option<Box<Others>>,
}

/// Those besides the one.
#[derive(Clone, Debug, Default)]
struct Others {
    members: Vec<NodeId>,
    looked_through: usize,
}

impl Default for Crowd {
    fn default() -> Crowd {
        Crowd { one: NodeId::NOBODY, others: None }
    }
}

impl Crowd {
    fn others(&self) -> &[NodeId] {
        self.others.as_ref().map_or(&[], |others| &others.members)
    }

    fn members(&self) -> impl Iterator<Item = NodeId> {
        let one = Some(self.one).filter(|&one| one != NodeId::NOBODY);
        one.into_iter().chain(self.others().iter().copied())
    }

    fn join(&mut self, graph: &Graph, node: NodeId) {
        if self.one == node || self.others().last() == Some(&node) {
            return;
        }
        if !graph.is_alive(self.one) {
            self.one = node;
            return;
        }
        let others = self.others.get_or_insert_default();
        if others.members.len() >= LOOKED_THROUGH.max(others.looked_through * 2) {
            others.members.retain(|&member| graph.is_alive(member));
            others.looked_through = others.members.len();
        }
        others.members.push(node);
    }

    /// Lets one wait for all of them.
    fn before(&mut self, graph: &mut Graph, node: NodeId, because: Because) {
        if self.others().len() >= APART_MAX {
            if let Some(others) = &mut self.others {
                others.members.retain(|&member| graph.is_alive(member));
            }
            let is_other = |&member: &NodeId| member != node && graph.is_alive(member);
            if self.members().filter(is_other).count() > APART_MAX {
                self.meet(graph, node, because);
            }
        }
        for member in self.members() {
            graph.wait(member, node, because);
        }
    }

    /// Has one node in the place of all of them.
    fn meet(&mut self, graph: &mut Graph, but: NodeId, because: Because) {
        let meeting = graph.meeting();
        let is_in = self.members().any(|member| member == but);
        for member in self.members().filter(|&member| member != but) {
            graph.wait(member, meeting, because);
        }
        graph.settle(meeting);
        self.clear();
        self.one = meeting;
        if let Some(others) = &mut self.others {
            others.members.extend(is_in.then_some(but));
        }
    }

    /// Leaves all of them out; room for others is kept.
    fn clear(&mut self) {
        self.one = NodeId::NOBODY;
        if let Some(others) = &mut self.others {
            others.members.clear();
            others.looked_through = 0;
        }
    }

    fn is_quiet(&self, graph: &Graph) -> bool {
        !self.members().any(|member| graph.is_alive(member))
    }
}

/// Crowds by what they did.
#[derive(Clone, Debug, Default)]
struct Crowds {
    by_mode: [Crowd; AccessMode::ALL.len()],
    /// The modes that may have accesses: a bit for each. Most have none, and are not looked at.
    taken: u8,
}

impl Crowds {
    /// Those of these access modes in which anybody may be.
    #[inline]
    fn taken_of(&mut self, modes: u8) -> impl Iterator<Item = &mut Crowd> {
        let taken = self.taken & modes;
        let end = (u8::BITS - taken.leading_zeros()) as usize;
        let all = self.by_mode[..end].iter_mut().enumerate();
        all.filter(move |&(at, _)| taken >> at & 1 == 1).map(|(_, crowd)| crowd)
    }

    /// Lets one wait for those with whom it conflicts.
    #[inline]
    fn before(&mut self, graph: &mut Graph, node: NodeId, mode: AccessMode, place: At) {
        for crowd in self.taken_of(mode.conflicting(place == At::OneRow)) {
            crowd.before(graph, node, place.because());
        }
    }

    /// An access that waited for others removes those that it represents.
    #[inline]
    fn succeed(&mut self, mode: AccessMode, place: At) {
        let stood_for = mode.stood_for(place == At::OneRow);
        self.taken_of(stood_for).for_each(Crowd::clear);
        self.taken &= !stood_for;
    }

    #[inline]
    fn join(&mut self, graph: &Graph, node: NodeId, mode: AccessMode) {
        self.taken |= 1 << mode as u8;
        self.by_mode[mode as usize].join(graph, node);
    }

    fn clear(&mut self) {
        self.taken_of(u8::MAX).for_each(Crowd::clear);
        self.taken = 0;
    }

    fn memory_bytes(&self) -> usize {
        let others = self.by_mode.iter().filter_map(|crowd| crowd.others.as_deref());
        let of =
            |others: &Others| size_of::<Others>() + others.members.capacity() * size_of::<NodeId>();
        size_of::<Crowds>() + others.map(of).sum::<usize>()
    }

    fn is_quiet(&self, graph: &Graph) -> bool {
        let taken = self.by_mode.iter().enumerate().filter(|&(at, _)| self.taken >> at & 1 == 1);
        taken.into_iter().all(|(_, crowd)| crowd.is_quiet(graph))
    }
}

/// Where statements meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// At an object.
    Object,
    /// At rows that have the same key.
    Rows,
    /// At the one row of a unique key.
    OneRow,
}

impl At {
    fn because(self) -> Because {
        if self == At::Object { Because::Object } else { Because::Key }
    }
}

/// A hash of hashes: what comes is one.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u32(&mut self, value: u32) {
        // A number of an object: spread over all bits.
        self.0 = u64::from(value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// A table by one set of columns.
#[derive(Clone, Debug, Default)]
struct Facet {
    columns: Columns,
    whole: Crowds,
    cells: HashMap<u64, Crowds, BuildHasherDefault<AsItIs>>,
    swept: usize,
}

impl Facet {
    fn cell(&mut self, graph: &Graph, value: u64) -> &mut Crowds {
        if self.cells.len() >= 2 * self.swept.max(LOOKED_THROUGH) {
            self.cells.retain(|_, cell| !cell.is_quiet(graph));
            self.swept = self.cells.len();
        }
        self.cells.entry(value).or_default()
    }

    fn clear(&mut self) {
        self.whole.clear();
        self.cells.clear();
        self.swept = 0;
    }
}

/// A table or sequence. The first facet has no columns: all are in its whole.
#[derive(Clone, Debug, Default)]
struct ObjectHistory {
    facets: Vec<Facet>,
}

impl ObjectHistory {
    /// The facet for these columns: the first one without any, and where there are too many.
    fn facet(&mut self, columns: Columns) -> usize {
        if self.facets.is_empty() {
            self.facets.push(Facet::default());
        }
        let found = self.facets.iter().position(|facet| facet.columns == columns);
        match found {
            Some(place) => place,
            None if self.facets.len() > FACETS_MAX => 0,
            None => {
                // These columns were not needed so far: all accesses were in the whole of it.
                let whole = self.facets[0].whole.clone();
                self.facets.push(Facet { columns, whole, ..Facet::default() });
                self.facets.len() - 1
            }
        }
    }

    /// Takes in who touches it, and lets them wait for whom they conflict with.
    fn object_access(&mut self, graph: &mut Graph, node: NodeId, object_access: &ObjectAccess) {
        let (home, mode) = (self.facet(object_access.columns), object_access.mode);
        self.facets[home].whole.before(graph, node, mode, At::Object);
        if home > 0 {
            let cell = self.facets[home].cell(graph, object_access.value);
            let place = if object_access.is_unique { At::OneRow } else { At::Rows };
            cell.before(graph, node, mode, place);
            cell.succeed(mode, place);
            cell.join(graph, node, mode);
        } else if mode == AccessMode::Write {
            // All facets have the same ones.
            self.facets.iter_mut().for_each(Facet::clear);
        } else {
            self.facets.iter_mut().for_each(|facet| facet.whole.succeed(mode, At::Object));
        }
        let others = self.facets.iter_mut().enumerate();
        for (_, facet) in others.filter(|&(place, _)| place != home || home == 0) {
            facet.whole.join(graph, node, mode);
        }
    }

    fn is_quiet(&self, graph: &Graph) -> bool {
        self.facets.first().is_none_or(|facet| facet.whole.is_quiet(graph))
    }
}

/// A database.
#[derive(Clone, Debug, Default)]
pub struct Last {
    whole: Crowds,
    passed: Crowds,
    objects: HashMap<Object, ObjectHistory, BuildHasherDefault<AsItIs>>,
    swept: usize,
}

impl Last {
    /// Takes in a statement, and lets it wait for those before it with whom it conflicts.
    pub fn take_in(&mut self, graph: &mut Graph, node: NodeId, access_set: &AccessSet) {
        let Some(utmost) = access_set.utmost() else { return };
        self.whole.before(graph, node, utmost, At::Object);
        if let Some(mode) = access_set.anything {
            self.passed.before(graph, node, mode, At::Object);
            if mode == AccessMode::Write {
                *self = Last::default();
            }
            self.whole.join(graph, node, mode);
            if mode == AccessMode::Write {
                return;
            }
        }
        self.sweep(graph);
        for object_access in &access_set.known {
            self.passed.join(graph, node, object_access.mode);
            self.objects.entry(object_access.object).or_default().object_access(
                graph,
                node,
                object_access,
            );
        }
    }

    fn sweep(&mut self, graph: &Graph) {
        if self.objects.len() >= 2 * self.swept.max(LOOKED_THROUGH) {
            self.objects.retain(|_, touched| !touched.is_quiet(graph));
            self.swept = self.objects.len();
        }
    }

    /// Its memory, without the overhead of maps.
    pub fn memory_bytes(&self) -> usize {
        let facets = self.objects.values().flat_map(|touched| &touched.facets);
        let cells = |facet: &Facet| facet.cells.values().map(Crowds::memory_bytes).sum::<usize>();
        let own = self.whole.memory_bytes() + self.passed.memory_bytes();
        own + facets.map(|facet| facet.whole.memory_bytes() + cells(facet)).sum::<usize>()
    }
}
