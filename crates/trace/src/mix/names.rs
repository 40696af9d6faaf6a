//! By database, user and application.

use std::collections::HashMap;

use serde::Serialize;

/// Names of one kind that are counted separately.
pub const NAMES_MAX: usize = 1_000;

/// What the names beyond are called.
const BEYOND: &[u8] = b"(others)";

/// What belongs to a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct NameMix {
    /// The name; empty if not in the log.
    pub name: String,
    pub sessions: u64,
    pub statements: u64,
    pub total_us: u64,
}

/// What belongs to each name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct NamesMix {
    /// By database.
    pub databases: Vec<NameMix>,
    /// By user.
    pub users: Vec<NameMix>,
    /// By application.
    pub applications: Vec<NameMix>,
}

/// The names of a kind, each with its number.
#[derive(Debug, Default)]
pub struct NameNumbering {
    numbers: HashMap<Vec<u8>, u32>,
}

impl NameNumbering {
    fn number(&mut self, name: &[u8]) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.numbers.len() as u32;
        if self.numbers.len() >= NAMES_MAX {
            return *self.numbers.entry(BEYOND.to_vec()).or_insert(number);
        }
        self.numbers.insert(name.to_vec(), number);
        number
    }

    /// Adds up what belongs to each, given the number and the sums of each session.
    fn mix(self, sessions: impl Iterator<Item = (u32, u64, u64)>) -> Vec<NameMix> {
        let mut mixes = vec![NameMix::default(); self.numbers.len()];
        for (name, number) in self.numbers {
            mixes[number as usize].name = String::from_utf8_lossy(&name).into_owned();
        }
        for (number, statements, total_us) in sessions {
            let mix = &mut mixes[number as usize];
            mix.sessions += 1;
            mix.statements += statements;
            mix.total_us = mix.total_us.saturating_add(total_us);
        }
        mixes.retain(|mix| mix.sessions > 0);
        let weight = |mix: &NameMix| std::cmp::Reverse((mix.statements, mix.sessions));
        mixes.sort_by(|one, other| weight(one).cmp(&weight(other)).then(one.name.cmp(&other.name)));
        mixes
    }
}

/// All names while a trace is read.
#[derive(Debug, Default)]
pub struct Names {
    databases: NameNumbering,
    users: NameNumbering,
    applications: NameNumbering,
}

/// Numbers of a session's database, user and application.
pub type NameNumbers = [u32; 3];

impl Names {
    /// The numbers of a session's names.
    pub fn numbers(&mut self, database: &[u8], user: &[u8], application: &[u8]) -> NameNumbers {
        [
            self.databases.number(database),
            self.users.number(user),
            self.applications.number(application),
        ]
    }

    /// What belongs to each name, given the names, statements and time of each session.
    pub fn mix(self, sessions: impl Iterator<Item = (NameNumbers, u64, u64)> + Clone) -> NamesMix {
        let of = |kind: usize| {
            sessions
                .clone()
                .map(move |(names, statements, total_us)| (names[kind], statements, total_us))
        };
        NamesMix {
            databases: self.databases.mix(of(0)),
            users: self.users.mix(of(1)),
            applications: self.applications.mix(of(2)),
        }
    }
}
