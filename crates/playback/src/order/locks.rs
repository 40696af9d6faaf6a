//! Rows that open transactions have locked, as far as their statements tell, and so: for whom a
//! statement may have to wait.
//!
//! Rows of which one key tells are locked apart. Where two statements name rows by different keys,
//! or one of them by none, they may mean the same row.

use std::collections::HashMap;

use super::touch::{Columns, Deed, Object, Touch, Touches};

/// Rows that are remembered of what a transaction locked.
const LOCKED_MAX: usize = 4_096;

/// Whoever locked rows that are named by the same columns.
#[derive(Debug, Default)]
struct Facet {
    columns: Columns,
    rows: HashMap<u64, Vec<(u32, Touch)>>,
    /// Sessions, and how often they did each deed.
    sessions: HashMap<u32, [u32; Deed::ALL.len()]>,
}

#[derive(Debug, Default)]
struct Open {
    transaction: u64,
    locked: Vec<Touch>,
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
    /// Of so many sessions.
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
        for touch in locked {
            self.free(session, &touch);
        }
    }

    fn free(&mut self, session: u32, touch: &Touch) {
        let Some(facets) = self.objects.get_mut(&touch.object) else { return };
        let Some(place) = facets.iter().position(|facet| facet.columns == touch.columns) else {
            return;
        };
        let facet = &mut facets[place];
        facet.sessions.remove(&session);
        if let Some(row) = facet.rows.get_mut(&touch.value) {
            row.retain(|&(holder, _)| holder != session);
            if row.is_empty() {
                facet.rows.remove(&touch.value);
            }
        }
        if facet.sessions.is_empty() {
            facets.swap_remove(place);
        }
        if facets.is_empty() {
            self.objects.remove(&touch.object);
        }
    }

    /// A statement of a session's open transaction got its locks.
    pub fn lock(&mut self, session: u32, touches: &Touches) {
        let open = &mut self.sessions[session as usize];
        let had_none = open.locked.is_empty() && !open.has_anything;
        open.has_anything |= touches.anything == Some(Deed::Write);
        for touch in touches.known.iter().filter(|touch| touch.locks()) {
            if open.locked.len() >= LOCKED_MAX
                || open.locked.iter().rev().take(8).any(|one| one == touch)
            {
                continue;
            }
            open.locked.push(*touch);
            let facets = self.objects.entry(touch.object).or_default();
            let place = facets.iter().position(|facet| facet.columns == touch.columns);
            let place = place.unwrap_or_else(|| {
                facets.push(Facet { columns: touch.columns, ..Facet::default() });
                facets.len() - 1
            });
            let facet = &mut facets[place];
            facet.sessions.entry(session).or_default()[touch.deed as usize] += 1;
            if touch.columns > 0 {
                facet.rows.entry(touch.value).or_default().push((session, *touch));
            }
        }
        if had_none && (!open.locked.is_empty() || open.has_anything) {
            self.holders.push(session);
        }
    }

    /// Other sessions for whose transactions a statement may have to wait.
    pub fn blockers(&self, session: u32, touches: &Touches) -> Vec<u32> {
        let mut found = Vec::new();
        if self.holders.is_empty() || self.holders == [session] {
            return found;
        }
        if touches.anything == Some(Deed::Write) {
            found.extend(&self.holders);
        } else if touches.known.iter().any(Touch::locks) {
            let has_anything = |&&holder: &&u32| self.sessions[holder as usize].has_anything;
            found.extend(self.holders.iter().filter(has_anything));
            for touch in touches.known.iter().filter(|touch| touch.locks()) {
                self.blockers_of(touch, &mut found);
            }
        }
        found.sort_unstable();
        found.dedup();
        found.retain(|&holder| holder != session);
        found
    }

    fn blockers_of(&self, touch: &Touch, found: &mut Vec<u32>) {
        for facet in self.objects.get(&touch.object).into_iter().flatten() {
            if facet.columns == touch.columns && touch.columns > 0 {
                let row = facet.rows.get(&touch.value).into_iter().flatten();
                let others = row.filter(|(_, held)| held.waits_for(touch));
                found.extend(others.map(|&(holder, _)| holder));
            } else {
                let waits = |deeds: &[u32; Deed::ALL.len()]| {
                    let mut held =
                        Deed::ALL.into_iter().zip(deeds).filter(|&(_, &count)| count > 0);
                    held.any(|(deed, _)| touch.waits_for_deed(deed, false))
                };
                let others = facet.sessions.iter().filter(|(_, deeds)| waits(deeds));
                found.extend(others.map(|(&holder, _)| holder));
            }
        }
    }
}
