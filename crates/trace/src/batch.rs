//! Statements of a part of a row group, before they become rows.

use crate::captured::{Protocol, Returned, SessionId, Skip, Statement};
use crate::schema::{ROWS_MAX, TEXT_BYTES_MAX};

/// What a batch holds at most, and one statement more: it stays in a processor's cache.
const BATCH_ROWS_MAX: usize = 2 << 10;
const BATCH_TEXT_BYTES_MAX: usize = 256 << 10;

/// Rows and text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extent {
    rows: usize,
    text_bytes: usize,
}

impl Extent {
    pub fn of(statement: &Statement<'_>) -> Extent {
        let parameters = statement.parameters.iter().flatten();
        let returned = statement.returned.map_or(&[][..], |returned| &returned.rows);
        let text_bytes = statement.prepared.len()
            + statement.sql.len()
            + statement.parameter_types.map_or(0, <[u8]>::len)
            + statement.tag.map_or(0, <[u8]>::len)
            + parameters.chain(returned.iter().flatten().flatten()).map(Vec::len).sum::<usize>();
        Extent { rows: 1, text_bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub fn plus(self, other: Extent) -> Extent {
        Extent { rows: self.rows + other.rows, text_bytes: self.text_bytes + other.text_bytes }
    }

    /// Whether it is as large as a row group: this depends on statements only.
    pub fn fills_row_group(&self) -> bool {
        self.rows >= ROWS_MAX || self.text_bytes >= TEXT_BYTES_MAX
    }
}

/// Length of a parameter that is NULL.
const NULL: u32 = u32::MAX;

/// A statement; its texts are consecutive in the batch. No text of a server has 4 GiB.
#[derive(Debug)]
struct BatchedStatement {
    session: SessionId,
    start_us: i64,
    duration_us: Option<u64>,
    reported_meanwhile: Option<u64>,
    protocol: Protocol,
    prepared_bytes: u32,
    sql_bytes: u32,
    parameters: u32,
    types_bytes: Option<u32>,
    transaction: u64,
    rows: Option<u64>,
    tag_bytes: Option<u32>,
    returned: Option<Box<Returned>>,
    error: Option<[u8; 5]>,
    skip: Option<Skip>,
}

/// Statements of a part of one row group.
#[derive(Debug, Default)]
pub struct Batch {
    statements: Vec<BatchedStatement>,
    text: Vec<u8>,
    /// Length of each parameter.
    parameters_bytes: Vec<u32>,
    extent: Extent,
}

impl Batch {
    /// Whether a builder should take it.
    pub fn is_full(&self) -> bool {
        let Extent { rows, text_bytes } = self.extent;
        rows >= BATCH_ROWS_MAX || text_bytes >= BATCH_TEXT_BYTES_MAX
    }

    /// Removes the statements, and keeps the memory, but for that of a very long one.
    pub fn clear(&mut self) {
        self.statements.clear();
        self.text.clear();
        self.text.shrink_to(4 * BATCH_TEXT_BYTES_MAX);
        self.parameters_bytes.clear();
        self.extent = Extent::default();
    }

    pub fn push(&mut self, statement: &Statement<'_>, extent: Extent) {
        self.extent = self.extent.plus(extent);
        self.text.extend_from_slice(statement.prepared);
        self.text.extend_from_slice(statement.sql);
        for parameter in statement.parameters {
            self.parameters_bytes.push(parameter.as_ref().map_or(NULL, |one| one.len() as u32));
            self.text.extend_from_slice(parameter.as_deref().unwrap_or_default());
        }
        self.text.extend_from_slice(statement.parameter_types.unwrap_or_default());
        self.text.extend_from_slice(statement.tag.unwrap_or_default());
        self.statements.push(BatchedStatement {
            session: statement.session,
            start_us: statement.start_us,
            duration_us: statement.duration_us,
            reported_meanwhile: statement.reported_meanwhile,
            protocol: statement.protocol,
            prepared_bytes: statement.prepared.len() as u32,
            sql_bytes: statement.sql.len() as u32,
            parameters: statement.parameters.len() as u32,
            types_bytes: statement.parameter_types.map(|types| types.len() as u32),
            transaction: statement.transaction,
            rows: statement.rows,
            tag_bytes: statement.tag.map(|tag| tag.len() as u32),
            returned: statement.returned.cloned().map(Box::new),
            error: statement.error,
            skip: statement.skip,
        });
    }

    /// Passes all statements in their order.
    pub fn for_each(&self, mut take: impl FnMut(&Statement<'_>)) {
        let mut text = &self.text[..];
        let mut parameters_bytes = self.parameters_bytes.iter();
        let mut parameters: Vec<Option<Vec<u8>>> = Vec::new();
        for batched in &self.statements {
            let prepared = next(&mut text, batched.prepared_bytes);
            let sql = next(&mut text, batched.sql_bytes);
            parameters.clear();
            parameters.extend(
                parameters_bytes
                    .by_ref()
                    .take(batched.parameters as usize)
                    .map(|&bytes| (bytes != NULL).then(|| next(&mut text, bytes).to_vec())),
            );
            take(&Statement {
                session: batched.session,
                start_us: batched.start_us,
                duration_us: batched.duration_us,
                reported_meanwhile: batched.reported_meanwhile,
                protocol: batched.protocol,
                prepared,
                sql,
                parameters: &parameters,
                parameter_types: batched.types_bytes.map(|bytes| next(&mut text, bytes)),
                transaction: batched.transaction,
                rows: batched.rows,
                tag: batched.tag_bytes.map(|bytes| next(&mut text, bytes)),
                returned: batched.returned.as_deref(),
                error: batched.error,
                skip: batched.skip,
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
