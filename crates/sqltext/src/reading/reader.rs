//! From a text to its reading, once for all texts of a form.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::consequence::Bodies;
use super::known::Known;
use super::scope::Scope;
use super::session::{NamesChange, Path, SessionNames};
use super::text::{Literals, Sort, statements};
use super::walk::Walk;
use super::{Reading, ValuePosition};
use crate::catalog::Catalog;
use crate::lexer::form::Parts;
use crate::lexer::token::{Kind, Tokens};

/// Limit for the bytes of forms. Beyond it all readings are forgotten, and made again on demand.
const BYTES_MAX: usize = 32 << 20;

/// Readings of one form that are kept, where they differ by what its literals name.
const VARIANTS_MAX: usize = 64;

/// Reads statements with the help of a catalogue, and keeps what it read.
#[derive(Debug)]
pub struct Reader {
    known: Known,
    bodies: Bodies,
    forms: HashMap<Box<[u8]>, Form>,
    bytes: usize,
    key: Vec<u8>,
}

/// The readings of a form.
#[derive(Debug, Default)]
struct Form {
    /// The literals that matter: names of sequences, bodies of DO.
    looked: Vec<u32>,
    variants: Vec<Variant>,
}

/// What was read of texts in which these literals matter, and are these.
#[derive(Debug)]
struct Variant {
    texts: Vec<Box<[u8]>>,
    kept: Arc<Kept>,
}

/// What was read of a text, and what it depends on.
#[derive(Debug)]
struct Kept {
    /// What it does in a session without temporary tables, prepared statements or settings.
    reading: Arc<Reading>,
    /// Tables that the catalogue does not have.
    unknown: BTreeSet<String>,
    /// What it does where these are temporary.
    of_temporary: Arc<Reading>,
    /// What it does to what the session has.
    effects: Vec<NamesChange>,
}

impl Reader {
    /// A reader of statements to a database with this catalogue.
    pub fn new(catalog: &Catalog) -> Reader {
        let known = Known::new(catalog.clone());
        let bodies = Bodies::new(&known);
        Reader { known, bodies, forms: HashMap::new(), bytes: 0, key: Vec::new() }
    }

    /// What a text does that was taken apart into these parts, whatever its session has.
    pub fn read(&mut self, sql: &[u8], parts: &Parts) -> Arc<Reading> {
        Arc::clone(&self.kept(sql, parts, &Path::Default).reading)
    }

    /// What a text does in a session, which takes in what becomes of what it has.
    pub fn read_in(
        &mut self,
        session: &mut SessionNames,
        sql: &[u8],
        parts: &Parts,
    ) -> Arc<Reading> {
        let kept = self.kept(sql, parts, session.path());
        let is_temporary = session.are_temporary(kept.unknown.iter());
        let mut reading = Arc::clone(if is_temporary { &kept.of_temporary } else { &kept.reading });
        for effect in &kept.effects {
            if let Some(executed) = session.apply(effect) {
                reading = Arc::new(executed);
            }
        }
        if session.hides() && !reading.touches_anything {
            // A name that is known may be the temporary table's, and a place the other's.
            let (touches_anything, has_unknown_table) = (true, true);
            let hidden = Reading { touches_anything, has_unknown_table, ..Reading::default() };
            return Arc::new(hidden);
        }
        reading
    }

    fn kept(&mut self, sql: &[u8], parts: &Parts, path: &Path) -> Arc<Kept> {
        self.set_key(sql, parts, path);
        if let Some(kept) = self.forms.get(self.key.as_slice()) {
            if let Some(kept) = kept.variant(sql, parts) {
                return kept;
            }
        }
        let (kept, looked) = self.read_anew(sql, parts, path);
        let kept = Arc::new(kept);
        self.keep(sql, parts, looked, &kept);
        kept
    }

    /// The form, the sorts of its literals, and where its names are looked for.
    fn set_key(&mut self, sql: &[u8], parts: &Parts, path: &Path) {
        self.key.clear();
        self.key.extend_from_slice(parts.form());
        let literal = |range: std::ops::Range<usize>| sql.get(range).unwrap_or_default();
        self.key.extend(parts.literals().map(|range| Sort::of(literal(range)) as u8));
        match path {
            Path::Default => {}
            Path::Unknown => self.key.push(b'?'),
            Path::Set(schemas) => {
                for schema in schemas.iter() {
                    self.key.push(b'.');
                    self.key.extend_from_slice(schema.as_bytes());
                }
            }
        }
    }

    fn read_anew(&mut self, sql: &[u8], parts: &Parts, path: &Path) -> (Kept, Vec<u32>) {
        let mut literals = Literals::of(sql, parts);
        let mut walk = Walk::new(&self.known, &mut self.bodies, &mut literals, path);
        let statements = statements(parts.form());
        for pieces in &statements {
            let columns = walk.statement(pieces, &Scope::default());
            walk.finish(&columns);
        }
        let Walk { mut reading, unknown, mut effects, .. } = walk;
        if statements.len() != 1 {
            // It is unknown which result belongs to which statement, and what one of them runs.
            reading.takes_returning = false;
            reading.draws.iter_mut().for_each(|draw| draw.returned = None);
            reading.last_values.clear();
            reading.shows.clear();
            reading.parents.clear();
            effects.retain(|effect| !matches!(effect, NamesChange::Executes(..)));
        }
        let of_temporary = Arc::new(reading);
        let reading = match unknown.is_empty() {
            true => Arc::clone(&of_temporary),
            false => Arc::new(Reading { touches_anything: true, ..(*of_temporary).clone() }),
        };
        let kept = Kept { reading, unknown, of_temporary, effects };
        (kept, literals.seen().collect())
    }

    fn keep(&mut self, sql: &[u8], parts: &Parts, looked: Vec<u32>, kept: &Arc<Kept>) {
        if self.bytes > BYTES_MAX {
            self.forms.clear();
            self.bytes = 0;
        }
        self.bytes += self.key.len() + kept.held_bytes();
        let form = self.forms.entry(self.key.as_slice().into()).or_default();
        if form.looked != looked || form.variants.len() >= VARIANTS_MAX {
            form.variants.clear();
        }
        form.looked = looked;
        let texts = form.texts(sql, parts).map(Into::into).collect();
        form.variants.push(Variant { texts, kept: Arc::clone(kept) });
    }
}

impl Kept {
    /// Memory that it takes; what is prepared is kept by sessions as well.
    fn held_bytes(&self) -> usize {
        let is_shared = Arc::ptr_eq(&self.reading, &self.of_temporary);
        let other = if is_shared { 0 } else { self.of_temporary.held_bytes() };
        let of_effect = |effect: &NamesChange| match effect {
            NamesChange::Prepares(name, reading) => name.len() + reading.held_bytes(),
            NamesChange::Executes(name, places, others) => {
                name.len()
                    + places.len() * size_of::<Option<ValuePosition>>()
                    + size_of_val(&**others)
            }
            _ => 0,
        };
        size_of::<Kept>()
            + self.reading.held_bytes()
            + other
            + self.unknown.iter().map(|name| name.len() + size_of::<String>()).sum::<usize>()
            + self.effects.capacity() * size_of::<NamesChange>()
            + self.effects.iter().map(of_effect).sum::<usize>()
    }
}

impl Form {
    /// The literals that matter, as they are in a text.
    fn texts<'t>(&'t self, sql: &'t [u8], parts: &'t Parts) -> impl Iterator<Item = &'t [u8]> {
        self.looked.iter().map(move |&literal| {
            let range = parts.literals().nth(literal as usize);
            range.and_then(|range| sql.get(range)).unwrap_or_default()
        })
    }

    fn variant(&self, sql: &[u8], parts: &Parts) -> Option<Arc<Kept>> {
        let is_of = |variant: &&Variant| {
            self.texts(sql, parts).eq(variant.texts.iter().map(|text| &**text))
        };
        self.variants.iter().find(is_of).map(|variant| Arc::clone(&variant.kept))
    }
}

/// Where ` RETURNING ...` can be put into an INSERT that has none: behind its last token that is
/// neither a semicolon nor a comment.
pub fn returning_at(sql: &[u8]) -> usize {
    let (mut tokens, mut end) = (Tokens::of(sql), 0);
    while let Some(token) = tokens.next() {
        let is_end = matches!(token.kind, Kind::Space | Kind::Comment | Kind::Hint);
        if !is_end && !token.is_sign(";") {
            end = tokens.position();
        }
    }
    end
}
