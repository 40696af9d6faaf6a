//! Lists of blocks by age, from which any block can be removed.

use std::collections::VecDeque;

/// The list number of a block that is in no list.
const NO_LIST: u8 = u8::MAX;
/// Stale entries that a list may have before it is compacted.
const STALE_MIN: usize = 1024;

#[derive(Clone, Copy)]
struct Slot {
    /// Of the block's newest entry.
    stamp: u32,
    list: u8,
    mark: u8,
}

#[derive(Clone, Copy)]
struct Entry {
    block: u32,
    stamp: u32,
}

/// `N` lists of blocks, each from the oldest to the newest; a block is in one of them at most.
///
/// A block that moves leaves its entry behind: the entry whose stamp is not the block's is stale,
/// and dropped when it becomes the oldest. So a move writes to two locations, one of them the end
/// of a queue, where a linked list writes to five.
pub(crate) struct Lists<const N: usize> {
    slots: Vec<Slot>,
    queues: [VecDeque<Entry>; N],
    counts: [usize; N],
    stamp: u32,
}

impl<const N: usize> Lists<N> {
    /// Empty lists for blocks below `blocks`.
    pub fn new(blocks: u32) -> Lists<N> {
        let slot = Slot { stamp: 0, list: NO_LIST, mark: 0 };
        Lists {
            slots: vec![slot; blocks as usize],
            queues: std::array::from_fn(|_| VecDeque::new()),
            counts: [0; N],
            stamp: 0,
        }
    }

    /// Makes room for blocks below `blocks`.
    pub fn make_room(&mut self, blocks: u32) {
        self.slots.resize(blocks as usize, Slot { stamp: 0, list: NO_LIST, mark: 0 });
    }

    /// Returns the number of blocks in a list.
    pub fn len(&self, list: u8) -> usize {
        self.counts[usize::from(list)]
    }

    /// Returns whether a block is in a list.
    #[inline]
    pub fn is_in(&self, list: u8, block: u32) -> bool {
        self.slots[block as usize].list == list
    }

    /// Returns the list that a block is in.
    #[inline]
    pub fn list_of(&self, block: u32) -> Option<u8> {
        let list = self.slots[block as usize].list;
        (list != NO_LIST).then_some(list)
    }

    /// Returns the mark of a block, which a policy sets; 0 at first.
    #[inline]
    pub fn mark(&self, block: u32) -> u8 {
        self.slots[block as usize].mark
    }

    /// Sets the mark of a block.
    #[inline]
    pub fn set_mark(&mut self, block: u32, mark: u8) {
        self.slots[block as usize].mark = mark;
    }

    /// Moves a block to the newest end of a list.
    #[inline]
    pub fn push(&mut self, list: u8, block: u32) {
        if self.stamp == u32::MAX {
            self.renumber();
        }
        self.stamp += 1;
        let slot = &mut self.slots[block as usize];
        if slot.list != NO_LIST {
            self.counts[usize::from(slot.list)] -= 1;
        }
        slot.list = list;
        slot.stamp = self.stamp;
        let at = usize::from(list);
        self.counts[at] += 1;
        self.queues[at].push_back(Entry { block, stamp: self.stamp });
        if self.queues[at].len() > 2 * self.counts[at] + STALE_MIN {
            self.compact(list);
        }
    }

    /// Removes a block from the list that it is in.
    pub fn remove(&mut self, block: u32) {
        let slot = &mut self.slots[block as usize];
        if slot.list != NO_LIST {
            self.counts[usize::from(slot.list)] -= 1;
            slot.list = NO_LIST;
        }
    }

    /// Returns the oldest block of a list.
    #[inline]
    pub fn oldest(&mut self, list: u8) -> Option<u32> {
        let queue = &mut self.queues[usize::from(list)];
        while let Some(&entry) = queue.front() {
            if is_live(&self.slots, list, entry) {
                return Some(entry.block);
            }
            queue.pop_front();
        }
        None
    }

    /// Removes the oldest block of a list and returns it.
    #[inline]
    pub fn pop(&mut self, list: u8) -> Option<u32> {
        let block = self.oldest(list)?;
        self.queues[usize::from(list)].pop_front();
        self.remove(block);
        Some(block)
    }

    /// Returns the blocks of a list, from the oldest.
    pub fn iter(&self, list: u8) -> impl DoubleEndedIterator<Item = u32> + '_ {
        let queue = &self.queues[usize::from(list)];
        queue.iter().filter(move |&&entry| is_live(&self.slots, list, entry)).map(|each| each.block)
    }

    fn compact(&mut self, list: u8) {
        let slots = &self.slots;
        self.queues[usize::from(list)].retain(|&entry| is_live(slots, list, entry));
    }

    /// Renumbers the stamps from 1, when they run out.
    fn renumber(&mut self) {
        self.stamp = 0;
        for list in 0..N as u8 {
            self.compact(list);
        }
        for queue in &mut self.queues {
            for entry in queue {
                self.stamp += 1;
                entry.stamp = self.stamp;
                self.slots[entry.block as usize].stamp = self.stamp;
            }
        }
    }
}

#[inline]
fn is_live(slots: &[Slot], list: u8, entry: Entry) -> bool {
    let slot = slots[entry.block as usize];
    slot.stamp == entry.stamp && slot.list == list
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Push(u8, u32),
        Remove(u32),
        Pop(u8),
        Renumber,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0u8..2, 0u32..8).prop_map(|(list, block)| Step::Push(list, block)),
            1 => (0u32..8).prop_map(Step::Remove),
            2 => (0u8..2).prop_map(Step::Pop),
            1 => Just(Step::Renumber),
        ]
    }

    proptest! {
        #[test]
        fn lists_are_what_plain_vectors_are(steps in proptest::collection::vec(step(), 0..400)) {
            let mut lists = Lists::<2>::new(8);
            let mut plain = [Vec::new(), Vec::new()];
            for step in steps {
                match step {
                    Step::Push(list, block) => {
                        lists.push(list, block);
                        plain.iter_mut().for_each(|each| each.retain(|&other| other != block));
                        plain[usize::from(list)].push(block);
                    }
                    Step::Remove(block) => {
                        lists.remove(block);
                        plain.iter_mut().for_each(|each| each.retain(|&other| other != block));
                    }
                    Step::Pop(list) => {
                        let own = &mut plain[usize::from(list)];
                        let first = (!own.is_empty()).then(|| own.remove(0));
                        prop_assert_eq!(lists.pop(list), first);
                    }
                    Step::Renumber => lists.renumber(),
                }
                for list in 0..2u8 {
                    let own = &plain[usize::from(list)];
                    prop_assert_eq!(lists.len(list), own.len());
                    prop_assert_eq!(&lists.iter(list).collect::<Vec<_>>(), own);
                    prop_assert_eq!(lists.oldest(list), own.first().copied());
                }
            }
        }
    }

    #[test]
    fn a_list_whose_blocks_move_does_not_grow() {
        let mut lists = Lists::<1>::new(4);
        for number in 0..100_000u32 {
            lists.push(0, number % 4);
        }
        assert!(lists.queues[0].len() <= 2 * 4 + STALE_MIN);
    }
}
