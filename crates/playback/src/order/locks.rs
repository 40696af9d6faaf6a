//! Rows that open transactions have locked, as far as their statements show, and so: for whom a
//! statement may have to wait.
//!
//! Rows that are identified by one key are locked separately. Where two statements name rows by
//! different keys, or one of them by none, they may mean the same row.

use std::collections::HashMap;

use super::object_access::{AccessMode, AccessSet, Columns, Object, ObjectAccess};

/// Rows that are remembered of what a transaction locked.
const LOCKED_MAX: usize = 4_096;

/// Locks of rows that are named by the same columns.
#[derive(Debug, Default)]
struct Facet {
    columns: Columns,
    rows: HashMap<u64, Vec<(u32, ObjectAccess)>>,
    /// Sessions, and how often they did each access mode.
    sessions: HashMap<u32, [u32; AccessMode::ALL.len()]>,
}

#[derive(Debug, Default)]
struct Open {
    transaction: u64,
    locked: Vec<ObjectAccess>,
    /// It may have locked any row of any table.
    has_anything: bool,
}

/// What open transactions have locked.
#[derive(Debug)]
pub struct Locks {
    objects: HashMap<Object, Vec<Facet>>,
    sessions: Vec<Open>,
    /// Sessions whose transactions have locked something, or anything.
    holders: Vec<u32>,
}

impl Locks {
    /// Locks of `sessions` sessions.
    pub fn new(sessions: usize) -> Locks {
        Locks {
            objects: HashMap::new(),
            sessions: (0..sessions).map(|_| Open::default()).collect(),
            holders: Vec::new(),
        }
    }

    /// A session's transaction that is open; 0 for none.
    pub fn transaction(&self, session: u32) -> u64 {
        self.sessions[session as usize].transaction
    }

    /// A session is in a transaction, or in none, from now on: what it had locked is free.
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
        let Some(facets) = self.objects.get_mut(&object_access.object) else { return };
        let Some(place) = facets.iter().position(|facet| facet.columns == object_access.columns)
        else {
            return;
        };
        let facet = &mut facets[place];
        facet.sessions.remove(&session);
        if let Some(row) = facet.rows.get_mut(&object_access.value) {
            row.retain(|&(holder, _)| holder != session);
            if row.is_empty() {
                facet.rows.remove(&object_access.value);
            }
        }
        if facet.sessions.is_empty() {
            facets.swap_remove(place);
        }
        if facets.is_empty() {
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
            let facets = self.objects.entry(object_access.object).or_default();
            let place = facets.iter().position(|facet| facet.columns == object_access.columns);
            let place = place.unwrap_or_else(|| {
                facets.push(Facet { columns: object_access.columns, ..Facet::default() });
                facets.len() - 1
            });
            let facet = &mut facets[place];
            facet.sessions.entry(session).or_default()[object_access.mode as usize] += 1;
            if object_access.columns > 0 {
                facet.rows.entry(object_access.value).or_default().push((session, *object_access));
            }
        }
        if had_none && (!open.locked.is_empty() || open.has_anything) {
            self.holders.push(session);
        }
    }

    /// Other sessions for whose transactions a statement may have to wait.
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
        for facet in self.objects.get(&object_access.object).into_iter().flatten() {
            if facet.columns == object_access.columns && object_access.columns > 0 {
                let row = facet.rows.get(&object_access.value).into_iter().flatten();
                let others = row.filter(|(_, held)| held.waits_for(object_access));
                found.extend(others.map(|&(holder, _)| holder));
            } else {
                let waits = |modes: &[u32; AccessMode::ALL.len()]| {
                    let mut held =
                        AccessMode::ALL.into_iter().zip(modes).filter(|&(_, &count)| count > 0);
                    held.any(|(mode, _)| object_access.waits_for_mode(mode, false))
                };
                let others = facet.sessions.iter().filter(|(_, modes)| waits(modes));
                found.extend(others.map(|(&holder, _)| holder));
            }
        }
    }
}
