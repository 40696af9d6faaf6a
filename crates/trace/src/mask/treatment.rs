//! Which literals are part of the statement rather than data.

use seatrial_sqltext::lexer::class::{Class, classify};
use seatrial_sqltext::lexer::significant;
use seatrial_sqltext::lexer::token::{Kind, Token, Tokens};

/// Treatment of a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// It is masked.
    Masked,
    /// It is kept.
    Kept,
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
const BEFORE_SYNTAX: [&str; 8] =
    ["zone", "language", "escape", "limit", "offset", "first", "next", "uescape"];

/// Words that end a list after ORDER BY or GROUP BY.
const AFTER_ORDER: [&str; 10] = [
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
];

impl LiteralTreatments {
    /// The treatments of a form's literals.
    pub fn of_form(form: &[u8]) -> LiteralTreatments {
        let statement = Context::of(&significant(form));
        let mut tokens: Vec<Token<'_>> = Tokens::of(form).collect();
        tokens.retain(|token| !matches!(token.kind, Kind::Space | Kind::Comment));
        let mut context = LiteralContext::default();
        let mut treatments = Vec::new();
        for (index, token) in tokens.iter().enumerate() {
            match token.kind {
                Kind::CommentGap => treatments.push(Treatment::Masked),
                Kind::Gap => {
                    let is_cast = names_object(&tokens[index + 1..]);
                    treatments.push(if is_cast {
                        Treatment::Kept
                    } else {
                        statement.treatment(&context)
                    });
                    context.advance(token);
                }
                _ => context.advance(token),
            }
        }
        LiteralTreatments(treatments)
    }

    /// What is done with the N-th literal.
    pub fn treatment(&self, index: usize) -> Treatment {
        self.0.get(index).copied().unwrap_or(Treatment::Masked)
    }
}

/// `'...'::regclass` and its like.
fn names_object(behind: &[Token<'_>]) -> bool {
    let [cast, name, ..] = behind else { return false };
    let is_of_names = name.kind == Kind::Word && name.text.to_ascii_lowercase().starts_with(b"reg");
    cast.is_sign("::") && is_of_names
}

/// The statement's context of its literals.
struct Context {
    class: Class,
    /// It sets a parameter of PostgreSQL, so the value is not user data.
    is_setting: bool,
    has_code: bool,
}

impl Context {
    fn of(tokens: &[Token<'_>]) -> Context {
        let class = classify(tokens).0;
        let first_is = |words: &[&str]| tokens.first().is_some_and(|token| token.is_one_of(words));
        let has_dot = tokens.iter().any(|token| token.is_sign("."));
        let makes_code =
            tokens.iter().take(4).any(|token| token.is_one_of(&["function", "procedure"]));
        Context {
            class,
            is_setting: first_is(&["set", "reset", "show"]) && !has_dot,
            has_code: first_is(&["do"]) || (first_is(&["create"]) && makes_code),
        }
    }

    fn treatment(&self, context: &LiteralContext<'_>) -> Treatment {
        let is_of_copy = self.class == Class::Copy
            && (context.last_is(&["from", "to", "program"]) || context.is_in_options());
        if self.is_setting || is_of_copy || context.is_syntax() {
            Treatment::Kept
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
            _ if token.is_word("by") => self.by_depth = Some(self.open.len()),
            _ if token.is_one_of(&AFTER_ORDER) => self.by_depth = None,
            _ => {}
        }
        self.last = Some(*token);
    }

    fn last_is(&self, words: &[&str]) -> bool {
        self.last.is_some_and(|last| last.is_one_of(words))
    }

    fn is_syntax(&self) -> bool {
        self.last_is(&BEFORE_SYNTAX) || self.is_order() || self.is_given_a_name()
    }

    /// A column number in ORDER BY or GROUP BY.
    fn is_order(&self) -> bool {
        let is_first = self.last_is(&["by"]) || self.last.is_some_and(|last| last.is_sign(","));
        is_first && self.by_depth == Some(self.open.len())
    }

    /// A type's size, an array index, or an argument that names something.
    fn is_given_a_name(&self) -> bool {
        let Some(bracket) = self.open.last() else { return false };
        let Some(before) = bracket.before else { return false };
        if bracket.is_square {
            return !before.is_word("array") && !before.is_sign("[");
        }
        let is_named = |&&(name, argument): &&(&str, usize)| {
            argument == bracket.commas && before.is_word(name)
        };
        before.is_one_of(&SIZED_TYPES) || FUNCTIONS.iter().any(|function| is_named(&function))
    }

    /// Within the parentheses after WITH, as in COPY.
    fn is_in_options(&self) -> bool {
        let before = self.open.last().and_then(|bracket| bracket.before);
        before.is_some_and(|before| before.is_word("with") || before.is_value())
    }
}
