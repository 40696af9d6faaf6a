//! Statements of one row group as they came in, until they become rows.

use crate::captured::{Protocol, Returned, SessionId, Skip, Statement};
use crate::schema::{ROWS_MAX, TEXT_BYTES_MAX};

/// Length of a parameter that is NULL.
const NULL: u32 = u32::MAX;

/// A statement, its texts in the batch one after the other. No text of a server has 4 GiB.
#[derive(Debug)]
struct Kept {
    session: SessionId,
    start_us: i64,
    duration_us: Option<u64>,
    reported_meanwhile: Option<u64>,
    protocol: Protocol,
    prepared_bytes: u32,
    sql_bytes: u32,
    parameters: u32,
    transaction: u64,
    rows: Option<u64>,
    tag_bytes: Option<u32>,
    returned: Option<Box<Returned>>,
    error: Option<[u8; 5]>,
    skip: Option<Skip>,
}

/// Statements of one row group.
#[derive(Debug, Default)]
pub struct Batch {
    kept: Vec<Kept>,
    text: Vec<u8>,
    /// Length of each parameter.
    parameters_bytes: Vec<u32>,
    returned_bytes: usize,
}

impl Batch {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Whether they are as many as a row group has: this depends on nothing but its statements.
    pub fn is_full(&self) -> bool {
        let text_bytes = self.text.len() + self.returned_bytes;
        self.kept.len() >= ROWS_MAX || text_bytes >= TEXT_BYTES_MAX
    }

    /// Adds a statement.
    pub fn push(&mut self, statement: &Statement<'_>) {
        self.text.extend_from_slice(statement.prepared);
        self.text.extend_from_slice(statement.sql);
        for parameter in statement.parameters {
            self.parameters_bytes.push(parameter.as_ref().map_or(NULL, |one| one.len() as u32));
            self.text.extend_from_slice(parameter.as_deref().unwrap_or_default());
        }
        self.text.extend_from_slice(statement.tag.unwrap_or_default());
        let returned = statement.returned.map_or(&[][..], |returned| &returned.rows);
        self.returned_bytes += returned.iter().flatten().flatten().map(Vec::len).sum::<usize>();
        self.kept.push(Kept {
            session: statement.session,
            start_us: statement.start_us,
            duration_us: statement.duration_us,
            reported_meanwhile: statement.reported_meanwhile,
            protocol: statement.protocol,
            prepared_bytes: statement.prepared.len() as u32,
            sql_bytes: statement.sql.len() as u32,
            parameters: statement.parameters.len() as u32,
            transaction: statement.transaction,
            rows: statement.rows,
            tag_bytes: statement.tag.map(|tag| tag.len() as u32),
            returned: statement.returned.cloned().map(Box::new),
            error: statement.error,
            skip: statement.skip,
        });
    }

    /// Gives back all statements in their order.
    pub fn for_each(&self, mut take: impl FnMut(&Statement<'_>)) {
        let mut text = &self.text[..];
        let mut parameters_bytes = self.parameters_bytes.iter();
        let mut parameters: Vec<Option<Vec<u8>>> = Vec::new();
        for kept in &self.kept {
            let prepared = next(&mut text, kept.prepared_bytes);
            let sql = next(&mut text, kept.sql_bytes);
            parameters.clear();
            parameters.extend(
                parameters_bytes
                    .by_ref()
                    .take(kept.parameters as usize)
                    .map(|&bytes| (bytes != NULL).then(|| next(&mut text, bytes).to_vec())),
            );
            take(&Statement {
                session: kept.session,
                start_us: kept.start_us,
                duration_us: kept.duration_us,
                reported_meanwhile: kept.reported_meanwhile,
                protocol: kept.protocol,
                prepared,
                sql,
                parameters: &parameters,
                transaction: kept.transaction,
                rows: kept.rows,
                tag: kept.tag_bytes.map(|bytes| next(&mut text, bytes)),
                returned: kept.returned.as_deref(),
                error: kept.error,
                skip: kept.skip,
            });
        }
    }
}

/// The next bytes of a text.
fn next<'a>(text: &mut &'a [u8], length_bytes: u32) -> &'a [u8] {
    let (first, rest) = text.split_at(length_bytes as usize);
    *text = rest;
    first
}
