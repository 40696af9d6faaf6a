//! The effects of a command.

use seatrial_sqltext::lexer::class::{Class, classify};
use seatrial_sqltext::lexer::commands;
use seatrial_sqltext::lexer::name::{name, unquoted};
use seatrial_sqltext::lexer::phrase::closing;
use seatrial_sqltext::lexer::token::{Kind, Token};
use seatrial_sqltext::lexer::verb::Verb;
use seatrial_sqltext::statements::{Control, control_of, deallocated_of, for_each_statement};

use super::UnsafeOperations;
use super::catalogue;
use super::functions::{self, CallEffect};
use super::session_objects::{ObjectChange, SessionObjects};
use crate::item::{Item, UnsafeOperation};

/// Limit for the depth of commands in commands; deeper ones count as unsafe operations.
const DEPTH_MAX: u32 = 12;

/// The effects of a text.
#[derive(Debug, Default)]
pub struct StatementEffects {
    /// Operations that are refused unless allowed.
    pub operations: UnsafeOperations,
    /// A read-only session rejects it.
    pub writes: bool,
    /// It returns what was written before, and fails if nothing was.
    pub is_after_write: bool,
    /// It depends on an object whose creation was skipped.
    pub lacks: bool,
    /// Its changes of the session's objects.
    pub effects: Vec<ObjectChange>,
}

/// Analyses a text, command by command.
pub struct StatementAnalysis<'m> {
    pub(super) objects: &'m SessionObjects,
    pub(super) transaction: u64,
    pub(super) found: StatementEffects,
    parameters: &'m [Option<Vec<u8>>],
    depth: u32,
    /// Within the body of a function, which may or may not be executed.
    is_in_body: bool,
}

impl<'m> StatementAnalysis<'m> {
    /// Starts to analyse a statement of a session with these objects.
    pub fn new(objects: &'m SessionObjects, item: &'m Item) -> StatementAnalysis<'m> {
        StatementAnalysis {
            objects,
            transaction: item.transaction,
            found: StatementEffects::default(),
            parameters: &item.parameters,
            depth: 0,
            is_in_body: false,
        }
    }

    /// The effects found.
    pub fn finish(self) -> StatementEffects {
        self.found
    }

    /// Analyses each command of a text.
    pub fn text(&mut self, sql: &[u8]) {
        for_each_statement(sql, |command| self.command(&commands(command).collect::<Vec<_>>()));
    }

    /// Analyses a command, and nested ones.
    pub(super) fn command(&mut self, tokens: &[Token<'_>]) {
        let opens = |token: &Token<'_>| token.is_sign("(") || token.is_sign(";");
        let begin = tokens.iter().position(|token| !opens(token)).unwrap_or(tokens.len());
        let tokens = &tokens[begin..];
        if self.depth == DEPTH_MAX {
            self.found.operations.add(UnsafeOperation::Server);
            self.found.writes = true;
            return;
        }
        self.depth += 1;
        let is_two_phase = tokens.get(1).is_some_and(|token| token.is_word("transaction"));
        match tokens.first() {
            Some(first) if first.is_word("explain") => self.explain(tokens),
            Some(first) if first.is_word("prepare") && !is_two_phase => self.prepare(tokens),
            Some(first) => {
                self.calls(tokens);
                self.head(first, tokens);
                self.rows(tokens);
                self.needs(tokens);
            }
            None => {}
        }
        self.depth -= 1;
    }

    /// Analyses a command by its first word.
    fn head(&mut self, first: &Token<'_>, tokens: &[Token<'_>]) {
        let Some(verb) = Verb::of(first) else { return };
        match verb {
            Verb::Create => catalogue::create(self, tokens),
            Verb::Alter => catalogue::alter(self, tokens),
            Verb::Drop => catalogue::drop(self, tokens),
            Verb::Truncate => catalogue::truncate(self, tokens),
            Verb::Comment | Verb::Grant | Verb::Revoke | Verb::Security | Verb::Reassign => {
                self.ddl()
            }
            Verb::Import => {
                self.ddl();
                self.found.operations.add(UnsafeOperation::Dblink);
            }
            Verb::Copy => self.copy(tokens),
            Verb::Notify => self.found.operations.add(UnsafeOperation::Notify),
            Verb::Load => self.found.operations.add(UnsafeOperation::Server),
            Verb::Do => self.anonymous(tokens),
            Verb::Lock => self.found.writes |= !has_pair(tokens, "access", &["share"]),
            Verb::Begin | Verb::Start | Verb::Set => self.setting(tokens),
            Verb::Commit | Verb::End | Verb::Rollback | Verb::Abort | Verb::Prepare => {
                self.ends(tokens)
            }
            Verb::Execute if self.is_in_body => {}
            Verb::Execute => {
                self.found.lacks |= has(tokens.get(1), |n| self.objects.lacks_prepared(n))
            }
            Verb::Deallocate | Verb::Discard => self.discards(tokens),
            Verb::Declare => {
                let name = tokens.get(1).and_then(name);
                self.effect(name.map(ObjectChange::Declares));
            }
            Verb::Fetch | Verb::Move | Verb::Close => {
                let last = tokens.iter().rfind(|token| name(token).is_some());
                self.found.lacks |= has(last, |name| self.objects.lacks_cursor(name));
            }
            _ => {}
        }
    }

    /// It changes the catalogue.
    pub(super) fn ddl(&mut self) {
        self.found.operations.add(UnsafeOperation::Ddl);
        self.found.writes = true;
    }

    /// The body of a function may or may not be executed, so it has no certain effect.
    pub(super) fn effect(&mut self, effect: Option<ObjectChange>) {
        if !self.is_in_body {
            self.found.effects.extend(effect);
        }
    }

    /// EXPLAIN: nothing is executed without ANALYZE.
    fn explain(&mut self, tokens: &[Token<'_>]) {
        let is_analyze = |token: &Token<'_>| token.is_one_of(&["analyze", "analyse"]);
        let (mut index, mut is_executed) = (1, false);
        if tokens.get(1).is_some_and(|token| token.is_sign("(")) {
            index = closing(tokens, 1) + 1;
            let options = tokens[2..].windows(2).take(index.saturating_sub(2));
            is_executed = options.into_iter().any(|two| {
                is_analyze(&two[0]) && !two[1].is_one_of(&["false", "off"]) && two[1].text != b"0"
            });
        }
        while let Some(token) =
            tokens.get(index).filter(|token| is_analyze(token) || token.is_word("verbose"))
        {
            is_executed |= is_analyze(token);
            index += 1;
        }
        let inner = tokens.get(index..).unwrap_or_default();
        if is_executed || inner.first().is_some_and(|token| token.is_word("execute")) {
            self.command(inner);
        } else {
            self.needs(inner);
        }
    }

    fn prepare(&mut self, tokens: &[Token<'_>]) {
        self.effect(tokens.get(1).and_then(name).map(ObjectChange::Prepares));
        let command = tokens.iter().position(|token| token.is_word("as"));
        self.command(command.map_or(&[], |index| &tokens[index + 1..]));
    }

    /// COPY: a query may be in parentheses; the source or target of rows follows FROM or TO.
    fn copy(&mut self, tokens: &[Token<'_>]) {
        let mut index = 1;
        if tokens.get(1).is_some_and(|token| token.is_sign("(")) {
            let close = closing(tokens, 1);
            self.command(&tokens[2..close.max(2).min(tokens.len())]);
            index = close;
        }
        while let Some(token) = tokens.get(index) {
            if token.is_one_of(&["from", "to"]) {
                self.found.writes |= token.is_word("from");
                let is_outside = |end: &Token<'_>| end.kind == Kind::Text || end.is_word("program");
                if tokens.get(index + 1).is_some_and(is_outside) {
                    self.found.operations.add(UnsafeOperation::CopyProgram);
                }
                return;
            }
            index = if token.is_sign("(") { closing(tokens, index) } else { index } + 1;
        }
    }

    /// `DO 'body' LANGUAGE name`; only SQL-based languages can be analysed.
    fn anonymous(&mut self, tokens: &[Token<'_>]) {
        for (index, token) in tokens.iter().enumerate() {
            if tokens[index - usize::from(index > 0)].is_word("language") {
                let language = name(token).unwrap_or_else(|| unquoted(token.text));
                if !matches!(language.to_ascii_lowercase().as_slice(), b"plpgsql" | b"sql") {
                    self.found.operations.add(UnsafeOperation::Server);
                    self.found.writes = true;
                }
            } else if token.kind == Kind::Text {
                self.body(&unquoted(token.text));
            }
        }
    }

    /// The body of a function in PL/pgSQL or SQL: commands between semicolons and control words.
    /// Literals count if commands are built dynamically (EXECUTE).
    pub(super) fn body(&mut self, text: &[u8]) {
        let was_in_body = std::mem::replace(&mut self.is_in_body, true);
        let tokens: Vec<Token<'_>> = commands(text).collect();
        let separates = |token: &Token<'_>| {
            token.is_sign(";") || token.is_one_of(&["begin", "then", "else", "loop", "declare"])
        };
        for command in tokens.split(separates).filter(|command| !command.is_empty()) {
            self.command(command);
            self.found.writes |= has_pair(command, "delete", &["from"])
                || has_pair(command, "insert", &["into"])
                || has_pair(command, "merge", &["into"]);
            if command.iter().any(|token| token.is_word("execute")) {
                self.literals(command);
            }
        }
        self.is_in_body = was_in_body;
    }

    fn literals(&mut self, tokens: &[Token<'_>]) {
        for token in tokens.iter().filter(|token| token.kind == Kind::Text) {
            if self.depth < DEPTH_MAX {
                self.text(&unquoted(token.text));
            }
        }
    }

    /// READ WRITE, and equivalent settings.
    fn setting(&mut self, tokens: &[Token<'_>]) {
        self.found.writes |= has_pair(tokens, "read", &["write"]);
        if !tokens[0].is_word("set") {
            self.effect(Some(ObjectChange::Begins));
            return;
        }
        let behind =
            usize::from(tokens.get(1).is_some_and(|token| token.is_one_of(&["session", "local"])));
        let is_guard = has(tokens.get(1 + behind), |name| {
            matches!(name, b"default_transaction_read_only" | b"transaction_read_only")
        });
        let keeps = |token: &Token<'_>| {
            let value =
                if token.kind == Kind::Text { unquoted(token.text) } else { token.text.into() };
            matches!(value.to_ascii_lowercase().as_slice(), b"on" | b"true" | b"yes" | b"1")
        };
        self.found.writes |= is_guard && !tokens.get(3 + behind).is_some_and(keeps);
    }

    fn ends(&mut self, tokens: &[Token<'_>]) {
        match control_of(tokens.iter().copied()) {
            Control::End { is_undone, is_chained } => {
                self.effect(is_undone.then_some(ObjectChange::RollsBack));
                self.effect(Some(ObjectChange::Ends));
                self.effect(is_chained.then_some(ObjectChange::Begins));
            }
            Control::RollBackTo => self.effect(Some(ObjectChange::RollsBack)),
            Control::EndPrepared => self.found.writes = true,
            Control::None | Control::Begin => {}
        }
    }

    fn discards(&mut self, tokens: &[Token<'_>]) {
        if tokens[0].is_word("discard") {
            let has = |words: &[&str]| tokens[1..].iter().any(|token| token.is_one_of(words));
            let (all, is_temporary) = (has(&["all"]), has(&["temp", "temporary"]));
            self.effect((all || is_temporary).then_some(ObjectChange::Discards { all }));
            return;
        }
        let named = deallocated_of(tokens.iter().copied());
        self.found.lacks |= named.as_ref().is_some_and(|name| self.objects.lacks_prepared(name));
        self.effect(Some(ObjectChange::Deallocates(named)));
    }

    /// Rows that it changes or locks, and tables that it creates from them.
    fn rows(&mut self, tokens: &[Token<'_>]) {
        let (class, _) = classify(tokens);
        match class {
            Class::Insert | Class::Update | Class::Delete | Class::Merge | Class::Maintenance => {
                self.found.writes = true;
            }
            Class::Select | Class::Cursor => {
                self.found.writes |= has_pair(tokens, "for", &["update", "share", "no", "key"]);
            }
            _ => {}
        }
        if class == Class::Select && !self.is_in_body {
            catalogue::select_into(self, tokens);
        }
    }

    /// Objects that it names and whose creation was skipped.
    fn needs(&mut self, tokens: &[Token<'_>]) {
        let cursor =
            tokens.windows(3).find(|three| three[0].is_word("current") && three[1].is_word("of"));
        self.found.lacks |=
            has(cursor.map(|three| &three[2]), |name| self.objects.lacks_cursor(name));
        if !self.objects.lacks_tables() {
            return;
        }
        self.found.lacks |= (0..tokens.len()).any(|index| {
            let is_column = index > 0 && tokens[index - 1].is_sign(".");
            !is_column && has(tokens.get(index), |name| self.objects.lacks_table(name))
        });
    }

    /// Functions that it calls: a name followed by a parenthesis, except for a table's name.
    fn calls(&mut self, tokens: &[Token<'_>]) {
        for index in 0..tokens.len().saturating_sub(1) {
            if !tokens[index + 1].is_sign("(") || is_table(tokens, index) {
                continue;
            }
            let token = &tokens[index];
            if token.kind == Kind::QuotedName && is_escaped(token.text) {
                // A name with escapes is unknown; SQL has one only to hide it.
                self.found.operations.add(UnsafeOperation::Server);
            }
            let Some(name) = name(token) else { continue };
            let called = std::str::from_utf8(&name).ok().and_then(functions::of_name);
            match called {
                Some(CallEffect::UnsafeOperation(operation)) => {
                    self.found.operations.add(operation)
                }
                Some(CallEffect::Writes) => self.found.writes = true,
                Some(CallEffect::AfterWrite) => self.found.is_after_write = true,
                Some(CallEffect::Setting) => self.found.writes |= self.names_guard(tokens),
                Some(CallEffect::Query) => self.literals(tokens),
                None => {}
            }
        }
    }

    /// Whether a literal or a parameter names a setting that makes a session read-only.
    fn names_guard(&self, tokens: &[Token<'_>]) -> bool {
        let is_guard = |value: &[u8]| {
            let value = value.to_ascii_lowercase();
            value.windows(b"read_only".len()).any(|part| part == b"read_only")
        };
        tokens.iter().any(|token| token.kind == Kind::Text && is_guard(token.text))
            || self.parameters.iter().flatten().any(|value| is_guard(value))
    }
}

/// Whether there is a token whose name satisfies a condition.
fn has(token: Option<&Token<'_>>, is_such: impl Fn(&[u8]) -> bool) -> bool {
    token.and_then(name).is_some_and(|name| is_such(&name))
}

/// Whether a word is followed by one of these.
fn has_pair(tokens: &[Token<'_>], word: &str, next: &[&str]) -> bool {
    tokens.windows(2).any(|two| two[0].is_word(word) && two[1].is_one_of(next))
}

/// Whether the name at a position, followed by a parenthesis, is a table's with its columns, or an
/// alias: `INSERT INTO name (...)`, `AS name (...)`.
fn is_table(tokens: &[Token<'_>], index: usize) -> bool {
    let mut begin = index;
    while begin >= 2 && tokens[begin - 1].is_sign(".") {
        begin -= 2;
    }
    let words = ["into", "as", "table", "copy", "references"];
    begin > 0 && tokens[begin - 1].is_one_of(&words)
}

/// `U&"..."` with an escape in it.
fn is_escaped(text: &[u8]) -> bool {
    matches!(text.first(), Some(b'u' | b'U')) && text.contains(&b'\\')
}
