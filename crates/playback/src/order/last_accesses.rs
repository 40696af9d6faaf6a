//! The last accesses to each object: the next conflicting access waits for them.
//!
//! A database contains tables, a table contains rows that keys distinguish. An access to a row
//! waits for accesses to the whole database and the whole table, and on its own level for all that
//! conflict with it there.
//!
//! A table has a key index for each set of columns by which statements identify rows. An access
//! that identifies rows by them is in a cell of the index, any other one in the whole of the index.
//! Each statement is in all key indexes, and searches one: all conflicting ones are in the same
//! cell or in the whole.
//!
//! An access that waited for all present ones represents all of them from then on. If many would
//! wait for the same many, a [barrier](super::graph) waits for these once.

use std::collections::HashMap;

use super::graph::{Graph, NodeId, WaitReason};
use super::object_access::{AccessMode, AccessSet, Columns, Object, ObjectAccess};
use crate::identity_hash::HashBuilder;

/// Accesses that are waited for separately; more of them get a barrier.
const SEPARATE_MAX: usize = 4;

/// Number of accesses after which finished ones are searched.
const LOOKED_THROUGH: usize = 32;

/// Maximum key indexes of a table; further keys count as any rows.
const KEY_INDEXES_MAX: usize = 8;

/// The accesses of one mode. Usually there is one, for which nothing is allocated.
#[derive(Clone, Debug)]
struct AccessGroup {
    one: NodeId,
    others: Option<Box<MoreAccesses>>,
}

/// Further accesses.
#[derive(Clone, Debug, Default)]
struct MoreAccesses {
    members: Vec<NodeId>,
    looked_through: usize,
}

impl Default for AccessGroup {
    fn default() -> AccessGroup {
        AccessGroup { one: NodeId::ABSENT, others: None }
    }
}

impl AccessGroup {
    fn others(&self) -> &[NodeId] {
        self.others.as_ref().map_or(&[], |others| &others.members)
    }

    fn members(&self) -> impl Iterator<Item = NodeId> {
        let one = Some(self.one).filter(|&one| one != NodeId::ABSENT);
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

    /// Makes a node wait for all of them.
    fn before(&mut self, graph: &mut Graph, node: NodeId, wait_reason: WaitReason) {
        if self.others().len() >= SEPARATE_MAX {
            if let Some(others) = &mut self.others {
                others.members.retain(|&member| graph.is_alive(member));
            }
            let is_other = |&member: &NodeId| member != node && graph.is_alive(member);
            if self.members().filter(is_other).count() > SEPARATE_MAX {
                self.merge(graph, node, wait_reason);
            }
        }
        for member in self.members() {
            graph.wait(member, node, wait_reason);
        }
    }

    /// Replaces all of them by one barrier.
    fn merge(&mut self, graph: &mut Graph, but: NodeId, wait_reason: WaitReason) {
        let barrier = graph.barrier();
        let is_in = self.members().any(|member| member == but);
        for member in self.members().filter(|&member| member != but) {
            graph.wait(member, barrier, wait_reason);
        }
        graph.settle(barrier);
        self.clear();
        self.one = barrier;
        if let Some(others) = &mut self.others {
            others.members.extend(is_in.then_some(but));
        }
    }

    /// Removes all of them, keeping memory.
    fn clear(&mut self) {
        self.one = NodeId::ABSENT;
        if let Some(others) = &mut self.others {
            others.members.clear();
            others.looked_through = 0;
        }
    }

    fn is_idle(&self, graph: &Graph) -> bool {
        !self.members().any(|member| graph.is_alive(member))
    }
}

/// Groups by access mode.
#[derive(Clone, Debug, Default)]
struct AccessGroups {
    by_mode: [AccessGroup; AccessMode::ALL.len()],
    /// A bit for each mode that may have accesses. Most have none, and are not examined.
    occupied: u8,
}

impl AccessGroups {
    /// The groups of these modes that may have accesses.
    #[inline]
    fn occupied_of(&mut self, modes: u8) -> impl Iterator<Item = &mut AccessGroup> {
        let occupied = self.occupied & modes;
        let end = (u8::BITS - occupied.leading_zeros()) as usize;
        let all = self.by_mode[..end].iter_mut().enumerate();
        all.filter(move |&(at, _)| occupied >> at & 1 == 1).map(|(_, group)| group)
    }

    /// Makes a node wait for the accesses with which it conflicts.
    #[inline]
    fn before(&mut self, graph: &mut Graph, node: NodeId, mode: AccessMode, scope: ConflictScope) {
        for group in self.occupied_of(mode.conflicting(scope == ConflictScope::OneRow)) {
            group.before(graph, node, scope.wait_reason());
        }
    }

    /// Removes the accesses that an access waited for and represents.
    #[inline]
    fn supersede(&mut self, mode: AccessMode, scope: ConflictScope) {
        let represented = mode.represented(scope == ConflictScope::OneRow);
        self.occupied_of(represented).for_each(AccessGroup::clear);
        self.occupied &= !represented;
    }

    #[inline]
    fn join(&mut self, graph: &Graph, node: NodeId, mode: AccessMode) {
        self.occupied |= 1 << mode as u8;
        self.by_mode[mode as usize].join(graph, node);
    }

    fn clear(&mut self) {
        self.occupied_of(u8::MAX).for_each(AccessGroup::clear);
        self.occupied = 0;
    }

    #[cfg(test)]
    fn memory_bytes(&self) -> usize {
        let others = self.by_mode.iter().filter_map(|group| group.others.as_deref());
        let of = |others: &MoreAccesses| {
            size_of::<MoreAccesses>() + others.members.capacity() * size_of::<NodeId>()
        };
        size_of::<AccessGroups>() + others.map(of).sum::<usize>()
    }

    fn is_idle(&self, graph: &Graph) -> bool {
        let occupied =
            self.by_mode.iter().enumerate().filter(|&(at, _)| self.occupied >> at & 1 == 1);
        occupied.into_iter().all(|(_, group)| group.is_idle(graph))
    }
}

/// The scope in which accesses conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConflictScope {
    /// At an object.
    Object,
    /// At rows that have the same key.
    Rows,
    /// At the one row of a unique key.
    OneRow,
}

impl ConflictScope {
    fn wait_reason(self) -> WaitReason {
        if self == ConflictScope::Object { WaitReason::Object } else { WaitReason::Key }
    }
}

/// A table by one set of columns.
#[derive(Clone, Debug, Default)]
struct KeyIndex {
    columns: Columns,
    whole: AccessGroups,
    cells: HashMap<u64, AccessGroups, HashBuilder>,
    swept: usize,
}

impl KeyIndex {
    fn cell(&mut self, graph: &Graph, value: u64) -> &mut AccessGroups {
        if self.cells.len() >= 2 * self.swept.max(LOOKED_THROUGH) {
            self.cells.retain(|_, cell| !cell.is_idle(graph));
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

/// A table or sequence. The first key index has no columns: all accesses are in its whole.
#[derive(Clone, Debug, Default)]
struct ObjectHistory {
    key_indexes: Vec<KeyIndex>,
}

impl ObjectHistory {
    /// The key index for these columns; the first one if there are none, or too many indexes.
    fn key_index(&mut self, columns: Columns) -> usize {
        if self.key_indexes.is_empty() {
            self.key_indexes.push(KeyIndex::default());
        }
        let found = self.key_indexes.iter().position(|key_index| key_index.columns == columns);
        match found {
            Some(index) => index,
            None if self.key_indexes.len() > KEY_INDEXES_MAX => 0,
            None => {
                // These columns were not needed so far: all accesses were in the whole of it.
                let whole = self.key_indexes[0].whole.clone();
                self.key_indexes.push(KeyIndex { columns, whole, ..KeyIndex::default() });
                self.key_indexes.len() - 1
            }
        }
    }

    /// Adds an access, which waits for those with which it conflicts.
    fn object_access(&mut self, graph: &mut Graph, node: NodeId, object_access: &ObjectAccess) {
        let (own_index, mode) = (self.key_index(object_access.columns), object_access.mode);
        self.key_indexes[own_index].whole.before(graph, node, mode, ConflictScope::Object);
        if own_index > 0 {
            let cell = self.key_indexes[own_index].cell(graph, object_access.value);
            let scope =
                if object_access.is_unique { ConflictScope::OneRow } else { ConflictScope::Rows };
            cell.before(graph, node, mode, scope);
            cell.supersede(mode, scope);
            cell.join(graph, node, mode);
        } else if mode == AccessMode::Write {
            // All key indexes have the same ones.
            self.key_indexes.iter_mut().for_each(KeyIndex::clear);
        } else {
            self.key_indexes
                .iter_mut()
                .for_each(|key_index| key_index.whole.supersede(mode, ConflictScope::Object));
        }
        let others = self.key_indexes.iter_mut().enumerate();
        for (_, key_index) in others.filter(|&(index, _)| index != own_index || own_index == 0) {
            key_index.whole.join(graph, node, mode);
        }
    }

    fn is_idle(&self, graph: &Graph) -> bool {
        self.key_indexes.first().is_none_or(|key_index| key_index.whole.is_idle(graph))
    }
}

/// The last accesses to a database's objects.
#[derive(Clone, Debug, Default)]
pub struct LastAccesses {
    whole: AccessGroups,
    object_accesses: AccessGroups,
    objects: HashMap<Object, ObjectHistory, HashBuilder>,
    swept: usize,
}

impl LastAccesses {
    /// Adds a statement, which waits for earlier ones with which it conflicts.
    pub fn take_in(&mut self, graph: &mut Graph, node: NodeId, access_set: &AccessSet) {
        let Some(strongest) = access_set.strongest() else { return };
        self.whole.before(graph, node, strongest, ConflictScope::Object);
        if let Some(mode) = access_set.anything {
            self.object_accesses.before(graph, node, mode, ConflictScope::Object);
            if mode == AccessMode::Write {
                *self = LastAccesses::default();
            }
            self.whole.join(graph, node, mode);
            if mode == AccessMode::Write {
                return;
            }
        }
        self.sweep(graph);
        for object_access in &access_set.known {
            self.object_accesses.join(graph, node, object_access.mode);
            self.objects.entry(object_access.object).or_default().object_access(
                graph,
                node,
                object_access,
            );
        }
    }

    fn sweep(&mut self, graph: &Graph) {
        if self.objects.len() >= 2 * self.swept.max(LOOKED_THROUGH) {
            self.objects.retain(|_, history| !history.is_idle(graph));
            self.swept = self.objects.len();
        }
    }

    /// Its memory, without the overhead of maps.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        let key_indexes = self.objects.values().flat_map(|history| &history.key_indexes);
        let cells = |key_index: &KeyIndex| {
            key_index.cells.values().map(AccessGroups::memory_bytes).sum::<usize>()
        };
        let own = self.whole.memory_bytes() + self.object_accesses.memory_bytes();
        own + key_indexes
            .map(|key_index| key_index.whole.memory_bytes() + cells(key_index))
            .sum::<usize>()
    }
}
