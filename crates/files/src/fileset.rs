//! A set of files: which exist, which are open, which one a thread takes next.
//!
//! As in Filebench, files are taken in turn: the next that exists and that nobody is opening or
//! deleting at this moment. Where none can be taken just now, the thread waits; where there is none
//! at all, it is out of files.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

use seatrial_gauge::lock;
use seatrial_load::rng::{below, stream};

use crate::spec::{SetSpec, SpecError};
use crate::tree::Tree;
use crate::waits::SampleEnd;

/// One set of files.
#[derive(Debug)]
pub struct FileSet {
    /// As declared.
    pub spec: SetSpec,
    /// Its folder; of a single file, the folder that it is in.
    pub root: PathBuf,
    /// Folders, and the folder of each entry.
    pub tree: Tree,
    sizes_bytes: Vec<u64>,
    lengths_bytes: Vec<AtomicU64>,
    grown_bytes: AtomicU64,
    files: Mutex<Pool>,
    leaves: Mutex<Pool>,
    changed: Condvar,
}

/// The state of an entry that a thread asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// It exists.
    Existing,
    /// It exists and nobody has it open.
    Unopened,
    /// It does not exist.
    Missing,
}

/// Why no entry was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEntry {
    /// There is none of this kind.
    Exhausted,
    /// The sample ended while it waited for one.
    Ended,
}

/// What a thread did with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryResult {
    /// It exists as before; the number of its open descriptors changed by this.
    Unchanged(i32),
    /// It was made, with this number of open descriptors.
    Made(u32),
    /// It was deleted.
    Deleted,
    /// It could not be made.
    NotMade,
}

/// Files, or leaf folders.
#[derive(Debug, Default)]
struct Pool {
    /// Entries that exist and that nobody has open, is opening or deleting.
    unopened: BTreeSet<u32>,
    /// Entries that are open.
    open: BTreeSet<u32>,
    /// Entries that do not exist and that nobody is making.
    missing: BTreeSet<u32>,
    /// Open descriptors of each entry.
    opens: Vec<u32>,
    /// Entries that exist, including those that somebody is opening or deleting.
    existing: usize,
    next_existing: u32,
    next_missing: u32,
}

impl FileSet {
    /// Lays out a set and draws the sizes of its files.
    ///
    /// # Errors
    ///
    /// [`SpecError`] when its name is not a plain name of a file.
    pub fn new(spec: SetSpec, folder: &Path, seed: u64) -> Result<FileSet, SpecError> {
        if spec.name.is_empty() || spec.name.starts_with('.') || spec.name.contains(['/', '\0']) {
            return Err(SpecError::Number(format!("{:?} is not a name for a set", spec.name)));
        }
        let tree = Tree::of(&spec, seed);
        let mut rng = stream(seed, &format!("sizes of {}", spec.name), 0);
        let sizes_bytes: Vec<u64> =
            (0..spec.entries).map(|_| spec.size.draw_whole(&mut rng)).collect();
        let files = Pool::filled(spec.entries, spec.made_share, seed, &spec.name);
        let leaves = Pool::filled(spec.leaf_folders, spec.made_share, seed, &spec.name);
        let length = |(entry, &size_bytes): (usize, &u64)| {
            AtomicU64::new(if files.unopened.contains(&(entry as u32)) { size_bytes } else { 0 })
        };
        let root = if spec.single { folder.to_owned() } else { folder.join(&spec.name) };
        Ok(FileSet {
            root,
            tree,
            lengths_bytes: sizes_bytes.iter().enumerate().map(length).collect(),
            sizes_bytes,
            grown_bytes: AtomicU64::new(0),
            files: Mutex::new(files),
            leaves: Mutex::new(leaves),
            changed: Condvar::new(),
            spec,
        })
    }

    /// The files that exist.
    pub fn existing_files(&self) -> Vec<u32> {
        let pool = lock(&self.files);
        pool.unopened.union(&pool.open).copied().collect()
    }

    /// The leaf folders that exist.
    pub fn existing_leaves(&self) -> Vec<u32> {
        lock(&self.leaves).unopened.iter().copied().collect()
    }

    /// Size of a file when it is made or written as a whole.
    pub fn size_bytes(&self, entry: u32) -> u64 {
        self.sizes_bytes[entry as usize]
    }

    /// Length of a file now.
    pub fn length_bytes(&self, entry: u32) -> u64 {
        self.lengths_bytes[entry as usize].load(Ordering::Relaxed)
    }

    /// A file's path.
    pub fn file_path(&self, entry: u32) -> PathBuf {
        if self.spec.single {
            return self.root.join(&self.spec.name);
        }
        self.folder_of(entry as usize).join(format!("f{entry:08}"))
    }

    /// A leaf folder's path.
    pub fn leaf_path(&self, leaf: u32) -> PathBuf {
        self.folder_of(self.sizes_bytes.len() + leaf as usize).join(format!("d{leaf:08}"))
    }

    fn folder_of(&self, index: usize) -> PathBuf {
        self.root.join(&self.tree.folders[self.tree.parents[index] as usize])
    }

    /// Takes a file: nobody else gets it until it is given back.
    ///
    /// # Errors
    ///
    /// [`NoEntry`] where there is none, or the sample ended while it waited.
    pub fn take_file(
        &self,
        state: EntryState,
        index: Option<u64>,
        sample_end: &SampleEnd,
    ) -> Result<u32, NoEntry> {
        self.take(&self.files, state, index, sample_end)
    }

    /// Takes a leaf folder, as [`FileSet::take_file`].
    ///
    /// # Errors
    ///
    /// [`NoEntry`], likewise.
    pub fn take_leaf(
        &self,
        state: EntryState,
        index: Option<u64>,
        sample_end: &SampleEnd,
    ) -> Result<u32, NoEntry> {
        self.take(&self.leaves, state, index, sample_end)
    }

    fn take(
        &self,
        pool: &Mutex<Pool>,
        state: EntryState,
        index: Option<u64>,
        sample_end: &SampleEnd,
    ) -> Result<u32, NoEntry> {
        let mut pool = lock(pool);
        loop {
            if let Some(entry) = pool.take(state, index) {
                return Ok(entry);
            }
            if pool.is_exhausted(state) {
                return Err(NoEntry::Exhausted);
            }
            if sample_end.is_over() {
                return Err(NoEntry::Ended);
            }
            pool = sample_end.wait(&self.changed, pool);
        }
    }

    /// Takes a particular file that exists, to delete or close it; false where the sample ended or
    /// it is gone.
    pub fn take_this(&self, entry: u32, sample_end: &SampleEnd) -> bool {
        let mut pool = lock(&self.files);
        loop {
            if pool.unopened.remove(&entry) || pool.open.remove(&entry) {
                return true;
            }
            if pool.missing.contains(&entry) || sample_end.is_over() {
                return false;
            }
            pool = sample_end.wait(&self.changed, pool);
        }
    }

    /// Gives a file back that was taken.
    pub fn give_back_file(&self, entry: u32, result: EntryResult) {
        if result == EntryResult::Deleted {
            let length_bytes = self.lengths_bytes[entry as usize].swap(0, Ordering::Relaxed);
            self.shrink(length_bytes.saturating_sub(self.size_bytes(entry)));
        }
        lock(&self.files).give_back(entry, result);
        self.changed.notify_all();
    }

    /// Gives a leaf folder back that was taken.
    pub fn give_back_leaf(&self, leaf: u32, result: EntryResult) {
        lock(&self.leaves).give_back(leaf, result);
        self.changed.notify_all();
    }

    /// Reserves room at the end of a file: the offset. `None` where the set has grown by its limit:
    /// then the file has to be cut to its first size.
    pub fn grow(&self, entry: u32, bytes: u64, growth_bytes: u64) -> Option<u64> {
        let length = &self.lengths_bytes[entry as usize];
        let beyond = |length_bytes: u64| length_bytes.saturating_sub(self.size_bytes(entry));
        let at = length.load(Ordering::Relaxed);
        let more_bytes = beyond(at + bytes) - beyond(at);
        if self.grown_bytes.load(Ordering::Relaxed) + more_bytes > growth_bytes {
            return None;
        }
        let at = length.fetch_add(bytes, Ordering::Relaxed);
        self.grown_bytes.fetch_add(beyond(at + bytes) - beyond(at), Ordering::Relaxed);
        Some(at)
    }

    /// A file was written up to an offset, which may be its new end.
    pub fn reached(&self, entry: u32, end_bytes: u64) {
        let size_bytes = self.size_bytes(entry);
        let at = self.lengths_bytes[entry as usize].fetch_max(end_bytes, Ordering::Relaxed);
        let beyond = |length_bytes: u64| length_bytes.saturating_sub(size_bytes);
        if end_bytes > at {
            self.grown_bytes.fetch_add(beyond(end_bytes) - beyond(at), Ordering::Relaxed);
        }
    }

    /// A file was cut to its first size.
    pub fn cut(&self, entry: u32) {
        let size_bytes = self.size_bytes(entry);
        let at = self.lengths_bytes[entry as usize].swap(size_bytes, Ordering::Relaxed);
        self.shrink(at.saturating_sub(size_bytes));
    }

    fn shrink(&self, bytes: u64) {
        let less = |grown: u64| Some(grown.saturating_sub(bytes));
        // The function never gives None.
        let _ = self.grown_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

impl Pool {
    /// So many entries, of which a share exists: exactly that share, chosen by the seed.
    fn filled(entries: u64, made_share: f64, seed: u64, name: &str) -> Pool {
        let made = ((entries as f64 * made_share).round() as u64).min(entries);
        let mut rng = stream(seed, &format!("made of {name}"), 0);
        let mut pool =
            Pool { opens: vec![0; entries as usize], existing: made as usize, ..Pool::default() };
        let mut left = made;
        for entry in 0..entries {
            // Selection sampling: Knuth, The Art of Computer Programming, vol. 2, 3.4.2, S.
            if below(&mut rng, entries - entry) < left {
                pool.unopened.insert(entry as u32);
                left -= 1;
            } else {
                pool.missing.insert(entry as u32);
            }
        }
        pool
    }

    fn is_exhausted(&self, state: EntryState) -> bool {
        match state {
            EntryState::Missing => self.existing == self.opens.len(),
            _ => self.existing == 0,
        }
    }

    fn take(&mut self, state: EntryState, index: Option<u64>) -> Option<u32> {
        let count = self.opens.len() as u64;
        let cursor = match state {
            EntryState::Missing => self.next_missing,
            _ => self.next_existing,
        };
        let from = index.map_or(cursor, |index| (index % count.max(1)) as u32);
        let found = match state {
            EntryState::Missing => next(&self.missing, from),
            EntryState::Unopened => next(&self.unopened, from),
            EntryState::Existing => {
                let (one, other) = (next(&self.unopened, from), next(&self.open, from));
                // The next one after the cursor, around the end.
                let distance = |entry: &u32| entry.wrapping_sub(from);
                one.into_iter().chain(other).min_by_key(distance)
            }
        }?;
        let _ = self.unopened.remove(&found) || self.open.remove(&found);
        self.missing.remove(&found);
        if index.is_none() {
            let next_place = found.wrapping_add(1);
            match state {
                EntryState::Missing => self.next_missing = next_place,
                _ => self.next_existing = next_place,
            }
        }
        Some(found)
    }

    fn give_back(&mut self, entry: u32, result: EntryResult) {
        let opens = &mut self.opens[entry as usize];
        match result {
            EntryResult::Unchanged(change) => *opens = opens.saturating_add_signed(change),
            EntryResult::Made(count) => {
                *opens = count;
                self.existing += 1;
            }
            EntryResult::Deleted => {
                *opens = 0;
                self.existing = self.existing.saturating_sub(1);
            }
            EntryResult::NotMade => {}
        }
        let entries = match result {
            EntryResult::Deleted | EntryResult::NotMade => &mut self.missing,
            _ if *opens > 0 => &mut self.open,
            _ => &mut self.unopened,
        };
        entries.insert(entry);
    }
}

/// The first from a number on, around the end.
fn next(set: &BTreeSet<u32>, from: u32) -> Option<u32> {
    let result = set.range((Bound::Included(from), Bound::Unbounded)).next();
    result.or_else(|| set.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::NumberSpec;
    use std::sync::Arc;

    /// A sample that is over, so that nothing waits.
    fn over() -> SampleEnd {
        let clock = seatrial_gauge::Clock::new(false);
        SampleEnd { clock, start_ns: 0, end_ns: 0, over: true.into(), stop: Arc::default() }
    }

    fn set(entries: u64, made_share: f64) -> FileSet {
        let spec = SetSpec {
            name: "set".into(),
            single: false,
            entries,
            leaf_folders: 2,
            width_mean: 100.0,
            width_gamma: 0.0,
            size: NumberSpec::Fixed(100.0),
            made_share,
            read_only: false,
            write_only: false,
            cold: false,
        };
        FileSet::new(spec, Path::new("/nowhere"), 3).unwrap()
    }

    #[test]
    fn exactly_the_share_exists() {
        assert_eq!(set(1000, 0.8).existing_files().len(), 800);
        assert_eq!(set(10, 0.0).existing_files().len(), 0);
        assert_eq!(set(10, 1.0).existing_files().len(), 10);
    }

    #[test]
    fn files_are_taken_in_turn_and_one_that_is_open_is_not_deleted() {
        let set = set(3, 1.0);
        let over = over();
        let take = |state| set.take_file(state, None, &over);
        assert_eq!(take(EntryState::Existing), Ok(0));
        assert_eq!(take(EntryState::Existing), Ok(1));
        assert_eq!(take(EntryState::Existing), Ok(2));
        assert_eq!(take(EntryState::Existing), Err(NoEntry::Ended));
        set.give_back_file(0, EntryResult::Unchanged(1));
        set.give_back_file(2, EntryResult::Unchanged(0));
        assert_eq!(take(EntryState::Unopened), Ok(2));
        set.give_back_file(2, EntryResult::Deleted);
        assert_eq!(take(EntryState::Unopened), Err(NoEntry::Ended));
        set.give_back_file(1, EntryResult::Deleted);
        assert!(set.take_this(0, &over));
        set.give_back_file(0, EntryResult::Unchanged(-1));
        assert_eq!(take(EntryState::Unopened), Ok(0));
        set.give_back_file(0, EntryResult::Deleted);
        assert_eq!(take(EntryState::Existing), Err(NoEntry::Exhausted));
    }

    #[test]
    fn a_full_set_has_no_file_to_create_and_a_made_one_exists() {
        let set = set(2, 0.5);
        let made = set.take_file(EntryState::Missing, None, &over()).unwrap();
        set.give_back_file(made, EntryResult::Made(1));
        assert_eq!(set.take_file(EntryState::Missing, None, &over()), Err(NoEntry::Exhausted));
        assert_eq!(set.existing_files().len(), 2);
    }

    #[test]
    fn a_set_grows_by_its_limit_at_most() {
        let set = set(2, 1.0);
        assert_eq!(set.grow(0, 300, 1000), Some(100));
        assert_eq!(set.grow(1, 700, 1000), Some(100));
        assert_eq!(set.grow(1, 1, 1000), None);
        set.cut(1);
        assert_eq!(set.length_bytes(1), 100);
        assert_eq!(set.grow(1, 700, 1000), Some(100));
        set.give_back_file(0, EntryResult::Deleted);
        assert_eq!(set.grow(1, 300, 1000), Some(800));
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["", "..", "a/b", ".x"] {
            let spec = SetSpec { name: name.into(), ..set(1, 1.0).spec };
            assert!(FileSet::new(spec, Path::new("/nowhere"), 3).is_err());
        }
    }
}
