//! A reading as a person reads it.

use std::fmt::Write;

use super::{catalog, parts};
use crate::reading::lookup::CatalogLookup;
use crate::reading::{
    Access, ColumnId, Object, Operand, RowAspect, StatementEffects, UseKind, ValueDraw,
    ValuePosition, ValueSource,
};

/// A reading in lines, each value as written in the text.
pub fn rendered(sql: &str, reading: &StatementEffects) -> String {
    let of = Of { sql };
    let mut lines: Vec<String> =
        reading.accesses.iter().map(|access| of.access(reading, access)).collect();
    lines.extend(reading.draws.iter().map(|draw| of.draw(draw)));
    lines.extend(reading.last_values.iter().map(|ask| {
        let of = ask.sequence.map_or("any".to_owned(), sequence_name);
        format!("ask {of} returned {}", ask.returned)
    }));
    let uses = reading.uses.iter().map(|one| {
        let kind = match one.kind {
            UseKind::Equal => "=",
            UseKind::Array => "= any",
            UseKind::Written => ":=",
            UseKind::Bound => "<",
            UseKind::Inside => "in",
        };
        format!("use {} {kind} {}", of.column(one.column), of.position(one.position))
    });
    lines.extend(uses);
    let parents = reading.parents.iter();
    lines.extend(
        parents.map(|&(of_, position)| {
            format!("parent {} = {}", of.column(of_), of.position(position))
        }),
    );
    lines.extend(
        reading.passed_values.iter().map(|&position| format!("hand {}", of.position(position))),
    );
    lines.extend(
        reading
            .sets
            .iter()
            .map(|set| format!("set {}", set.map_or("any".to_owned(), sequence_name))),
    );
    lines.extend(reading.volatile.iter().map(|one| format!("volatile {one:?}")));
    for (is_so, word) in [
        (reading.accesses_anything, "anything"),
        (reading.takes_returning, "takes returning"),
        (reading.is_by_names, "by names"),
        (reading.has_unknown_table, "unknown table"),
    ] {
        lines.extend(is_so.then(|| word.to_owned()));
    }
    lines.iter().fold(String::new(), |mut text, line| {
        writeln!(text, "    {line}").unwrap();
        text
    })
}

struct Of<'a> {
    sql: &'a str,
}

impl Of<'_> {
    fn access(&self, reading: &StatementEffects, access: &Access) -> String {
        let does = match (access.writes, access.aspect) {
            _ if matches!(access.object, Object::Unique(_)) && access.writes => "take",
            _ if matches!(access.object, Object::Unique(_)) => "free",
            (false, RowAspect::Later) => "check later",
            (false, RowAspect::All) => "read",
            (false, _) => "check",
            (true, RowAspect::All) => "write",
            (true, RowAspect::Values) => "change",
            (true, _) => "add",
        };
        let object = match access.object {
            Object::Table(table) => table_name(table),
            Object::Sequence(sequence) => sequence_name(sequence),
            Object::Unique(number) => unique_name(number),
            Object::Advisory => "advisory locks".to_owned(),
        };
        let key = access.key.map(|key| {
            let key = &reading.keys[usize::from(key)];
            let columns: Vec<String> = key.columns.iter().map(|&of| self.column(of)).collect();
            let rows: Vec<String> = key
                .rows
                .iter()
                .map(|row| row.iter().map(|&one| self.operand(one)).collect::<Vec<_>>().join(" "))
                .collect();
            format!(" [{}: {}]", columns.join(" "), rows.join(", "))
        });
        format!("{does} {object}{}", key.unwrap_or_default())
    }

    fn draw(&self, draw: &ValueDraw) -> String {
        let source = match draw.source {
            ValueSource::Sequence(sequence) => sequence_name(sequence),
            ValueSource::Random => "random".to_owned(),
            ValueSource::Time => "time".to_owned(),
        };
        let mut text = format!("draw {source}");
        if let Some(column) = draw.column {
            write!(text, " for {}", self.column(column)).unwrap();
        }
        match (draw.count, draw.each_of) {
            (Some(count), _) => write!(text, " x {count}").unwrap(),
            (None, Some(position)) => {
                write!(text, " x each of {}", self.position(position)).unwrap()
            }
            (None, None) => text += " x ?",
        }
        if draw.may_conflict {
            text += " or none";
        }
        if let Some(at) = draw.returned {
            write!(text, " returned {at}").unwrap();
        }
        text
    }

    fn column(&self, of: ColumnId) -> String {
        let column = &catalog().tables[of.table].columns[of.column];
        format!("{}.{}", table_name(of.table), column.name)
    }

    fn operand(&self, one: Operand) -> String {
        let position = self.position(one.position());
        if matches!(one, Operand::AnyOf(_)) { format!("any of {position}") } else { position }
    }

    fn position(&self, position: ValuePosition) -> String {
        match position {
            ValuePosition::Literal(at) => {
                let range = parts(self.sql).literals().nth(at as usize).unwrap();
                self.sql[range].to_owned()
            }
            ValuePosition::Parameter(at) => format!("${}", at + 1),
        }
    }
}

fn table_name(table: usize) -> String {
    let table = &catalog().tables[table];
    if table.schema == "public" {
        table.name.clone()
    } else {
        format!("{}.{}", table.schema, table.name)
    }
}

fn sequence_name(sequence: usize) -> String {
    catalog().sequences[sequence].name.clone()
}

/// What keeps rows apart, by the columns that it depends on.
fn unique_name(number: usize) -> String {
    let lookup = CatalogLookup::new(catalog());
    let mut all = (0..catalog().tables.len()).flat_map(|table| lookup.unique(table));
    let (_, one) = all.find(|(at, _)| *at == number).unwrap();
    let columns: Vec<&str> = one
        .columns
        .iter()
        .map(|of| lookup.table(of.table).unwrap().columns[of.column].name.as_str())
        .collect();
    format!("{}({})", table_name(one.columns[0].table), columns.join(" "))
}
