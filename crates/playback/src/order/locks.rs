//! Rows that open transactions have locked, as far as their statements show.
//!
//! Rows that are identified by one key are locked separately. Statements that identify rows by
//! different keys, or by none, may mean the same row.

use std::collections::HashMap;

use super::object_access::{AccessMode, AccessSet, Columns, Object, ObjectAccess};

/// Maximum number of a transaction's locked rows that are tracked.
const LOCKED_MAX: usize = 4_096;

/// Row locks identified by the same columns.
#[derive(Debug, Default)]
struct KeyIndex {
    columns: Columns,
    rows: HashMap<u64, Vec<(u32, ObjectAccess)>>,
    /// By session: how often it locked in each mode.
    sessions: HashMap<u32, [u32; AccessMode::ALL.len()]>,
}

#[derive(Debug, Default)]
struct OpenTransaction {
    transaction: u64,
    locked: Vec<ObjectAccess>,
    /// It may have locked any row of any table.
    has_anything: bool,
}

/// The locks of open transactions.
#[derive(Debug)]
pub struct Locks {
    objects: HashMap<Object, Vec<KeyIndex>>,
    sessions: Vec<OpenTransaction>,
    /// Sessions whose transactions have locked something.
    holders: Vec<u32>,
}

impl Locks {
    /// Locks of `sessions` sessions.
    pub fn new(sessions: usize) -> Locks {
        Locks {
            objects: HashMap::new(),
            sessions: (0..sessions).map(|_| OpenTransaction::default()).collect(),
            holders: Vec::new(),
        }
    }

    /// A session's transaction that is open; 0 for none.
    pub fn transaction(&self, session: u32) -> u64 {
        self.sessions[session as usize].transaction
    }

    /// A session is in another transaction from now on: the locks of its former one are released.
    pub fn begin(&mut self, session: u32, transaction: u64) {
        let open = &mut self.sessions[session as usize];
        open.transaction = transaction;
        let locked = std::mem::take(&mut open.locked);
        if !locked.is_empty() || open.has_anything {
            open.has_anything = false;
            self.holders.retain(|&holder| holder != session);
        }
        for object_access in locked {
            self.free(session, &object_access);
        }
    }

    fn free(&mut self, session: u32, object_access: &ObjectAccess) {
        let Some(key_indexes) = self.objects.get_mut(&object_access.object) else { return };
        let Some(index) =
            key_indexes.iter().position(|key_index| key_index.columns == object_access.columns)
        else {
            return;
        };
        let key_index = &mut key_indexes[index];
        key_index.sessions.remove(&session);
        if let Some(row) = key_index.rows.get_mut(&object_access.value) {
            row.retain(|&(holder, _)| holder != session);
            if row.is_empty() {
                key_index.rows.remove(&object_access.value);
            }
        }
        if key_index.sessions.is_empty() {
            key_indexes.swap_remove(index);
        }
        if key_indexes.is_empty() {
            self.objects.remove(&object_access.object);
        }
    }

    /// A statement of a session's open transaction got its locks.
    pub fn lock(&mut self, session: u32, access_set: &AccessSet) {
        let open = &mut self.sessions[session as usize];
        let had_none = open.locked.is_empty() && !open.has_anything;
        open.has_anything |= access_set.anything == Some(AccessMode::Write);
        for object_access in access_set.known.iter().filter(|object_access| object_access.locks()) {
            if open.locked.len() >= LOCKED_MAX
                || open.locked.iter().rev().take(8).any(|one| one == object_access)
            {
                continue;
            }
            open.locked.push(*object_access);
            let key_indexes = self.objects.entry(object_access.object).or_default();
            let index =
                key_indexes.iter().position(|key_index| key_index.columns == object_access.columns);
            let index = index.unwrap_or_else(|| {
                key_indexes
                    .push(KeyIndex { columns: object_access.columns, ..KeyIndex::default() });
                key_indexes.len() - 1
            });
            let key_index = &mut key_indexes[index];
            key_index.sessions.entry(session).or_default()[object_access.mode as usize] += 1;
            if object_access.columns > 0 {
                key_index
                    .rows
                    .entry(object_access.value)
                    .or_default()
                    .push((session, *object_access));
            }
        }
        if had_none && (!open.locked.is_empty() || open.has_anything) {
            self.holders.push(session);
        }
    }

    /// Other sessions whose transactions a statement may have to wait for.
    pub fn blockers(&self, session: u32, access_set: &AccessSet) -> Vec<u32> {
        let mut found = Vec::new();
        if self.holders.is_empty() || self.holders == [session] {
            return found;
        }
        if access_set.anything == Some(AccessMode::Write) {
            found.extend(&self.holders);
        } else if access_set.known.iter().any(ObjectAccess::locks) {
            let has_anything = |&&holder: &&u32| self.sessions[holder as usize].has_anything;
            found.extend(self.holders.iter().filter(has_anything));
            for object_access in
                access_set.known.iter().filter(|object_access| object_access.locks())
            {
                self.blockers_of(object_access, &mut found);
            }
        }
        found.sort_unstable();
        found.dedup();
        found.retain(|&holder| holder != session);
        found
    }

    fn blockers_of(&self, object_access: &ObjectAccess, found: &mut Vec<u32>) {
        for key_index in self.objects.get(&object_access.object).into_iter().flatten() {
            if key_index.columns == object_access.columns && object_access.columns > 0 {
                let row = key_index.rows.get(&object_access.value).into_iter().flatten();
                let others = row.filter(|(_, locked)| locked.waits_for(object_access));
                found.extend(others.map(|&(holder, _)| holder));
            } else {
                let waits = |modes: &[u32; AccessMode::ALL.len()]| {
                    let mut locked =
                        AccessMode::ALL.into_iter().zip(modes).filter(|&(_, &count)| count > 0);
                    locked.any(|(mode, _)| object_access.waits_for_mode(mode, false))
                };
                let others = key_index.sessions.iter().filter(|(_, modes)| waits(modes));
                found.extend(others.map(|(&holder, _)| holder));
            }
        }
    }
}
