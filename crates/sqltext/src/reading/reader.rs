//! Reads a text, once for all texts of a form.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::analyzer::StatementAnalyzer;
use super::consequence::BodyCache;
use super::lookup::CatalogLookup;
use super::scope::Scope;
use super::session::{NamesChange, Path, SessionNames};
use super::text::{LiteralKind, Literals, statements};
use super::{StatementEffects, ValuePosition};
use crate::catalog::Catalog;
use crate::lexer::form::Parts;
use crate::lexer::token::{Kind, Tokens};

/// Limit for the bytes of forms. Beyond it all readings are dropped, and made again on demand.
const BYTES_MAX: usize = 32 << 20;

/// Limit of cached readings of one form, which differ by the names in its literals.
const VARIANTS_MAX: usize = 64;

/// Reads statements with the help of a catalogue, and caches the results.
#[derive(Debug)]
pub struct Reader {
    lookup: CatalogLookup,
    body_cache: BodyCache,
    forms: HashMap<Box<[u8]>, FormEntry>,
    bytes: usize,
    key: Vec<u8>,
}

/// The readings of a form.
#[derive(Debug, Default)]
struct FormEntry {
    /// The literals that matter: names of sequences, bodies of DO.
    examined_literals: Vec<u32>,
    variants: Vec<LiteralVariant>,
}

/// The reading of texts with these literals.
#[derive(Debug)]
struct LiteralVariant {
    texts: Vec<Box<[u8]>>,
    cached: Arc<CachedReading>,
}

/// The reading of a text, and what it depends on.
#[derive(Debug)]
struct CachedReading {
    /// Its effects in a session without temporary tables, prepared statements or settings.
    reading: Arc<StatementEffects>,
    /// Tables that the catalogue does not have.
    unknown: BTreeSet<String>,
    /// Its effects if these are temporary.
    if_temporary: Arc<StatementEffects>,
    /// Its changes of the session's names.
    effects: Vec<NamesChange>,
}

impl Reader {
    /// A reader of statements to a database with this catalogue.
    pub fn new(catalog: &Catalog) -> Reader {
        let lookup = CatalogLookup::new(catalog.clone());
        let body_cache = BodyCache::new(&lookup);
        Reader { lookup, body_cache, forms: HashMap::new(), bytes: 0, key: Vec::new() }
    }

    /// The effects of a text in any session; `parts` are those of the text.
    pub fn read(&mut self, sql: &[u8], parts: &Parts) -> Arc<StatementEffects> {
        Arc::clone(&self.cached(sql, parts, &Path::Default).reading)
    }

    /// The effects of a text in a session, whose names it changes.
    pub fn read_in(
        &mut self,
        session: &mut SessionNames,
        sql: &[u8],
        parts: &Parts,
    ) -> Arc<StatementEffects> {
        let cached = self.cached(sql, parts, session.path());
        let is_temporary = session.are_temporary(cached.unknown.iter());
        let mut reading =
            Arc::clone(if is_temporary { &cached.if_temporary } else { &cached.reading });
        for effect in &cached.effects {
            if let Some(executed) = session.apply(effect) {
                reading = Arc::new(executed);
            }
        }
        if session.hides() && !reading.accesses_anything {
            // A name that is known may be the temporary table's, and a place the other's.
            let (accesses_anything, has_unknown_table) = (true, true);
            let hidden = StatementEffects {
                accesses_anything,
                has_unknown_table,
                ..StatementEffects::default()
            };
            return Arc::new(hidden);
        }
        reading
    }

    fn cached(&mut self, sql: &[u8], parts: &Parts, path: &Path) -> Arc<CachedReading> {
        self.set_key(sql, parts, path);
        if let Some(cached) = self.forms.get(self.key.as_slice()) {
            if let Some(cached) = cached.variant(sql, parts) {
                return cached;
            }
        }
        let (cached, examined_literals) = self.analyze(sql, parts, path);
        let cached = Arc::new(cached);
        self.keep(sql, parts, examined_literals, &cached);
        cached
    }

    /// The cache key: the form, the kinds of its literals, and the search path.
    fn set_key(&mut self, sql: &[u8], parts: &Parts, path: &Path) {
        self.key.clear();
        self.key.extend_from_slice(parts.form());
        let literal = |range: std::ops::Range<usize>| sql.get(range).unwrap_or_default();
        self.key.extend(parts.literals().map(|range| LiteralKind::of(literal(range)) as u8));
        match path {
            Path::Default => {}
            Path::Unknown => self.key.push(b'?'),
            Path::Schemas(schemas) => {
                for schema in schemas.iter() {
                    self.key.push(b'.');
                    self.key.extend_from_slice(schema.as_bytes());
                }
            }
        }
    }

    fn analyze(&mut self, sql: &[u8], parts: &Parts, path: &Path) -> (CachedReading, Vec<u32>) {
        let mut literals = Literals::of(sql, parts);
        let mut analyzer =
            StatementAnalyzer::new(&self.lookup, &mut self.body_cache, &mut literals, path);
        let statements = statements(parts.form());
        for tokens in &statements {
            let columns = analyzer.statement(tokens, &Scope::default());
            analyzer.finish(&columns);
        }
        let StatementAnalyzer { mut reading, unknown, mut effects, .. } = analyzer;
        if statements.len() != 1 {
            // It is unknown which result belongs to which statement, and what one of them runs.
            reading.takes_returning = false;
            reading.draws_before_checks = false;
            reading.draws.iter_mut().for_each(|draw| draw.returned = None);
            reading.last_values.clear();
            reading.shows.clear();
            reading.parents.clear();
            effects.retain(|effect| !matches!(effect, NamesChange::Executes(..)));
        }
        let if_temporary = Arc::new(reading);
        let reading = match unknown.is_empty() {
            true => Arc::clone(&if_temporary),
            false => {
                Arc::new(StatementEffects { accesses_anything: true, ..(*if_temporary).clone() })
            }
        };
        let cached = CachedReading { reading, unknown, if_temporary, effects };
        (cached, literals.seen().collect())
    }

    fn keep(
        &mut self,
        sql: &[u8],
        parts: &Parts,
        examined_literals: Vec<u32>,
        cached: &Arc<CachedReading>,
    ) {
        if self.bytes > BYTES_MAX {
            self.forms.clear();
            self.bytes = 0;
        }
        self.bytes += self.key.len() + cached.held_bytes();
        let form = self.forms.entry(self.key.as_slice().into()).or_default();
        if form.examined_literals != examined_literals || form.variants.len() >= VARIANTS_MAX {
            form.variants.clear();
        }
        form.examined_literals = examined_literals;
        let texts = form.texts(sql, parts).map(Into::into).collect();
        form.variants.push(LiteralVariant { texts, cached: Arc::clone(cached) });
    }
}

impl CachedReading {
    /// Memory used; prepared readings are shared with sessions.
    fn held_bytes(&self) -> usize {
        let is_shared = Arc::ptr_eq(&self.reading, &self.if_temporary);
        let other = if is_shared { 0 } else { self.if_temporary.held_bytes() };
        let of_effect = |effect: &NamesChange| match effect {
            NamesChange::Prepares(name, reading) => name.len() + reading.held_bytes(),
            NamesChange::Executes(name, positions, others) => {
                name.len()
                    + positions.len() * size_of::<Option<ValuePosition>>()
                    + size_of_val(&**others)
            }
            _ => 0,
        };
        size_of::<CachedReading>()
            + self.reading.held_bytes()
            + other
            + self.unknown.iter().map(|name| name.len() + size_of::<String>()).sum::<usize>()
            + self.effects.capacity() * size_of::<NamesChange>()
            + self.effects.iter().map(of_effect).sum::<usize>()
    }
}

impl FormEntry {
    /// The literals that matter, as they are in a text.
    fn texts<'t>(&'t self, sql: &'t [u8], parts: &'t Parts) -> impl Iterator<Item = &'t [u8]> {
        self.examined_literals.iter().map(move |&literal| {
            let range = parts.literals().nth(literal as usize);
            range.and_then(|range| sql.get(range)).unwrap_or_default()
        })
    }

    fn variant(&self, sql: &[u8], parts: &Parts) -> Option<Arc<CachedReading>> {
        let is_of = |variant: &&LiteralVariant| {
            self.texts(sql, parts).eq(variant.texts.iter().map(|text| &**text))
        };
        self.variants.iter().find(is_of).map(|variant| Arc::clone(&variant.cached))
    }
}

/// The offset at which ` RETURNING ...` can be added to an INSERT: behind its last token that is
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
