//! What a session has that its statements' meaning depends on: temporary tables, prepared
//! statements, and the schemas in which it looks for names.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Access, Draw, Key, Only, Operand, Place, Reading, Use};

/// Names of each sort that are remembered; statements with further ones may touch anything.
const NAMES_MAX: usize = 1024;

/// Where names without a schema are looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Path {
    /// Where the catalogue says.
    #[default]
    Default,
    /// In these schemas.
    Set(Arc<[String]>),
    /// Nobody knows.
    Unknown,
}

/// What a statement does to what its session has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamesChange {
    /// Makes a temporary table; true where the catalogue has one of that name as well.
    Makes(String, bool),
    /// Drops something.
    Drops(String),
    /// PREPARE, of a statement that does this.
    Prepares(String, Arc<Reading>),
    /// EXECUTE, with values that stand in these places; None for any other, which are made of those
    /// that follow.
    Executes(String, Vec<Option<Place>>, Vec<Place>),
    /// DEALLOCATE; None for all.
    Deallocates(Option<String>),
    /// DISCARD ALL.
    Forgets,
    /// SET `search_path`; true for SET LOCAL.
    SetsPath(Path, bool),
    /// BEGIN.
    Begins,
    /// COMMIT.
    Commits,
    /// ROLLBACK.
    RollsBack,
}

/// What a session has, as far as its statements were read.
#[derive(Clone, Debug, Default)]
pub struct SessionNames {
    path: Path,
    /// The path after the transaction: if it is committed, and if it is not.
    path_after: Option<(Path, Path)>,
    temporary: HashSet<String>,
    /// Temporary tables that hide others.
    hiding: HashSet<String>,
    prepared: HashMap<String, Arc<Reading>>,
}

impl SessionNames {
    /// Where names without a schema are looked for.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether all of these are names of temporary tables.
    pub fn are_temporary<'n>(&self, mut names: impl Iterator<Item = &'n String>) -> bool {
        names.all(|name| self.temporary.contains(name))
    }

    /// Whether a temporary table hides another one.
    pub fn hides(&self) -> bool {
        !self.hiding.is_empty()
    }

    /// Takes in what a statement does, and returns what it comes to where it runs another one.
    pub fn apply(&mut self, effect: &NamesChange) -> Option<Reading> {
        match effect {
            NamesChange::Makes(name, hides) => {
                if *hides {
                    self.hiding.insert(name.clone());
                } else if self.temporary.len() < NAMES_MAX {
                    self.temporary.insert(name.clone());
                }
            }
            NamesChange::Drops(name) => {
                self.temporary.remove(name);
                self.hiding.remove(name);
            }
            NamesChange::Prepares(name, reading) => {
                if self.prepared.len() < NAMES_MAX {
                    self.prepared.insert(name.clone(), Arc::clone(reading));
                }
            }
            NamesChange::Executes(name, places, others) => {
                let mut found = executed(self.prepared.get(name)?, places);
                found.handed.extend(others);
                return Some(found);
            }
            NamesChange::Deallocates(Some(name)) => {
                self.prepared.remove(name);
            }
            NamesChange::Deallocates(None) => self.prepared.clear(),
            NamesChange::Forgets => *self = SessionNames::default(),
            NamesChange::SetsPath(path, is_local) => self.set_path(path.clone(), *is_local),
            NamesChange::Begins => self.path_after = Some((self.path.clone(), self.path.clone())),
            NamesChange::Commits => self.end(true),
            NamesChange::RollsBack => self.end(false),
        }
        None
    }

    fn set_path(&mut self, path: Path, is_local: bool) {
        match &mut self.path_after {
            Some((committed, _)) if !is_local => *committed = path.clone(),
            None if is_local => return,
            _ => {}
        }
        self.path = path;
    }

    fn end(&mut self, is_committed: bool) {
        if let Some((committed, undone)) = self.path_after.take() {
            self.path = if is_committed { committed } else { undone };
        }
    }
}

/// What a prepared statement does when it is executed with values that stand in these places.
fn executed(prepared: &Reading, places: &[Option<Place>]) -> Reading {
    let moved = |place: &Place| match place {
        Place::Parameter(at) => places.get(*at as usize).copied().flatten(),
        // It stands in the text that was prepared.
        Place::Literal(_) => None,
    };
    let operand = |one: &Operand| moved(&one.place()).map(|place| one.at(place));
    let row = |row: &Vec<Operand>| row.iter().map(operand).collect::<Option<Vec<Operand>>>();
    let keys: Vec<Option<Key>> = prepared
        .keys
        .iter()
        .map(|key| {
            let rows = key.rows.iter().map(row).collect::<Option<Vec<_>>>()?;
            Some(Key { columns: key.columns.clone(), rows })
        })
        .collect();
    let mut reading = Reading::default();
    for access in &prepared.accesses {
        let known = access.key.and_then(|key| keys.get(usize::from(key))?.clone());
        let key = known.and_then(|key| {
            reading.keys.push(key);
            u16::try_from(reading.keys.len() - 1).ok()
        });
        let is_lost = access.key.is_some() && key.is_none() && access.only == Only::New;
        let only = if is_lost { Only::All } else { access.only };
        reading.accesses.push(Access { key, only, ..*access });
    }
    let moved_use = |one: &Use| Some(Use { place: moved(&one.place)?, ..*one });
    reading.uses = prepared.uses.iter().filter_map(moved_use).collect();
    reading.texts = prepared.texts.iter().filter_map(moved_use).collect();
    let parents = prepared.parents.iter();
    reading.parents = parents.filter_map(|&(of, at)| Some((of, moved(&at)?))).collect();
    let draws = prepared.draws.iter().cloned();
    reading.draws =
        draws.map(|draw| Draw { each_of: draw.each_of.as_ref().and_then(moved), ..draw }).collect();
    reading.asks.clone_from(&prepared.asks);
    reading.handed = prepared.handed.iter().filter_map(moved).collect();
    reading.volatile.clone_from(&prepared.volatile);
    reading.touches_anything = prepared.touches_anything;
    reading.is_by_names = prepared.is_by_names;
    reading.has_unknown_table = prepared.has_unknown_table;
    reading.sets.clone_from(&prepared.sets);
    reading
}
