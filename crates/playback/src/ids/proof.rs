//! Which draw generated which id, by elimination.
//!
//! Each slot (a drawn value) has a range of possible ranks; each used id has a rank, and a time by
//! which it was known. A slot that began to be drawn later did not generate it. An id that only one
//! slot can have generated is of that slot; a slot with only one possible rank has that rank; and
//! what is settled is excluded for all others, until nothing more follows.

use super::scan::{FoundRow, NONE};

/// Limit for the ranks of a slot; a slot with more shows nothing.
const RANKS_MAX: i64 = 1 << 10;

/// A value that was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its minimum rank.
    pub least: i64,
    /// Its maximum rank; None if unknown.
    pub most: Option<i64>,
    /// The earliest time at which it was drawn.
    pub after: u64,
    pub session: u32,
    /// The earliest time at which others can have seen its row.
    pub visible_after: u64,
    /// Its class; [`NONE`] for any.
    pub class: u32,
    /// Whether it is uncertain that exactly one value was drawn.
    pub is_doubtful: bool,
}

/// An id that was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankedId {
    pub rank: i64,
    /// The time by which it was known.
    pub deadline: u64,
    pub class: u32,
    /// A statement that found its row.
    pub present: Option<FoundRow>,
}

/// What is proved, and what remains possible.
#[derive(Debug)]
pub struct Proof<'a> {
    slots: &'a [Slot],
    ranked: &'a [RankedId],
    /// By id: the slot that generated it.
    pub given: Vec<u32>,
    /// By slot: whether its rank is settled.
    is_settled: Vec<bool>,
    /// By id: the number of slots that may have generated it, and the XOR of them.
    left: Vec<(u32, u32)>,
    /// By slot: the number of ranks that remain possible.
    ranks_left: Vec<i64>,
    /// By id: whether draws that are not followed may have generated it.
    is_tainted: Vec<bool>,
    /// Slots of each id, and where those of the next begin.
    slots_of: Vec<u32>,
    begins: Vec<u32>,
    worklist: Vec<WorkItem>,
}

#[derive(Clone, Copy, Debug)]
enum WorkItem {
    Id(u32),
    Slot(u32),
}

impl<'a> Proof<'a> {
    /// `ranked` is in the order of ranks, each rank once.
    pub fn new(slots: &'a [Slot], ranked: &'a [RankedId]) -> Proof<'a> {
        let mut proof = Proof {
            slots,
            ranked,
            given: vec![NONE; ranked.len()],
            is_settled: vec![false; slots.len()],
            left: vec![(0, 0); ranked.len()],
            ranks_left: vec![0; slots.len()],
            is_tainted: tainted(slots, ranked),
            slots_of: Vec::new(),
            begins: vec![0; ranked.len() + 1],
            worklist: Vec::new(),
        };
        proof.connect();
        proof
    }

    fn connect(&mut self) {
        for slot in 0..self.slots.len() {
            let within = self.within(slot);
            let (mut refused, own) = (0, self.slots[slot]);
            for id in within {
                if may_give(&own, &self.ranked[id]) {
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
                if may_give(&self.slots[slot], &self.ranked[id]) {
                    self.slots_of[next[id] as usize] = slot as u32;
                    next[id] += 1;
                }
            }
        }
        self.worklist.extend((0..self.ranked.len() as u32).map(WorkItem::Id));
        self.worklist.extend((0..self.slots.len() as u32).map(WorkItem::Slot));
    }

    /// Ids whose ranks are in a slot's range.
    fn within(&self, slot: usize) -> std::ops::Range<usize> {
        let Slot { least, most, is_doubtful, .. } = self.slots[slot];
        let Some(most) = most.filter(|most| !is_doubtful && most - least < RANKS_MAX) else {
            return 0..0;
        };
        let begin = self.ranked.partition_point(|ranked| ranked.rank < least);
        let end = self.ranked.partition_point(|ranked| ranked.rank <= most);
        begin..end.max(begin)
    }

    /// Whether a slot may still have generated an id.
    pub fn may_give(&self, slot: u32, id: u32) -> bool {
        let is_open = !self.is_settled[slot as usize] && self.given[id as usize] == NONE;
        is_open
            && self.within(slot as usize).contains(&(id as usize))
            && may_give(&self.slots[slot as usize], &self.ranked[id as usize])
    }

    /// Whether a slot may have generated an id, including slots with too many or unknown ranks.
    pub fn could_give(&self, slot: u32, id: u32) -> bool {
        let is_open = !self.is_settled[slot as usize] && self.given[id as usize] == NONE;
        let (slot, ranked) = (&self.slots[slot as usize], &self.ranked[id as usize]);
        let is_within =
            slot.least <= ranked.rank && slot.most.is_none_or(|most| ranked.rank <= most);
        is_open && is_within && may_give(slot, ranked)
    }

    pub fn rank(&self, id: u32) -> i64 {
        self.ranked[id as usize].rank
    }

    pub fn is_settled(&self, slot: u32) -> bool {
        self.is_settled[slot as usize]
    }

    /// Slots that may still have generated an id.
    pub fn candidates(&self, id: u32) -> impl Iterator<Item = u32> {
        let slots = self.begins[id as usize] as usize..self.begins[id as usize + 1] as usize;
        self.slots_of[slots].iter().copied().filter(move |&slot| self.may_give(slot, id))
    }

    /// Number of slots that may still have generated an id.
    pub fn left(&self, id: u32) -> u32 {
        self.left[id as usize].0
    }

    /// Whether draws that are not followed may have generated an id.
    pub fn is_tainted(&self, id: u32) -> bool {
        self.is_tainted[id as usize]
    }

    /// Settles that a slot generated an id, from other evidence.
    pub fn settle(&mut self, slot: u32, id: u32) {
        if self.given[id as usize] != NONE || self.is_settled[slot as usize] {
            return;
        }
        self.given[id as usize] = slot;
        self.is_settled[slot as usize] = true;
        for other in self.within(slot as usize) {
            if other as u32 != id && may_give(&self.slots[slot as usize], &self.ranked[other]) {
                self.left[other].0 -= 1;
                self.left[other].1 ^= slot;
                self.worklist.push(WorkItem::Id(other as u32));
            }
        }
        for at in self.begins[id as usize]..self.begins[id as usize + 1] {
            let other = self.slots_of[at as usize];
            if other != slot {
                self.ranks_left[other as usize] -= 1;
                self.worklist.push(WorkItem::Slot(other));
            }
        }
    }

    /// Settles all consequences.
    pub fn follow(&mut self) {
        while let Some(item) = self.worklist.pop() {
            match item {
                WorkItem::Id(id) => {
                    let (count, slot) = self.left[id as usize];
                    if count == 1 && !self.is_tainted(id) {
                        self.settle(slot, id);
                    }
                }
                WorkItem::Slot(slot) if self.ranks_left[slot as usize] == 1 => {
                    self.settle_slot(slot)
                }
                WorkItem::Slot(_) => {}
            }
        }
    }

    /// A slot has one rank: it generated the id of that rank, if there is one, and no other.
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

fn may_give(slot: &Slot, ranked: &RankedId) -> bool {
    let is_seen =
        |present: FoundRow| slot.session == present.session || slot.visible_after < present.ended;
    slot.after < ranked.deadline
        && (slot.class == ranked.class || slot.class == NONE)
        && ranked.present.is_none_or(is_seen)
}

/// Ids that may be of an uncertain slot, or of one with too many ranks.
fn tainted(slots: &[Slot], ranked: &[RankedId]) -> Vec<bool> {
    let mut changes = vec![0i64; ranked.len() + 1];
    for slot in slots {
        let most = slot.most.unwrap_or(i64::MAX);
        if !slot.is_doubtful && slot.most.is_some() && most - slot.least < RANKS_MAX {
            continue;
        }
        let begin = ranked.partition_point(|ranked| ranked.rank < slot.least);
        let end = ranked.partition_point(|ranked| ranked.rank <= most);
        changes[begin] += 1;
        changes[end.max(begin)] -= 1;
    }
    let mut sum = 0;
    let mut is_tainted = |change: &i64| {
        sum += change;
        sum > 0
    };
    changes[..ranked.len()].iter().map(&mut is_tainted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(least: i64, most: i64, after: u64) -> Slot {
        let (session, visible_after) = (0, after);
        Slot {
            least,
            most: Some(most),
            after,
            session,
            visible_after,
            class: 0,
            is_doubtful: false,
        }
    }

    fn ranked(rank: i64, deadline: u64) -> RankedId {
        RankedId { rank, deadline, class: 0, present: None }
    }

    fn given(slots: &[Slot], ranked: &[RankedId]) -> Vec<Option<u32>> {
        let mut proof = Proof::new(slots, ranked);
        proof.follow();
        proof.given.iter().map(|&slot| (slot != NONE).then_some(slot)).collect()
    }

    #[test]
    fn unique_candidates_are_settled_with_all_consequences() {
        let slots = [slot(0, 1, 0), slot(0, 2, 5), slot(1, 2, 9)];
        // The third began only when the id of rank 1 was known, and the second when that of 0 was.
        let ids = [ranked(0, 4), ranked(1, 8), ranked(2, 20)];
        assert_eq!(given(&slots, &ids), [Some(0), Some(1), Some(2)]);
        // It is unknown which of two that overlap was first.
        let both = [slot(0, 1, 0), slot(0, 1, 0)];
        assert_eq!(given(&both, &[ranked(0, 9), ranked(1, 9)]), [None, None]);
        assert_eq!(given(&both, &[ranked(0, 9)]), [None]);
    }

    #[test]
    fn found_row_was_drawn_by_its_session_or_committed_before() {
        let one = |session, visible_after| Slot { session, visible_after, ..slot(0, 1, 0) };
        let ids = |session, ended| {
            [RankedId { present: Some(FoundRow { session, ended }), ..ranked(0, 9) }, ranked(1, 9)]
        };
        // The other session's transaction ended later.
        assert_eq!(given(&[one(3, 8), one(4, 8)], &ids(4, 7)), [Some(1), Some(0)]);
        assert_eq!(given(&[one(3, 6), one(4, 8)], &ids(4, 7)), [None, None]);
        assert_eq!(given(&[one(3, 6), one(4, 8)], &ids(5, 7)), [Some(0), Some(1)]);
    }

    #[test]
    fn ambiguous_ids_are_not_settled() {
        let open = Slot { most: None, ..slot(1, 0, 0) };
        let ids = [ranked(0, 9), ranked(1, 9), ranked(5, 9)];
        assert_eq!(given(&[slot(0, 0, 0), slot(1, 1, 0), open], &ids), [Some(0), Some(1), None]);
        let failed = Slot { is_doubtful: true, ..slot(0, 0, 0) };
        assert_eq!(given(&[slot(0, 1, 0), failed], &ids[..1]), [None]);
        let other = Slot { class: 7, ..slot(0, 0, 0) };
        assert_eq!(given(&[other], &ids[..1]), [None]);
        assert_eq!(given(&[Slot { class: NONE, ..other }], &ids[..1]), [Some(0)]);
    }
}
