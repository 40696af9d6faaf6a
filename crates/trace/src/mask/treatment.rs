//! Which literals are part of the statement rather than data.

use seatrial_sqltext::lexer::class::{Class, classify};
use seatrial_sqltext::lexer::name::name;
use seatrial_sqltext::lexer::nesting::Nesting;
use seatrial_sqltext::lexer::token::{Kind, Token, Tokens};

/// Treatment of a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// It is masked.
    Masked,
    /// It is kept.
    Kept,
    /// It is kept if it is a number: a count, a position or a size. A string there is data.
    KeptNumber,
    /// Its literals are masked, as it is code.
    Code,
}

/// The treatment of each of a form's literals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiteralTreatments(Vec<Treatment>);

/// Functions with an argument that is a name or a format, and the index of that argument.
const FUNCTIONS: [(&str, usize); 22] = [
    ("nextval", 0),
    ("currval", 0),
    ("setval", 0),
    ("setval", 1),
    ("set_config", 0),
    ("current_setting", 0),
    ("to_regclass", 0),
    ("pg_get_serial_sequence", 0),
    ("pg_relation_size", 0),
    ("pg_total_relation_size", 0),
    ("to_char", 1),
    ("to_date", 1),
    ("to_timestamp", 1),
    ("to_number", 1),
    ("date_trunc", 0),
    ("date_trunc", 2),
    ("date_part", 0),
    ("timezone", 0),
    ("encode", 1),
    ("decode", 1),
    ("convert_from", 1),
    ("convert_to", 1),
];

/// Types that have sizes in parentheses.
const SIZED_TYPES: [&str; 13] = [
    "varchar",
    "char",
    "character",
    "bpchar",
    "varying",
    "numeric",
    "decimal",
    "bit",
    "float",
    "time",
    "timestamp",
    "timestamptz",
    "interval",
];

/// Words that are followed by syntax, not by data.
const BEFORE_SYNTAX: [&str; 3] = ["language", "escape", "uescape"];

/// Words that are followed by a number of rows.
const BEFORE_ROWS: [&str; 4] = ["limit", "offset", "first", "next"];

/// Words that are followed by the name of a time zone.
const BEFORE_ZONE: [&str; 3] = ["at", "time", "zone"];

/// Types of the names of objects.
const NAME_TYPES: [&str; 11] = [
    "regclass",
    "regcollation",
    "regconfig",
    "regdictionary",
    "regnamespace",
    "regoper",
    "regoperator",
    "regproc",
    "regprocedure",
    "regrole",
    "regtype",
];

/// Languages whose code has the tokens of SQL.
const LANGUAGES: [&[u8]; 2] = [b"plpgsql", b"sql"];

/// Words that end a list after ORDER BY or GROUP BY.
const AFTER_ORDER: [&str; 11] = [
    "limit",
    "offset",
    "fetch",
    "for",
    "having",
    "union",
    "intersect",
    "except",
    "window",
    "where",
    "returning",
];

impl LiteralTreatments {
    /// The treatments of a form's literals. Each statement of a form has a context of its own.
    pub fn of_form(form: &[u8]) -> LiteralTreatments {
        let mut tokens: Vec<Token<'_>> = Tokens::of(form).collect();
        tokens.retain(|token| !matches!(token.kind, Kind::Space | Kind::Comment));
        let mut treatments = Vec::new();
        let mut nesting = Nesting::default();
        for statement in tokens.split_inclusive(|token| nesting.passes_end(token)) {
            append_treatments(statement, &mut treatments);
        }
        LiteralTreatments(treatments)
    }

    /// What is done with the N-th literal.
    pub fn treatment(&self, index: usize) -> Treatment {
        self.0.get(index).copied().unwrap_or(Treatment::Masked)
    }
}

/// Appends the treatments of one statement's literals.
fn append_treatments(statement: &[Token<'_>], treatments: &mut Vec<Treatment>) {
    let kind = StatementContext::of(statement);
    let mut context = LiteralContext::default();
    for (index, token) in statement.iter().enumerate() {
        match token.kind {
            Kind::CommentGap => treatments.push(Treatment::Masked),
            Kind::Gap => {
                let (before, behind) = (&statement[..index], &statement[index + 1..]);
                treatments.push(kind.treatment(&context, before, behind));
                context.advance(token);
            }
            _ => context.advance(token),
        }
    }
}

/// `'...'::regclass` and its like.
fn names_object(behind: &[Token<'_>]) -> bool {
    let [cast, name, ..] = behind else { return false };
    cast.is_sign("::") && name.is_one_of(&NAME_TYPES)
}

/// Whether the argument that these tokens follow is the last one.
fn is_last_argument(behind: &[Token<'_>]) -> bool {
    let mut depth = 0u32;
    let end = behind.iter().find(|token| {
        let is_end = depth == 0 && (token.is_sign(")") || token.is_sign(","));
        depth += u32::from(token.is_sign("("));
        depth = depth.saturating_sub(u32::from(token.is_sign(")")));
        is_end
    });
    end.is_some_and(|end| end.is_sign(")"))
}

/// Whether the tokens end in these words.
fn ends_in(tokens: &[Token<'_>], words: &[&str]) -> bool {
    let last = tokens.len().checked_sub(words.len()).map(|first| &tokens[first..]);
    last.is_some_and(|last| last.iter().zip(words).all(|(token, word)| token.is_word(word)))
}

/// Whether the code of DO or CREATE FUNCTION has the tokens of SQL. Where a string names the
/// language, a form does not tell.
fn is_in_sql(tokens: &[Token<'_>]) -> bool {
    let named = tokens.iter().skip_while(|token| !token.is_word("language")).nth(1);
    named.is_none_or(|language| {
        name(language).is_some_and(|language| LANGUAGES.contains(&&language[..]))
    })
}

/// The statement's context of its literals.
struct StatementContext {
    class: Class,
    /// It sets a parameter of PostgreSQL, so the value is not user data.
    is_setting: bool,
    has_code: bool,
}

impl StatementContext {
    fn of(tokens: &[Token<'_>]) -> StatementContext {
        let tokens: Vec<Token<'_>> =
            tokens.iter().filter(|token| token.kind != Kind::CommentGap).copied().collect();
        let first_is = |words: &[&str]| tokens.first().is_some_and(|token| token.is_one_of(words));
        let has_dot = tokens.iter().any(|token| {
            token.is_sign(".") || (token.kind == Kind::QuotedName && token.text.contains(&b'.'))
        });
        let makes_code =
            tokens.iter().take(4).any(|token| token.is_one_of(&["function", "procedure"]));
        StatementContext {
            class: classify(&tokens).0,
            is_setting: first_is(&["set", "reset", "show"]) && !has_dot,
            has_code: (first_is(&["do"]) || (first_is(&["create"]) && makes_code))
                && is_in_sql(&tokens),
        }
    }

    /// The treatment of a literal between these tokens of the statement.
    fn treatment(
        &self,
        context: &LiteralContext<'_>,
        before: &[Token<'_>],
        behind: &[Token<'_>],
    ) -> Treatment {
        let is_of_copy = self.class == Class::Copy
            && (context.is_target_of_copy(before) || context.is_in_options());
        let is_kept = self.is_setting
            || is_of_copy
            || names_object(behind)
            || ends_in(before, &BEFORE_ZONE)
            || context.last_is(&BEFORE_SYNTAX)
            || context.is_named_argument(behind);
        if is_kept {
            Treatment::Kept
        } else if context.is_number() {
            Treatment::KeptNumber
        } else if self.has_code {
            Treatment::Code
        } else {
            Treatment::Masked
        }
    }
}

/// The context of a literal in a statement.
#[derive(Debug, Default)]
struct LiteralContext<'a> {
    last: Option<Token<'a>>,
    /// Open brackets, the outermost first.
    open: Vec<Bracket<'a>>,
    /// In a list after ORDER BY or GROUP BY, at this depth of brackets.
    by_depth: Option<usize>,
}

/// A bracket that is open.
#[derive(Debug, Clone, Copy)]
struct Bracket<'a> {
    before: Option<Token<'a>>,
    is_square: bool,
    commas: usize,
}

impl<'a> LiteralContext<'a> {
    fn advance(&mut self, token: &Token<'a>) {
        match token.text {
            b"(" | b"[" if token.kind == Kind::Sign => {
                let is_square = token.text == b"[";
                self.open.push(Bracket { before: self.last, is_square, commas: 0 });
            }
            b")" | b"]" if token.kind == Kind::Sign => {
                self.open.pop();
                self.by_depth = self.by_depth.filter(|&depth| depth <= self.open.len());
            }
            b"," => {
                if let Some(bracket) = self.open.last_mut() {
                    bracket.commas += 1;
                }
            }
            // A semicolon within a statement: in a rule or in the body of a function.
            b";" => self.by_depth = None,
            _ if token.is_word("by") => self.by_depth = Some(self.open.len()),
            _ if token.is_one_of(&AFTER_ORDER) => self.by_depth = None,
            _ => {}
        }
        self.last = Some(*token);
    }

    fn last_is(&self, words: &[&str]) -> bool {
        self.last.is_some_and(|last| last.is_one_of(words))
    }

    /// A number of rows, of a column in ORDER BY or GROUP BY, or in a subscript, or a type's size.
    fn is_number(&self) -> bool {
        self.last_is(&BEFORE_ROWS) || self.is_order() || self.is_subscript_or_size()
    }

    /// A column number in ORDER BY or GROUP BY.
    fn is_order(&self) -> bool {
        let is_first = self.last_is(&["by"]) || self.last.is_some_and(|last| last.is_sign(","));
        is_first && self.by_depth == Some(self.open.len())
    }

    /// In the brackets behind a name or a value, or in the parentheses behind a type.
    fn is_subscript_or_size(&self) -> bool {
        let Some(bracket) = self.open.last() else { return false };
        let Some(before) = bracket.before else { return false };
        if !bracket.is_square {
            return before.is_one_of(&SIZED_TYPES);
        }
        let is_name = matches!(before.kind, Kind::Word | Kind::QuotedName | Kind::Parameter);
        (is_name && !before.is_word("array")) || before.is_sign(")") || before.is_sign("]")
    }

    /// An argument that names something or is a format.
    fn is_named_argument(&self, behind: &[Token<'_>]) -> bool {
        let Some(bracket) = self.open.last().filter(|bracket| !bracket.is_square) else {
            return false;
        };
        let Some(before) = bracket.before else { return false };
        // With more than two arguments, DECODE is a function that compares values.
        let is_other = before.is_word("decode") && !is_last_argument(behind);
        let is_named =
            |&(name, argument): &(&str, usize)| argument == bracket.commas && before.is_word(name);
        !is_other && FUNCTIONS.iter().any(is_named)
    }

    /// The file or program of a COPY. Its WHERE has data.
    fn is_target_of_copy(&self, before: &[Token<'_>]) -> bool {
        self.open.is_empty()
            && self.last_is(&["from", "to", "program"])
            && !before.iter().any(|token| token.is_word("where"))
    }

    /// Within the parentheses after WITH, as in COPY.
    fn is_in_options(&self) -> bool {
        let [bracket] = &self.open[..] else { return false };
        bracket.before.is_some_and(|before| before.is_word("with") || before.is_value())
    }
}
