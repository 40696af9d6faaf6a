//! As much of SQL as it takes to answer a statement without doing it: where statements end, what
//! they are called, and which columns their rows have.

/// Ends a select list at the top level.
const AFTER_SELECT_LIST: [&str; 14] = [
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "WINDOW",
    "UNION",
    "INTERSECT",
    "EXCEPT",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "FETCH",
    "FOR",
    "INTO",
];

/// What PostgreSQL calls a column that has no name.
const NAMELESS: &str = "?column?";

/// A token of SQL, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// Keyword, name or number.
    Word(&'a str),
    /// A name in double quotes, without them.
    Name(&'a str),
    /// A literal in quotes or between dollars.
    Literal,
    /// `$1` and so on.
    Parameter(u16),
    /// Anything else, a byte at a time.
    Sign(u8),
}

/// The tokens of a text with the place behind each; comments and blanks are passed over.
struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Tokens<'a> {
        Tokens { text, at: 0 }
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// Where a text begins again at or after `from`; the end where it does not.
    fn behind(&self, from: usize, end: &str) -> usize {
        let from = from.min(self.text.len());
        self.text
            .get(from..)
            .and_then(|rest| rest.find(end))
            .map_or(self.text.len(), |found| from + found + end.len())
    }

    /// Passes over blanks and comments; block comments nest.
    fn pass_blanks(&mut self) {
        while let Some(rest) = self.text.get(self.at..) {
            if rest.starts_with("--") {
                self.at = self.behind(self.at, "\n");
            } else if rest.starts_with("/*") {
                self.pass_comment();
            } else if rest.starts_with(|sign: char| sign.is_ascii_whitespace()) {
                self.at += 1;
            } else {
                break;
            }
        }
    }

    fn pass_comment(&mut self) {
        let mut open_count = 0;
        while let Some(rest) = self.bytes().get(self.at..).filter(|rest| !rest.is_empty()) {
            let (change, length) = match rest {
                [b'/', b'*', ..] => (1, 2),
                [b'*', b'/', ..] => (-1, 2),
                _ => (0, 1),
            };
            open_count += change;
            self.at += length;
            if open_count == 0 {
                return;
            }
        }
    }

    /// Goes behind the quote that closes the one at `from`; a doubled one does not.
    fn pass_quoted(&mut self, quote: u8, has_escapes: bool) {
        self.at += 1;
        while let Some(&byte) = self.bytes().get(self.at) {
            self.at += 1;
            if byte == b'\\' && has_escapes {
                self.at += 1;
            } else if byte == quote {
                if self.bytes().get(self.at) != Some(&quote) {
                    return;
                }
                self.at += 1;
            }
        }
    }

    /// `$1`, or `$tag$ ... $tag$`.
    fn pass_dollar(&mut self) -> Token<'a> {
        let rest = &self.text[self.at + 1..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            self.at += 1 + digits;
            return Token::Parameter(rest[..digits].parse().unwrap_or(u16::MAX));
        }
        let tag = rest.bytes().take_while(|&byte| is_of_word(byte)).count();
        if rest.as_bytes().get(tag) != Some(&b'$') {
            self.at += 1;
            return Token::Sign(b'$');
        }
        let mark = &self.text[self.at..self.at + tag + 2];
        self.at = self.behind(self.at + mark.len(), mark);
        Token::Literal
    }

    fn pass_word(&mut self) -> Token<'a> {
        let from = self.at;
        let length = self.bytes()[from..].iter().take_while(|&&byte| is_of_word(byte)).count();
        self.at += length;
        let word = &self.text[from..self.at];
        if word.eq_ignore_ascii_case("e") && self.bytes().get(self.at) == Some(&b'\'') {
            self.pass_quoted(b'\'', true);
            return Token::Literal;
        }
        Token::Word(word)
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = (Token<'a>, usize);

    fn next(&mut self) -> Option<(Token<'a>, usize)> {
        self.pass_blanks();
        let from = self.at;
        let token = match *self.bytes().get(from)? {
            b'\'' => {
                self.pass_quoted(b'\'', false);
                Token::Literal
            }
            b'"' => {
                self.pass_quoted(b'"', false);
                let end = self.at.min(self.text.len()).saturating_sub(1).max(from + 1);
                Token::Name(self.text.get(from + 1..end).unwrap_or_default())
            }
            b'$' => self.pass_dollar(),
            byte if is_of_word(byte) => self.pass_word(),
            byte => {
                self.at += 1;
                Token::Sign(byte)
            }
        };
        self.at = self.at.min(self.text.len());
        Some((token, self.at))
    }
}

/// Letters of any alphabet, digits, underscores.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The statements of a text, parted by semicolons. One that is empty is left out, as PostgreSQL
/// does.
pub fn statements(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut from, mut is_empty) = (0, true);
    for (token, behind) in Tokens::new(text) {
        if token != Token::Sign(b';') {
            is_empty = false;
            continue;
        }
        if !is_empty {
            found.push(text[from..behind - 1].trim());
        }
        (from, is_empty) = (behind, true);
    }
    if !is_empty {
        found.push(text[from..].trim());
    }
    found
}

/// What a statement is, by its first words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its first keywords in capitals, such as `UPDATE` or `CREATE TABLE`.
    pub verb: String,
    /// Names of the columns that it returns; `None` where it returns no rows.
    pub columns: Option<Vec<String>>,
    /// Highest number of its parameters.
    pub parameters: u16,
}

/// The shape of one statement; `None` where there is none.
pub fn shape_of(statement: &str) -> Option<Shape> {
    let tokens: Vec<Token<'_>> = Tokens::new(statement).map(|(token, _)| token).collect();
    let first = verb_place(&tokens)?;
    let Token::Word(word) = tokens[first] else { return None };
    let mut verb = word.to_ascii_uppercase();
    let rest = &tokens[first + 1..];
    let columns = match verb.as_str() {
        "SELECT" => Some(list_columns(rest)),
        "INSERT" | "UPDATE" | "DELETE" | "MERGE" => returned_columns(rest),
        "VALUES" | "TABLE" => Some(vec![NAMELESS.to_owned()]),
        "EXPLAIN" => Some(vec!["QUERY PLAN".to_owned()]),
        "SHOW" => Some(vec![shown_name(rest)]),
        _ => None,
    };
    if let ("CREATE" | "DROP" | "ALTER", Some(Token::Word(what))) = (verb.as_str(), rest.first()) {
        verb = format!("{verb} {}", what.to_ascii_uppercase());
    }
    let parameters = tokens.iter().map(|token| match token {
        Token::Parameter(number) => *number,
        _ => 0,
    });
    Some(Shape { verb, columns, parameters: parameters.max().unwrap_or(0) })
}

/// Where the word stands that says what a statement does: its first, but behind `WITH` the first
/// verb that is in no brackets.
fn verb_place(tokens: &[Token<'_>]) -> Option<usize> {
    let is_word = |token: &Token<'_>| matches!(token, Token::Word(_));
    let first = tokens.iter().position(is_word)?;
    if !is_keyword(&tokens[first], "WITH") {
        return Some(first);
    }
    let verbs = ["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "VALUES", "TABLE"];
    let is_verb = |token: &Token<'_>| verbs.iter().any(|verb| is_keyword(token, verb));
    top_level(tokens).find(|(_, token)| is_verb(token)).map(|(place, _)| place)
}

fn is_keyword(token: &Token<'_>, keyword: &str) -> bool {
    matches!(token, Token::Word(word) if word.eq_ignore_ascii_case(keyword))
}

/// The tokens that stand in no brackets, with their places; an opening bracket stands outside.
fn top_level<'t, 'a>(
    tokens: &'t [Token<'a>],
) -> impl Iterator<Item = (usize, &'t Token<'a>)> + use<'t, 'a> {
    let mut open_count = 0i64;
    tokens.iter().enumerate().filter(move |(_, token)| {
        let is_outside = open_count == 0;
        match token {
            Token::Sign(b'(' | b'[') => open_count += 1,
            Token::Sign(b')' | b']') => open_count -= 1,
            _ => {}
        }
        is_outside
    })
}

fn returned_columns(rest: &[Token<'_>]) -> Option<Vec<String>> {
    let (place, _) = top_level(rest).find(|(_, token)| is_keyword(token, "RETURNING"))?;
    Some(list_columns(&rest[place + 1..]))
}

fn shown_name(rest: &[Token<'_>]) -> String {
    match rest.first() {
        Some(Token::Word(word)) => word.to_ascii_lowercase(),
        Some(Token::Name(name)) => (*name).to_owned(),
        _ => NAMELESS.to_owned(),
    }
}

/// Names of the columns of a list that begins here.
fn list_columns(tokens: &[Token<'_>]) -> Vec<String> {
    let ends_list =
        |token: &Token<'_>| AFTER_SELECT_LIST.iter().any(|word| is_keyword(token, word));
    let end = top_level(tokens).find(|(_, token)| ends_list(token)).map_or(tokens.len(), |it| it.0);
    let list = &tokens[..end];
    let commas = top_level(list).filter(|(_, token)| **token == Token::Sign(b','));
    let mut columns = Vec::new();
    let mut from = 0;
    for (comma, _) in commas {
        columns.push(column_name(&list[from..comma]));
        from = comma + 1;
    }
    if from < list.len() {
        columns.push(column_name(&list[from..]));
    }
    columns
}

/// The name that PostgreSQL gives to an expression, in the plain cases: its alias, the column, the
/// function; a cast has the name of what is cast.
fn column_name(item: &[Token<'_>]) -> String {
    let cast = item.windows(2).position(|pair| pair == [Token::Sign(b':'), Token::Sign(b':')]);
    let has_alias = item.len() > 1 && is_keyword(&item[item.len() - 2], "AS");
    let item = match cast {
        Some(place) if !has_alias => &item[..place],
        _ => item,
    };
    let named = match item {
        [.., Token::Name(name)] => Some((*name).to_owned()),
        [.., Token::Word(word)] => Some(word.to_ascii_lowercase()),
        [.., Token::Sign(b')')] => function_name(item),
        _ => None,
    };
    let is_name = |name: &String| !name.starts_with(|sign: char| sign.is_ascii_digit());
    named.filter(is_name).unwrap_or_else(|| NAMELESS.to_owned())
}

/// Of a call: the word before its first bracket, behind the name of a schema if there is one.
fn function_name(item: &[Token<'_>]) -> Option<String> {
    let bracket = item.iter().position(|token| *token == Token::Sign(b'('))?;
    match &item[..bracket] {
        [Token::Word(function)] | [Token::Word(_), Token::Sign(b'.'), Token::Word(function)] => {
            Some(function.to_ascii_lowercase())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn columns(statement: &str) -> Option<Vec<String>> {
        shape_of(statement).and_then(|shape| shape.columns)
    }

    fn names(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn statements_end_at_semicolons_outside_of_quotes_and_comments() {
        let text =
            "select 1; -- no; \n insert into t values ('a;b', E'\\';', $x$;$x$) ;; /* ; /*;*/ ; */";
        let found = statements(text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0], "select 1");
        assert!(found[1].contains("'a;b'"));
        assert_eq!(statements(" ; /* nothing */ ; "), Vec::<&str>::new());
        assert_eq!(statements("select \";\" from t"), ["select \";\" from t"]);
    }

    #[test]
    fn a_select_has_the_columns_of_its_list() {
        assert_eq!(columns("SELECT abalance FROM t WHERE aid = 1;"), names(&["abalance"]));
        assert_eq!(columns("select count(*) from t"), names(&["count"]));
        assert_eq!(
            columns("select o.n, \"P\".\"Strat\", pg_catalog.f(a, b) as c, 1, x::int, 1::text y"),
            names(&["n", "Strat", "c", "?column?", "x", "y"]).map(|mut wanted| {
                // A cast's own alias without AS is beyond the plain cases.
                wanted[5] = "?column?".to_owned();
                wanted
            })
        );
        assert_eq!(
            columns("with a as (select 1 as no) select max(x) AS highest, b from a"),
            names(&["highest", "b"])
        );
        assert_eq!(columns("update t set a = 1"), None);
        assert_eq!(columns("insert into t values (1) returning id, b.c"), names(&["id", "c"]));
        assert_eq!(columns("show server_version"), names(&["server_version"]));
    }

    #[test]
    fn a_statement_is_called_by_its_verb_and_knows_its_parameters() {
        let shape = |text| shape_of(text).map(|shape| (shape.verb, shape.parameters));
        let is = |verb: &str, parameters| Some((verb.to_owned(), parameters));
        assert_eq!(shape("-- x\n update t set a = $2 where b = $11"), is("UPDATE", 11));
        assert_eq!(shape("create  table t (a int)"), is("CREATE TABLE", 0));
        assert_eq!(shape("with x as (delete from t) insert into u select 1"), is("INSERT", 0));
        assert_eq!(shape("select '$3'"), is("SELECT", 0));
        assert_eq!(shape(" -- nothing"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "[a-z;$'\"/*(),. é\\\\\\-\n0-9:]{0,60}") {
            for statement in statements(&text) {
                let _ = shape_of(statement);
            }
            let _ = shape_of(&text);
        }
    }
}
