//! Which draw gave which id, where only one can have.
//!
//! Each slot (a value that a statement drew) has a range of ranks that it can have; each id that
//! was used has a rank, and a time by which it was known. A slot that began to be drawn later did
//! not give it. An id that only one slot can have given is that slot's; a slot that can have given
//! one rank only has that rank; and what is settled is out of question for all others, until
//! nothing more follows.

use super::scan::{NONE, Present};

/// Limit for the ranks of a slot; a slot with more shows nothing.
const RANKS_MAX: i64 = 1 << 10;

/// A value that was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The least rank that it can have.
    pub least: i64,
    /// The greatest; None if unknown.
    pub most: Option<i64>,
    /// The earliest time at which it was drawn.
    pub after: u64,
    /// Its session.
    pub session: u32,
    /// The earliest time at which others can have seen the row that it was drawn for.
    pub seen_after: u64,
    /// Its class; [`NONE`] for any.
    pub class: u32,
    /// Whether it may be that nothing was drawn, or more.
    pub is_doubtful: bool,
}

/// An id that was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its rank.
    pub rank: i64,
    /// The time by which it was known.
    pub deadline: u64,
    /// Its class.
    pub class: u32,
    /// A statement that found its row.
    pub present: Option<Present>,
}

/// What is settled, and what may be.
#[derive(Debug)]
pub struct Proof<'a> {
    slots: &'a [Slot],
    wanted: &'a [Wanted],
    /// For each id, the slot that gave it.
    pub given: Vec<u32>,
    /// For each slot, whether its rank is settled.
    is_settled: Vec<bool>,
    /// For each id, slots that may have given it: how many, and all of them together by XOR.
    left: Vec<(u32, u32)>,
    /// For each slot, ranks that it may have.
    ranks_left: Vec<i64>,
    /// For each id, whether something else may have given it.
    is_tainted: Vec<bool>,
    /// Slots of each id, and where those of the next begin.
    slots_of: Vec<u32>,
    begins: Vec<u32>,
    todo: Vec<Todo>,
}

#[derive(Clone, Copy, Debug)]
enum Todo {
    Id(u32),
    Slot(u32),
}

impl<'a> Proof<'a> {
    /// Of these slots, and ids in the order of their ranks, each rank once.
    pub fn new(slots: &'a [Slot], wanted: &'a [Wanted]) -> Proof<'a> {
        let mut proof = Proof {
            slots,
            wanted,
            given: vec![NONE; wanted.len()],
            is_settled: vec![false; slots.len()],
            left: vec![(0, 0); wanted.len()],
            ranks_left: vec![0; slots.len()],
            is_tainted: tainted(slots, wanted),
            slots_of: Vec::new(),
            begins: vec![0; wanted.len() + 1],
            todo: Vec::new(),
        };
        proof.connect();
        proof
    }

    fn connect(&mut self) {
        for slot in 0..self.slots.len() {
            let within = self.within(slot);
            let (mut refused, own) = (0, self.slots[slot]);
            for id in within {
                if may_give(&own, &self.wanted[id]) {
                    self.left[id].0 += 1;
                    self.left[id].1 ^= slot as u32;
                } else {
                    refused += 1;
                }
            }
            self.ranks_left[slot] =
                own.most.map_or(i64::MAX, |most| most - own.least + 1 - refused);
        }
        let mut sum = 0;
        for (begin, (count, _)) in self.begins[1..].iter_mut().zip(&self.left) {
            sum += count;
            *begin = sum;
        }
        self.slots_of = vec![NONE; sum as usize];
        let mut next: Vec<u32> = self.begins.clone();
        for slot in 0..self.slots.len() {
            for id in self.within(slot) {
                if may_give(&self.slots[slot], &self.wanted[id]) {
                    self.slots_of[next[id] as usize] = slot as u32;
                    next[id] += 1;
                }
            }
        }
        self.todo.extend((0..self.wanted.len() as u32).map(Todo::Id));
        self.todo.extend((0..self.slots.len() as u32).map(Todo::Slot));
    }

    /// Ids whose ranks a slot may have by its range.
    fn within(&self, slot: usize) -> std::ops::Range<usize> {
        let Slot { least, most, is_doubtful, .. } = self.slots[slot];
        let Some(most) = most.filter(|most| !is_doubtful && most - least < RANKS_MAX) else {
            return 0..0;
        };
        let begin = self.wanted.partition_point(|wanted| wanted.rank < least);
        let end = self.wanted.partition_point(|wanted| wanted.rank <= most);
        begin..end.max(begin)
    }

    /// Whether a slot may still have given an id.
    pub fn may_give(&self, slot: u32, id: u32) -> bool {
        let is_open = !self.is_settled[slot as usize] && self.given[id as usize] == NONE;
        is_open
            && self.within(slot as usize).contains(&(id as usize))
            && may_give(&self.slots[slot as usize], &self.wanted[id as usize])
    }

    /// Whether a slot may give an id; also slots with more ranks than are followed, or unknown.
    pub fn could_give(&self, slot: u32, id: u32) -> bool {
        let is_open = !self.is_settled[slot as usize] && self.given[id as usize] == NONE;
        let (slot, wanted) = (&self.slots[slot as usize], &self.wanted[id as usize]);
        let is_within =
            slot.least <= wanted.rank && slot.most.is_none_or(|most| wanted.rank <= most);
        is_open && is_within && may_give(slot, wanted)
    }

    /// An id's rank.
    pub fn rank(&self, id: u32) -> i64 {
        self.wanted[id as usize].rank
    }

    /// Whether a slot's rank is settled.
    pub fn is_settled(&self, slot: u32) -> bool {
        self.is_settled[slot as usize]
    }

    /// Slots that may still have given an id.
    pub fn candidates(&self, id: u32) -> impl Iterator<Item = u32> {
        let slots = self.begins[id as usize] as usize..self.begins[id as usize + 1] as usize;
        self.slots_of[slots].iter().copied().filter(move |&slot| self.may_give(slot, id))
    }

    /// How many slots may still have given an id.
    pub fn left(&self, id: u32) -> u32 {
        self.left[id as usize].0
    }

    /// Whether draws outside of the log may have given an id.
    pub fn is_tainted(&self, id: u32) -> bool {
        self.is_tainted[id as usize]
    }

    /// Settles that a slot gave an id, from evidence of another kind.
    pub fn settle(&mut self, slot: u32, id: u32) {
        if self.given[id as usize] != NONE || self.is_settled[slot as usize] {
            return;
        }
        self.given[id as usize] = slot;
        self.is_settled[slot as usize] = true;
        for other in self.within(slot as usize) {
            if other as u32 != id && may_give(&self.slots[slot as usize], &self.wanted[other]) {
                self.left[other].0 -= 1;
                self.left[other].1 ^= slot;
                self.todo.push(Todo::Id(other as u32));
            }
        }
        for at in self.begins[id as usize]..self.begins[id as usize + 1] {
            let other = self.slots_of[at as usize];
            if other != slot {
                self.ranks_left[other as usize] -= 1;
                self.todo.push(Todo::Slot(other));
            }
        }
    }

    /// Settles all that follows from what is settled.
    pub fn follow(&mut self) {
        while let Some(todo) = self.todo.pop() {
            match todo {
                Todo::Id(id) => {
                    let (count, slot) = self.left[id as usize];
                    if count == 1 && !self.is_tainted(id) {
                        self.settle(slot, id);
                    }
                }
                Todo::Slot(slot) if self.ranks_left[slot as usize] == 1 => self.settle_slot(slot),
                Todo::Slot(_) => {}
            }
        }
    }

    /// A slot can have one rank only: it gave the id of that rank, if any; it gave no other in any
    /// case.
    fn settle_slot(&mut self, slot: u32) {
        if self.is_settled[slot as usize] || self.slots[slot as usize].is_doubtful {
            return;
        }
        let mut open = self.within(slot as usize).filter(|&id| self.may_give(slot, id as u32));
        let (id, more) = (open.next(), open.next());
        if let (Some(id), None) = (id, more) {
            self.settle(slot, id as u32);
        }
    }
}

fn may_give(slot: &Slot, wanted: &Wanted) -> bool {
    let is_seen =
        |present: Present| slot.session == present.session || slot.seen_after < present.ended;
    slot.after < wanted.deadline
        && (slot.class == wanted.class || slot.class == NONE)
        && wanted.present.is_none_or(is_seen)
}

/// Which ids may be of a slot that is in doubt, or has too many ranks.
fn tainted(slots: &[Slot], wanted: &[Wanted]) -> Vec<bool> {
    let mut changes = vec![0i64; wanted.len() + 1];
    for slot in slots {
        let most = slot.most.unwrap_or(i64::MAX);
        if !slot.is_doubtful && slot.most.is_some() && most - slot.least < RANKS_MAX {
            continue;
        }
        let begin = wanted.partition_point(|wanted| wanted.rank < slot.least);
        let end = wanted.partition_point(|wanted| wanted.rank <= most);
        changes[begin] += 1;
        changes[end.max(begin)] -= 1;
    }
    let mut sum = 0;
    let mut is_tainted = |change: &i64| {
        sum += change;
        sum > 0
    };
    changes[..wanted.len()].iter().map(&mut is_tainted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(least: i64, most: i64, after: u64) -> Slot {
        let (session, seen_after) = (0, after);
        Slot { least, most: Some(most), after, session, seen_after, class: 0, is_doubtful: false }
    }

    fn wanted(rank: i64, deadline: u64) -> Wanted {
        Wanted { rank, deadline, class: 0, present: None }
    }

    fn given(slots: &[Slot], wanted: &[Wanted]) -> Vec<Option<u32>> {
        let mut proof = Proof::new(slots, wanted);
        proof.follow();
        proof.given.iter().map(|&slot| (slot != NONE).then_some(slot)).collect()
    }

    #[test]
    fn what_only_one_can_have_given_is_settled_and_all_that_follows() {
        let slots = [slot(0, 1, 0), slot(0, 2, 5), slot(1, 2, 9)];
        // The third began only when the id of rank 1 was known, and the second when that of 0 was.
        let ids = [wanted(0, 4), wanted(1, 8), wanted(2, 20)];
        assert_eq!(given(&slots, &ids), [Some(0), Some(1), Some(2)]);
        // It is unknown which of two that overlap was first.
        let both = [slot(0, 1, 0), slot(0, 1, 0)];
        assert_eq!(given(&both, &[wanted(0, 9), wanted(1, 9)]), [None, None]);
        assert_eq!(given(&both, &[wanted(0, 9)]), [None]);
    }

    #[test]
    fn who_found_a_row_had_drawn_it_or_came_behind_its_commit() {
        let one = |session, seen_after| Slot { session, seen_after, ..slot(0, 1, 0) };
        let ids = |session, ended| {
            [Wanted { present: Some(Present { session, ended }), ..wanted(0, 9) }, wanted(1, 9)]
        };
        // The other session's transaction ended later.
        assert_eq!(given(&[one(3, 8), one(4, 8)], &ids(4, 7)), [Some(1), Some(0)]);
        assert_eq!(given(&[one(3, 6), one(4, 8)], &ids(4, 7)), [None, None]);
        assert_eq!(given(&[one(3, 6), one(4, 8)], &ids(5, 7)), [Some(0), Some(1)]);
    }

    #[test]
    fn what_may_be_of_another_is_not_settled() {
        let open = Slot { most: None, ..slot(1, 0, 0) };
        let ids = [wanted(0, 9), wanted(1, 9), wanted(5, 9)];
        assert_eq!(given(&[slot(0, 0, 0), slot(1, 1, 0), open], &ids), [Some(0), Some(1), None]);
        let failed = Slot { is_doubtful: true, ..slot(0, 0, 0) };
        assert_eq!(given(&[slot(0, 1, 0), failed], &ids[..1]), [None]);
        let other = Slot { class: 7, ..slot(0, 0, 0) };
        assert_eq!(given(&[other], &ids[..1]), [None]);
        assert_eq!(given(&[Slot { class: NONE, ..other }], &ids[..1]), [Some(0)]);
    }
}
