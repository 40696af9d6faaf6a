//! Reads a trace, row group by row group.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use seatrial_columnar::cells::{Cells, guarded};
use seatrial_sqltext::lexer::class::Class;
use seatrial_sqltext::lexer::form::Filling;

use super::rows::{LITERAL, NULL, PARAMETER, PRESENT, PRESENT_OPTIONAL};
use super::schema::{self, Column, PROTOCOLS, SKIPS};
use super::{Counts, TraceError};
use crate::captured::{Returned, Session, SessionId, Statement};

/// Rows that are in memory at once.
const BATCH_ROWS: usize = 1 << 10;

/// Which columns of a statement are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    /// All of them.
    All,
    /// All but the text, the parameters, the prepared name and what was returned, which are empty
    /// then.
    Figures,
}

/// A trace that is read.
pub struct TraceReader {
    path: PathBuf,
    file: SerializedFileReader<File>,
    counts: Counts,
    origin: serde_json::Value,
    is_masked: bool,
}

/// A statement of a trace, and what its text says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traced<'a> {
    /// The statement.
    pub statement: Statement<'a>,
    /// Hash of its fingerprint.
    pub fingerprint: u64,
    /// Text of its fingerprint.
    pub text: &'a [u8],
    /// What kind of statement it is.
    pub class: Class,
    /// Statements in its text.
    pub statements: u32,
}

impl TraceReader {
    /// Opens a trace and reads what it says of itself.
    ///
    /// # Errors
    ///
    /// When it cannot be opened, or is not a trace of this version.
    pub fn open(path: &Path) -> Result<TraceReader, TraceError> {
        let io = |source| TraceError::Io { path: path.to_path_buf(), action: "opened", source };
        let not = |reason: String| TraceError::NotATrace { path: path.to_path_buf(), reason };
        let opened = File::open(path).map_err(io)?;
        let file = guarded(|| SerializedFileReader::new(opened))
            .map_err(|error| not(error.to_string()))?;
        let about = file.metadata().file_metadata();
        let value = |key: &str| {
            let found = about.key_value_metadata()?.iter().find(|pair| pair.key == key)?;
            found.value.clone()
        };
        let version = value(schema::VERSION_KEY)
            .ok_or_else(|| not(format!("it is a Parquet file without {}", schema::VERSION_KEY)))?;
        if !schema::VERSIONS.contains(&version.as_str()) {
            return Err(TraceError::Version { path: path.to_path_buf(), found: version });
        }
        let damaged = |error: &dyn ToString| TraceError::damaged(path, error.to_string());
        let expected = schema::schema(&version).map_err(|error| damaged(&error))?;
        if about.schema() != expected.as_ref() {
            return Err(damaged(&"its columns are not those of its version"));
        }
        let text = |key: &str| {
            value(key).ok_or_else(|| TraceError::damaged(path, format!("{key} is missing")))
        };
        let counts = serde_json::from_str(&text(schema::COUNTS_KEY)?).map_err(|e| damaged(&e))?;
        let origin = serde_json::from_str(&text(schema::ORIGIN_KEY)?).map_err(|e| damaged(&e))?;
        let is_masked = text(schema::MASKED_KEY)? == "true";
        Ok(TraceReader { path: path.to_path_buf(), file, counts, origin, is_masked })
    }

    /// Its totals.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Its origin and its totals, as given to the writer.
    pub fn origin(&self) -> &serde_json::Value {
        &self.origin
    }

    /// Whether literals and parameters are stand-ins.
    pub fn is_masked(&self) -> bool {
        self.is_masked
    }

    /// The sessions by their number, as they were known at last.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or is damaged.
    pub fn sessions(&self) -> Result<Vec<Session>, TraceError> {
        let mut sessions: Vec<Session> = Vec::new();
        self.each_session(|id, session| match sessions.get_mut(id.0 as usize) {
            Some(known) => *known = session,
            None => sessions.push(session),
        })?;
        Ok(sessions)
    }

    /// Every row of a session; a later one of the same number replaces an earlier one. A session is
    /// first seen in the order of the numbers.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or is damaged.
    pub fn each_session(&self, mut take: impl FnMut(SessionId, Session)) -> Result<(), TraceError> {
        let mut seen = 0u64;
        let mut is_in_order = true;
        let mut take_in_order = |id: SessionId, session| {
            is_in_order &= u64::from(id.0) <= seen;
            seen = seen.max(u64::from(id.0) + 1);
            if is_in_order {
                take(id, session);
            }
        };
        let groups = (0..self.file.num_row_groups()).filter(|&group| self.holds_sessions(group));
        for group in groups {
            let read =
                || session_rows(self.file.get_row_group(group)?.as_ref(), &mut take_in_order);
            guarded(read).map_err(|error| TraceError::damaged(&self.path, error))?;
        }
        if is_in_order && seen == self.counts.sessions {
            return Ok(());
        }
        Err(TraceError::damaged(&self.path, "sessions are missing"))
    }

    /// The statements, in the order of the log.
    pub fn statements(&self, columns: Columns) -> Statements<'_> {
        Statements {
            trace: self,
            columns,
            next_group: 0,
            group_rows: 0,
            batch_rows: 0,
            read: 0,
            cells: None,
            sql: Vec::new(),
            parameters: Vec::new(),
            returned: Returned::default(),
        }
    }

    /// Whether a row group holds sessions, according to its statistics.
    fn holds_sessions(&self, group: usize) -> bool {
        let group = self.file.metadata().row_group(group);
        let statistics = group.column(Column::Start as usize).statistics();
        let nulls = statistics.and_then(|statistics| statistics.null_count_opt());
        nulls.is_some_and(|nulls| nulls > 0)
    }
}

fn session_rows(
    group: &dyn RowGroupReader,
    take: &mut impl FnMut(SessionId, Session),
) -> ParquetResult<()> {
    let rows = group.metadata().num_rows() as usize;
    let texts = |column: Column| texts(group, column);
    let mut ids = Cells::<Int32Type>::of(column(group, Column::SessionId)?, PRESENT)?;
    let mut names = texts(Column::SessionName)?;
    let mut users = texts(Column::SessionUser)?;
    let mut databases = texts(Column::SessionDatabase)?;
    let mut applications = texts(Column::SessionApplication)?;
    let time = |name| Cells::<Int64Type>::of(column(group, name)?, PRESENT_OPTIONAL);
    let mut connected = time(Column::SessionConnected)?;
    let mut disconnected = time(Column::SessionDisconnected)?;
    ids.fill(rows)?;
    for column in [&mut names, &mut users, &mut databases, &mut applications] {
        column.fill(rows)?;
    }
    connected.fill(rows)?;
    disconnected.fill(rows)?;
    for _ in 0..rows {
        let session = Session {
            name: names.required()?.data().to_vec(),
            user: users.required()?.data().to_vec(),
            database: databases.required()?.data().to_vec(),
            application: applications.required()?.data().to_vec(),
            connected_us: connected.optional()?.copied(),
            disconnected_us: disconnected.optional()?.copied(),
        };
        take(SessionId(*ids.required()? as u32), session);
    }
    Ok(())
}

fn column(
    group: &dyn RowGroupReader,
    column: Column,
) -> ParquetResult<parquet::column::reader::ColumnReader> {
    group.get_column_reader(column as usize)
}

fn texts(group: &dyn RowGroupReader, name: Column) -> ParquetResult<Cells<ByteArrayType>> {
    Cells::of(column(group, name)?, PRESENT)
}

/// The statements of a trace, one after the other.
pub struct Statements<'t> {
    trace: &'t TraceReader,
    columns: Columns,
    next_group: usize,
    /// Rows of the row group that are yet to be read from the file.
    group_rows: usize,
    /// Rows of the batch that are yet to be given.
    batch_rows: usize,
    read: u64,
    cells: Option<StatementCells>,
    sql: Vec<u8>,
    parameters: Vec<Option<Vec<u8>>>,
    returned: Returned,
}

impl Statements<'_> {
    /// The next statement; None at the end.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or is damaged.
    pub fn next_statement(&mut self) -> Result<Option<Traced<'_>>, TraceError> {
        let path = &self.trace.path;
        let damaged = |error: ParquetError| TraceError::damaged(path, error);
        while self.batch_rows == 0 {
            if self.group_rows == 0 && !guarded(|| self.open_group()).map_err(damaged)? {
                return self.end().map(|()| None);
            }
            self.fill().map_err(damaged)?;
        }
        self.batch_rows -= 1;
        self.read += 1;
        let Some(cells) = self.cells.as_mut() else { return Ok(None) };
        let traced =
            cells.row(&mut self.sql, &mut self.parameters, &mut self.returned).map_err(damaged)?;
        if u64::from(traced.statement.session.0) >= self.trace.counts.sessions {
            return Err(TraceError::damaged(path, "a statement's session is missing"));
        }
        Ok(Some(traced))
    }

    /// Opens the next row group of statements; false if there is none.
    fn open_group(&mut self) -> ParquetResult<bool> {
        let groups = self.trace.file.num_row_groups();
        while self.next_group < groups && self.trace.holds_sessions(self.next_group) {
            self.next_group += 1;
        }
        if self.next_group >= groups {
            return Ok(false);
        }
        let group = self.trace.file.get_row_group(self.next_group)?;
        self.next_group += 1;
        self.group_rows = group.metadata().num_rows() as usize;
        self.cells = Some(StatementCells::of(group.as_ref(), self.columns)?);
        Ok(true)
    }

    fn fill(&mut self) -> ParquetResult<()> {
        self.batch_rows = self.group_rows.min(BATCH_ROWS);
        self.group_rows -= self.batch_rows;
        self.cells.as_mut().map_or(Ok(()), |cells| cells.fill(self.batch_rows))
    }

    fn end(&self) -> Result<(), TraceError> {
        let stated = self.trace.counts.statements;
        if self.read == stated {
            return Ok(());
        }
        let reason = format!("it has {} statements and should have {stated}", self.read);
        Err(TraceError::damaged(&self.trace.path, reason))
    }
}

/// The columns of a row group of statements.
struct StatementCells {
    session: Cells<Int32Type>,
    start: Cells<Int64Type>,
    duration: Cells<Int64Type>,
    protocol: Cells<ByteArrayType>,
    fingerprint: Cells<Int64Type>,
    text: Cells<ByteArrayType>,
    class: Cells<ByteArrayType>,
    statements: Cells<Int32Type>,
    sql: Option<SqlCells>,
    transaction: Cells<Int64Type>,
    rows: Cells<Int64Type>,
    error: Cells<ByteArrayType>,
    skip: Cells<ByteArrayType>,
    /// None in a trace of version 1.
    tag: Option<Cells<ByteArrayType>>,
    /// None in a trace of version 1 or 2.
    reported_meanwhile: Option<Cells<Int64Type>>,
    /// None in a trace before version 4.
    parameter_types: Option<Cells<ByteArrayType>>,
}

/// Those that are left out where only figures are wanted.
struct SqlCells {
    prepared: Cells<ByteArrayType>,
    form: Cells<ByteArrayType>,
    literals: Cells<ByteArrayType>,
    parameters: Cells<ByteArrayType>,
    /// Columns and values; None in a trace of version 1.
    returned: Option<[Cells<ByteArrayType>; 2]>,
}

impl StatementCells {
    fn of(group: &dyn RowGroupReader, columns: Columns) -> ParquetResult<StatementCells> {
        let number = |name, full| Cells::of(column(group, name)?, full);
        let small = |name| Cells::of(column(group, name)?, PRESENT);
        let text = |name, full| Cells::of(column(group, name)?, full);
        let is_first = group.num_columns() <= Column::Tag as usize;
        let returned = || -> ParquetResult<_> {
            let columns = text(Column::ReturnedColumns, LITERAL)?;
            Ok([columns, text(Column::ReturnedValues, PARAMETER)?])
        };
        let sql = || -> ParquetResult<SqlCells> {
            Ok(SqlCells {
                prepared: text(Column::Prepared, PRESENT)?,
                form: text(Column::Form, PRESENT)?,
                literals: text(Column::Literals, LITERAL)?,
                parameters: text(Column::Parameters, PARAMETER)?,
                returned: if is_first { None } else { Some(returned()?) },
            })
        };
        Ok(StatementCells {
            session: small(Column::Session)?,
            start: number(Column::Start, PRESENT)?,
            duration: number(Column::Duration, PRESENT_OPTIONAL)?,
            protocol: text(Column::Protocol, PRESENT)?,
            fingerprint: number(Column::Fingerprint, PRESENT)?,
            text: text(Column::Text, PRESENT)?,
            class: text(Column::Class, PRESENT)?,
            statements: small(Column::Statements)?,
            sql: if columns == Columns::All { Some(sql()?) } else { None },
            transaction: number(Column::Transaction, PRESENT)?,
            rows: number(Column::Rows, PRESENT_OPTIONAL)?,
            error: text(Column::Error, PRESENT_OPTIONAL)?,
            skip: text(Column::Skip, PRESENT_OPTIONAL)?,
            tag: if is_first { None } else { Some(text(Column::Tag, PRESENT_OPTIONAL)?) },
            reported_meanwhile: if group.num_columns() <= Column::ReportedMeanwhile as usize {
                None
            } else {
                Some(number(Column::ReportedMeanwhile, PRESENT_OPTIONAL)?)
            },
            parameter_types: if group.num_columns() <= Column::ParameterTypes as usize {
                None
            } else {
                Some(text(Column::ParameterTypes, PRESENT_OPTIONAL)?)
            },
        })
    }

    fn fill(&mut self, rows: usize) -> ParquetResult<()> {
        self.session.fill(rows)?;
        self.statements.fill(rows)?;
        let numbers = [
            &mut self.start,
            &mut self.duration,
            &mut self.fingerprint,
            &mut self.transaction,
            &mut self.rows,
        ];
        for column in numbers.into_iter().chain(&mut self.reported_meanwhile) {
            column.fill(rows)?;
        }
        let texts =
            [&mut self.protocol, &mut self.text, &mut self.class, &mut self.error, &mut self.skip];
        for column in texts.into_iter().chain(&mut self.tag).chain(&mut self.parameter_types) {
            column.fill(rows)?;
        }
        let Some(sql) = &mut self.sql else { return Ok(()) };
        let texts = [&mut sql.prepared, &mut sql.form, &mut sql.literals, &mut sql.parameters];
        let mut all = texts.into_iter().chain(sql.returned.iter_mut().flatten());
        all.try_for_each(|column| column.fill(rows))
    }

    fn row<'a>(
        &'a mut self,
        text: &'a mut Vec<u8>,
        parameters: &'a mut Vec<Option<Vec<u8>>>,
        returned: &'a mut Returned,
    ) -> ParquetResult<Traced<'a>> {
        let prepared = match &mut self.sql {
            Some(sql) => sql.next(text, parameters, returned)?,
            None => &[],
        };
        let tag = self.tag.as_mut().map(Cells::optional).transpose()?.flatten();
        let parameter_types =
            self.parameter_types.as_mut().map(Cells::optional).transpose()?.flatten();
        let reported_meanwhile =
            self.reported_meanwhile.as_mut().map(Cells::optional).transpose()?;
        let skip = self.skip.optional()?.map(|name| known(schema::named(&SKIPS, name.data())));
        let protocol = schema::named(&PROTOCOLS, self.protocol.required()?.data());
        let error = self.error.optional()?.map(|code| known(code.data().try_into().ok()));
        Ok(Traced {
            statement: Statement {
                session: SessionId(*self.session.required()? as u32),
                start_us: *self.start.required()?,
                duration_us: self.duration.optional()?.map(|&duration_us| duration_us as u64),
                reported_meanwhile: reported_meanwhile.flatten().map(|&count| count as u64),
                protocol: known(protocol)?,
                prepared,
                sql: text,
                parameters,
                parameter_types: parameter_types.map(ByteArray::data),
                transaction: *self.transaction.required()? as u64,
                rows: self.rows.optional()?.map(|&rows| rows as u64),
                tag: tag.map(ByteArray::data),
                returned: Some(&*returned).filter(|returned| !returned.columns.is_empty()),
                error: error.transpose()?,
                skip: skip.transpose()?,
            },
            fingerprint: *self.fingerprint.required()? as u64,
            text: self.text.required()?.data(),
            class: known(Class::of_name(self.class.required()?.data()))?,
            statements: *self.statements.required()? as u32,
        })
    }
}

impl SqlCells {
    /// Puts the text, the parameters and the rows of the next row together; gives the prepared
    /// name.
    fn next(
        &mut self,
        text: &mut Vec<u8>,
        parameters: &mut Vec<Option<Vec<u8>>>,
        returned: &mut Returned,
    ) -> ParquetResult<&[u8]> {
        let form: &ByteArray = self.form.required()?;
        let mut filling = Filling::of(text, form.data());
        let mut has_gaps = true;
        self.literals.next_list(NULL, |literal| {
            has_gaps &= literal.is_none_or(|literal| filling.fill(literal));
        })?;
        if !(filling.end() && has_gaps) {
            return Err(ParquetError::General("a form has another number of gaps".to_owned()));
        }
        let mut count = 0;
        self.parameters.next_list(NULL, |value| {
            match (parameters.get_mut(count), value) {
                (Some(Some(room)), Some(value)) => {
                    room.clear();
                    room.extend_from_slice(value);
                }
                (Some(room), value) => *room = value.map(<[u8]>::to_vec),
                (None, value) => parameters.push(value.map(<[u8]>::to_vec)),
            }
            count += 1;
        })?;
        parameters.truncate(count);
        if let Some([columns, values]) = &mut self.returned {
            next_returned(columns, values, returned)?;
        }
        Ok(self.prepared.required()?.data())
    }
}

/// Takes what the next row's statement returned.
fn next_returned(
    columns: &mut Cells<ByteArrayType>,
    values: &mut Cells<ByteArrayType>,
    returned: &mut Returned,
) -> ParquetResult<()> {
    returned.columns.clear();
    returned.rows.clear();
    columns.next_list(NULL, |name| returned.columns.extend(name.map(<[u8]>::to_vec)))?;
    let width = returned.columns.len();
    let mut row = Vec::new();
    values.next_list(NULL, |value| {
        row.push(value.map(<[u8]>::to_vec));
        if row.len() == width {
            returned.rows.push(std::mem::take(&mut row));
        }
    })?;
    if row.is_empty() {
        return Ok(());
    }
    Err(ParquetError::General("rows that were returned have another number of columns".to_owned()))
}

fn known<T>(value: Option<T>) -> ParquetResult<T> {
    value.ok_or_else(|| ParquetError::General("a word in it means nothing".to_owned()))
}
