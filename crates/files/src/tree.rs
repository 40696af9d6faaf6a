//! Where the entries of a set are: a tree of folders with about the given number of entries each.

use rand_distr::{Distribution, Gamma};
use seatrial_load::rng::stream;

use crate::spec::SetSpec;

/// The folders of a set and the folder of each entry.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Paths below the set's own folder, parents first; the first is that folder, "".
    pub folders: Vec<String>,
    /// Number of the folder of each file, then of each empty leaf folder.
    pub parents: Vec<u32>,
}

impl Tree {
    /// Lays out a set: entries fill folders one after the other, and folders fill folders above
    /// them, each with a number of entries drawn about the mean width.
    pub fn of(spec: &SetSpec, seed: u64) -> Tree {
        let mut widths = FolderWidths::new(spec, seed);
        let groups = widths.groups(spec.entries + spec.leaf_folders);
        // The levels from the bottom up: how many folders each folder of the next level has.
        let mut levels = vec![groups];
        while let Some(lowest) = levels.last().filter(|groups| groups.len() > 1) {
            let above = widths.groups(lowest.len() as u64);
            let is_done = above.len() == 1;
            if is_done || above.len() >= lowest.len() {
                break;
            }
            levels.push(above);
        }
        let mut folders = vec![String::new()];
        let mut parents = vec![0u32; 1];
        if levels[0].len() > 1 {
            levels.reverse();
            // Of each level, the numbers of its folders, which are the parents of the next one.
            for depth in 0..levels.len() {
                let in_each = match depth {
                    0 => vec![levels[0].len() as u64],
                    _ => levels[depth - 1].clone(),
                };
                parents = below(&mut folders, &parents, &in_each);
            }
            levels.reverse();
        }
        let mut entry_parents = Vec::new();
        for (&parent, &count) in parents.iter().zip(&levels[0]) {
            entry_parents.resize(entry_parents.len() + count as usize, parent);
        }
        Tree { folders, parents: entry_parents }
    }
}

/// Adds folders below each parent: their numbers.
fn below(folders: &mut Vec<String>, parents: &[u32], in_each: &[u64]) -> Vec<u32> {
    let mut made = Vec::new();
    for (&parent, &count) in parents.iter().zip(in_each) {
        for number in 1..=count {
            let above = &folders[parent as usize];
            let path = if above.is_empty() {
                format!("{number:08}")
            } else {
                format!("{above}/{number:08}")
            };
            made.push(folders.len() as u32);
            folders.push(path);
        }
    }
    made
}

/// Draws how many entries a folder has.
struct FolderWidths {
    law: Option<Gamma<f64>>,
    mean: f64,
    rng: rand_xoshiro::Xoshiro256PlusPlus,
}

impl FolderWidths {
    fn new(spec: &SetSpec, seed: u64) -> FolderWidths {
        let mean = spec.width_mean.max(2.0);
        let is_even = spec.width_gamma <= 0.0 || spec.single;
        let law = Gamma::new(spec.width_gamma, mean / spec.width_gamma).ok();
        FolderWidths {
            law: law.filter(|_| !is_even),
            mean,
            rng: stream(seed, &format!("folders of {}", spec.name), 0),
        }
    }

    /// Divides entries over folders: at least one folder, which may be empty.
    fn groups(&mut self, entries: u64) -> Vec<u64> {
        let (mut left, mut groups) = (entries, Vec::new());
        while left > 0 || groups.is_empty() {
            let value = self.law.map_or(self.mean, |law| law.sample(&mut self.rng));
            let count = (value.round() as u64).max(1).min(left);
            groups.push(count);
            left -= count;
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::NumberSpec;

    fn spec(entries: u64, width_mean: f64, width_gamma: f64) -> SetSpec {
        SetSpec {
            name: "set".into(),
            single: false,
            entries,
            leaf_folders: 0,
            width_mean,
            width_gamma,
            size: NumberSpec::Fixed(0.0),
            made_share: 1.0,
            read_only: false,
            write_only: false,
            cold: false,
        }
    }

    #[test]
    fn a_wide_set_has_one_folder() {
        let tree = Tree::of(&spec(100, 1e6, 0.0), 1);
        assert_eq!((tree.folders.len(), tree.parents.len()), (1, 100));
    }

    #[test]
    fn an_even_tree_has_as_many_entries_in_each_folder() {
        let tree = Tree::of(&spec(1000, 10.0, 0.0), 1);
        // 100 folders of files, 10 above them; the set's own folder holds these.
        assert_eq!(tree.folders.len(), 1 + 10 + 100);
        for folder in 11..111 {
            assert_eq!(tree.parents.iter().filter(|&&index| index == folder).count(), 10);
        }
        let parents_first = tree.folders.iter().skip(1).all(|path| {
            path.rsplit_once('/').is_none_or(|(above, _)| tree.folders.contains(&above.to_owned()))
        });
        assert!(parents_first);
    }

    #[test]
    fn a_drawn_width_has_its_mean_and_a_seed_gives_the_same_tree() {
        let tree = Tree::of(&spec(20_000, 20.0, 1.5), 7);
        assert_eq!(tree, Tree::of(&spec(20_000, 20.0, 1.5), 7));
        let holding = tree.parents.iter().collect::<std::collections::HashSet<_>>().len();
        assert!((800..1200).contains(&holding), "{holding} folders for 20,000 files of 20 each");
        assert_eq!(tree.parents.len(), 20_000);
    }
}
