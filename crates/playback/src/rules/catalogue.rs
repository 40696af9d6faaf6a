//! What changes the catalogue, and whether only what is temporary is concerned.

use seatrial_sqltext::lexer::name::{name, unquoted};
use seatrial_sqltext::lexer::phrase::{passed, qualified};
use seatrial_sqltext::lexer::token::{Kind, Token};

use super::session_objects::ObjectChange;
use super::statement::Look;
use crate::item::Danger;

/// What temporary things there are that have names of their own.
const TEMPORARY: [&str; 4] = ["table", "view", "sequence", "index"];

/// CREATE.
pub fn create(look: &mut Look<'_>, tokens: &[Token<'_>]) {
    look.found.writes = true;
    let modifiers = ["or", "replace", "global", "local", "recursive"];
    let mut place = passed(tokens, 1, &modifiers);
    let is_temporary = tokens.get(place).is_some_and(is_temp);
    place = passed(tokens, place + usize::from(is_temporary), &["recursive", "unique"]);
    let rest = tokens.get(place..).unwrap_or_default();
    let Some(kind) = rest.first() else { return look.ddl() };
    if kind.is_word("index") {
        return create_index(look, rest);
    }
    let (made, behind) = qualified(rest, passed(rest, 1, &["if", "not", "exists"]));
    let is_in_pg_temp = made.len() == 2 && made[0] == b"pg_temp";
    let is_own = kind.is_one_of(&TEMPORARY) && (is_temporary || is_in_pg_temp);
    if is_own {
        let until_end = rest[behind..].windows(3).any(|three| {
            three[0].is_word("on") && three[1].is_word("commit") && three[2].is_word("drop")
        });
        look.effect(made.into_iter().last().map(|name| ObjectChange::Makes { name, until_end }));
        return;
    }
    look.ddl();
    reach(look, rest);
    for token in rest.iter().filter(|token| token.kind == Kind::Text) {
        look.body(&unquoted(token.text));
    }
}

/// `CREATE INDEX name ON table`: as temporary as its table. The name is not remembered: it goes
/// with the table, and may be another's then.
fn create_index(look: &mut Look<'_>, tokens: &[Token<'_>]) {
    let Some(on) = tokens.iter().position(|token| token.is_word("on")) else { return look.ddl() };
    let (table, _) = qualified(tokens, passed(tokens, on + 1, &["only"]));
    if !is_own(look, &table) {
        look.ddl();
    }
}

/// ALTER.
pub fn alter(look: &mut Look<'_>, tokens: &[Token<'_>]) {
    let Some(kind) = tokens.get(1) else { return look.ddl() };
    if kind.is_word("system") {
        look.found.writes = true;
        return look.found.dangers.add(Danger::Server);
    }
    if kind.is_one_of(&TEMPORARY) {
        let (altered, behind) = qualified(tokens, passed(tokens, 2, &["if", "exists", "only"]));
        // Under another name or in another schema it would be taken for something else.
        let is_moved = tokens[behind..].iter().any(|token| token.is_one_of(&["rename", "schema"]));
        if is_own(look, &altered) && !is_moved {
            look.found.writes = true;
            return;
        }
    }
    look.ddl();
    reach(look, &tokens[1..]);
}

/// DROP.
pub fn drop(look: &mut Look<'_>, tokens: &[Token<'_>]) {
    let kind = tokens.get(1);
    let at = passed(tokens, 2, &["concurrently", "if", "exists"]);
    if kind.is_some_and(|kind| kind.is_one_of(&TEMPORARY)) {
        return all_of(look, tokens, at, true);
    }
    look.ddl();
    reach(look, tokens.get(1..).unwrap_or_default());
}

/// TRUNCATE.
pub fn truncate(look: &mut Look<'_>, tokens: &[Token<'_>]) {
    all_of(look, tokens, passed(tokens, 1, &["table"]), false);
}

/// `SELECT ... INTO [TEMPORARY | UNLOGGED] [TABLE] name`.
pub fn select_into(look: &mut Look<'_>, tokens: &[Token<'_>]) {
    let mut depth = 0i64;
    let into = tokens.iter().position(|token| {
        depth += i64::from(token.is_sign("(")) - i64::from(token.is_sign(")"));
        depth <= 0 && token.is_word("into")
    });
    let Some(into) = into else { return };
    look.found.writes = true;
    let place = passed(tokens, into + 1, &["local", "global"]);
    let is_temporary = tokens.get(place).is_some_and(is_temp);
    let (made, _) = qualified(tokens, passed(tokens, place, &["temp", "temporary", "table"]));
    let made = made.into_iter().last().filter(|_| is_temporary);
    match made {
        Some(name) => look.effect(Some(ObjectChange::Makes { name, until_end: false })),
        None => look.ddl(),
    }
}

/// What is done to all of the names from a place on: no danger where each is temporary.
fn all_of(look: &mut Look<'_>, tokens: &[Token<'_>], mut place: usize, drops: bool) {
    look.found.writes = true;
    loop {
        let (named, behind) = qualified(tokens, passed(tokens, place, &["only"]));
        let is_own = is_own(look, &named);
        let is_last = !tokens.get(behind).is_some_and(|token| token.is_sign(","));
        if drops {
            look.effect(named.into_iter().last().map(ObjectChange::Drops));
        }
        if !is_own {
            look.ddl();
        }
        if is_last {
            return;
        }
        place = behind + 1;
    }
}

/// Whether a name, with its schema, is certainly that of something temporary.
fn is_own(look: &Look<'_>, name: &[Vec<u8>]) -> bool {
    match name {
        [name] => look.objects.is_temporary(name, look.transaction),
        [schema, _] => schema == b"pg_temp",
        _ => false,
    }
}

/// What reaches beyond the database: other servers, and what all databases of a server have.
fn reach(look: &mut Look<'_>, kind: &[Token<'_>]) {
    let is =
        |place: usize, words: &[&str]| kind.get(place).is_some_and(|token| token.is_one_of(words));
    let is_mapping = is(0, &["user"]) && is(1, &["mapping"]);
    let is_extension = is(0, &["extension"])
        && kind
            .iter()
            .filter_map(name)
            .any(|name| name.starts_with(b"dblink") || name.ends_with(b"_fdw"));
    if is_mapping || is_extension || is(0, &["server", "foreign", "subscription"]) {
        look.found.dangers.add(Danger::Dblink);
    } else if is(0, &["role", "user", "group", "database", "tablespace"]) {
        look.found.dangers.add(Danger::Server);
    }
}

fn is_temp(token: &Token<'_>) -> bool {
    token.is_one_of(&["temp", "temporary"])
}
