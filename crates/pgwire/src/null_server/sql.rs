//! The minimal SQL parsing for answering a statement without executing it: its command, and the
//! columns of its rows.

use seatrial_sqltext::lexer::commands;
use seatrial_sqltext::lexer::name::name;
use seatrial_sqltext::lexer::token::{Kind, Token};
use seatrial_sqltext::lexer::verb::Verb;
use seatrial_sqltext::statements::{is_something, statement_end};

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

/// PostgreSQL's name of a column without a name.
const UNNAMED_COLUMN: &str = "?column?";

/// The statements of a text, separated by semicolons. Empty ones are dropped, as in PostgreSQL.
pub fn statements(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = statement_end(rest.as_bytes()).unwrap_or(rest.len());
        let (statement, behind) = rest.split_at(end);
        if is_something(statement.as_bytes()) {
            found.push(statement.strip_suffix(';').unwrap_or(statement).trim());
        }
        rest = behind;
    }
    found
}

/// The kind of a statement, by its first words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementShape {
    /// Its first keywords in capitals, such as `UPDATE` or `CREATE TABLE`.
    pub verb: String,
    /// Names of the returned columns; `None` if it returns no rows.
    pub columns: Option<Vec<String>>,
    /// Highest number of its parameters.
    pub parameters: u16,
}

/// The shape of one statement; `None` for an empty one.
pub fn shape_of(statement: &str) -> Option<StatementShape> {
    let tokens: Vec<Token<'_>> = commands(statement.as_bytes()).collect();
    let first = verb_index(&tokens)?;
    let rest = &tokens[first + 1..];
    let columns = match Verb::of(&tokens[first]) {
        Some(Verb::Select) => Some(list_columns(rest)),
        Some(Verb::Insert | Verb::Update | Verb::Delete | Verb::Merge) => returned_columns(rest),
        Some(Verb::Values | Verb::Table) => Some(vec![UNNAMED_COLUMN.to_owned()]),
        Some(Verb::Explain) => Some(vec!["QUERY PLAN".to_owned()]),
        Some(Verb::Show) => Some(vec![rest.first().and_then(named).unwrap_or_else(unnamed_column)]),
        _ => None,
    };
    let capitals = |token: &Token<'_>| String::from_utf8_lossy(token.text).to_ascii_uppercase();
    let mut verb = capitals(&tokens[first]);
    let object = rest.first().filter(|object| object.kind == Kind::Word);
    if let ("CREATE" | "DROP" | "ALTER", Some(object)) = (verb.as_str(), object) {
        verb = format!("{verb} {}", capitals(object));
    }
    let parameters = tokens.iter().filter_map(parameter).max().unwrap_or(0);
    Some(StatementShape { verb, columns, parameters })
}

/// The number of a parameter, limited to the protocol's maximum.
fn parameter(token: &Token<'_>) -> Option<u16> {
    let digits = token.text.strip_prefix(b"$").filter(|_| token.kind == Kind::Parameter)?;
    Some(std::str::from_utf8(digits).ok()?.parse().unwrap_or(u16::MAX))
}

/// Position of the word that determines the command: the first, or after `WITH` the first verb
/// outside of parentheses.
fn verb_index(tokens: &[Token<'_>]) -> Option<usize> {
    let first = tokens.iter().position(|token| token.kind == Kind::Word)?;
    if !tokens[first].is_word("WITH") {
        return Some(first);
    }
    let verbs = ["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "VALUES", "TABLE"];
    top_level(tokens).find(|(_, token)| token.is_one_of(&verbs)).map(|(index, _)| index)
}

/// The tokens outside of parentheses, with their positions; an opening parenthesis counts as
/// outside.
fn top_level<'t, 'a>(
    tokens: &'t [Token<'a>],
) -> impl Iterator<Item = (usize, &'t Token<'a>)> + use<'t, 'a> {
    let mut open_count = 0i64;
    tokens.iter().enumerate().filter(move |(_, token)| {
        let is_outside = open_count == 0;
        match token.text {
            b"(" | b"[" => open_count += 1,
            b")" | b"]" => open_count -= 1,
            _ => {}
        }
        is_outside
    })
}

fn returned_columns(rest: &[Token<'_>]) -> Option<Vec<String>> {
    let (index, _) = top_level(rest).find(|(_, token)| token.is_word("RETURNING"))?;
    Some(list_columns(&rest[index + 1..]))
}

/// The name of a token.
fn named(token: &Token<'_>) -> Option<String> {
    name(token).map(|name| String::from_utf8_lossy(&name).into_owned())
}

fn unnamed_column() -> String {
    UNNAMED_COLUMN.to_owned()
}

/// Names of the columns of a list that begins here.
fn list_columns(tokens: &[Token<'_>]) -> Vec<String> {
    let ends_list = |token: &Token<'_>| token.is_one_of(&AFTER_SELECT_LIST);
    let end = top_level(tokens).find(|(_, token)| ends_list(token)).map_or(tokens.len(), |it| it.0);
    let list = &tokens[..end];
    let commas = top_level(list).filter(|(_, token)| token.is_sign(","));
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

/// PostgreSQL's name of an expression, in simple cases: its alias, the column, the function; a cast
/// has the name of its operand.
fn column_name(item: &[Token<'_>]) -> String {
    let cast = item.iter().position(|token| token.is_sign("::"));
    let has_alias = item.len() > 1 && item[item.len() - 2].is_word("AS");
    let item = match cast {
        Some(index) if !has_alias => &item[..index],
        _ => item,
    };
    let found = match item.last() {
        Some(last) if last.is_sign(")") => function_name(item),
        Some(last) => named(last),
        None => None,
    };
    found.unwrap_or_else(unnamed_column)
}

/// The name of a called function: the word before its first parenthesis, after a schema's name.
fn function_name(item: &[Token<'_>]) -> Option<String> {
    let bracket = item.iter().position(|token| token.is_sign("("))?;
    match &item[..bracket] {
        [function] => named(function),
        [_, dot, function] if dot.is_sign(".") => named(function),
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
        let function = "create function f() returns int begin atomic select 1; select 2; end";
        assert_eq!(statements(&format!("{function}; select 3")), [function, "select 3"]);
    }

    #[test]
    fn a_select_has_the_columns_of_its_list() {
        assert_eq!(columns("SELECT abalance FROM t WHERE aid = 1;"), names(&["abalance"]));
        assert_eq!(columns("select count(*) from t"), names(&["count"]));
        assert_eq!(
            columns("select o.n, \"P\".\"Strat\", pg_catalog.f(a, b) as c, 1, x::int, 1::text y"),
            names(&["n", "Strat", "c", "?column?", "x", "y"]).map(|mut wanted| {
                // A cast's own alias without AS is not supported.
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
        assert_eq!(
            columns("select 1 as \"a\"\"b\", 'x', 1.5"),
            names(&["a\"b", UNNAMED_COLUMN, UNNAMED_COLUMN])
        );
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
