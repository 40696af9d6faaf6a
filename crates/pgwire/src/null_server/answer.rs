//! The null server's answer to a statement, as if it had been executed.

use seatrial_sqltext::statements::{Control, control};

use super::reply::{self, Value};
use super::sql::{self, StatementShape};

/// The answer to one statement, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// `RowDescription`; empty where no rows are returned.
    pub description: Vec<u8>,
    /// Rows and `CommandComplete`, or the error.
    pub result: Vec<u8>,
    /// Its effect on the transaction.
    pub control: Control,
    /// Whether it is an error.
    pub has_failed: bool,
    /// Number of parameters of the statement.
    pub parameters: u16,
}

/// The answer to a statement, or to an empty query.
pub fn answer_to(statement: &str, server_version: &str) -> Answer {
    let mut answer = Answer {
        description: Vec::new(),
        result: Vec::new(),
        control: Control::None,
        has_failed: false,
        parameters: 0,
    };
    let Some(shape) = sql::shape_of(statement) else {
        reply::bare(&mut answer.result, b'I');
        return answer;
    };
    answer.parameters = shape.parameters;
    if shape.verb == "COPY" {
        let sentence = "the null server takes no COPY";
        reply::error(&mut answer.result, "ERROR", "0A000", sentence);
        answer.has_failed = true;
        return answer;
    }
    if let Some(columns) = &shape.columns {
        reply::row_description(&mut answer.description, columns);
        reply::data_row(&mut answer.result, &row(statement, columns, server_version));
    }
    reply::complete(&mut answer.result, tag(&shape));
    answer.control = control(statement.as_bytes());
    answer
}

/// One row: a 1 in each column, so that `count(*)` of pgbench's branches means scale 1.
fn row(statement: &str, columns: &[String], server_version: &str) -> Vec<Value> {
    // pgbench queries the partitioning of its accounts: none.
    if statement.contains("pg_partitioned_table") && columns.len() == 3 {
        return vec![Some("1".to_owned()), None, Some("0".to_owned())];
    }
    let value = |column: &String| match column.as_str() {
        "server_version" => server_version.to_owned(),
        "server_version_num" => version_number(server_version).unwrap_or(0).to_string(),
        "version" => format!("PostgreSQL {server_version} (the null server of Seatrial)"),
        _ => "1".to_owned(),
    };
    columns.iter().map(|column| Some(value(column))).collect()
}

fn tag(shape: &StatementShape) -> &str {
    match shape.verb.as_str() {
        "SELECT" | "VALUES" | "TABLE" => "SELECT 1",
        "INSERT" => "INSERT 0 1",
        "UPDATE" => "UPDATE 1",
        "DELETE" => "DELETE 1",
        "MERGE" => "MERGE 1",
        "END" => "COMMIT",
        "ABORT" => "ROLLBACK",
        "START" => "START TRANSACTION",
        "TRUNCATE" => "TRUNCATE TABLE",
        verb => verb,
    }
}

/// A version as one number, as in the setting `server_version_num`: 15.20 is 150020, 9.6.24 is
/// 90624; `None` if the text does not begin with a number.
pub fn version_number(server_version: &str) -> Option<u32> {
    let end = server_version
        .find(|sign: char| !sign.is_ascii_digit() && sign != '.')
        .unwrap_or(server_version.len());
    let mut parts = server_version[..end].split('.').map(|part| part.parse::<u32>().ok());
    let major = parts.next()??;
    let mut part = || parts.next().flatten().unwrap_or(0);
    let (second, third) = (part(), part());
    let rest = if major >= 10 { second } else { 100 * second + third };
    major.checked_mul(10_000)?.checked_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbered_as_postgresql_does() {
        let cases =
            [("15.20", 150_020), ("18.6", 180_006), ("9.6.24", 90_624), ("19beta1", 190_000)];
        for (version, number) in cases {
            assert_eq!(version_number(version), Some(number), "{version}");
        }
        assert_eq!(version_number("new"), None);
        assert_eq!(version_number(""), None);
    }

    #[test]
    fn a_transaction_begins_and_ends_with_its_words() {
        let ends = |is_undone, is_chained| Control::End { is_undone, is_chained };
        let controls = [
            ("begin", Control::Begin),
            ("START TRANSACTION READ ONLY", Control::Begin),
            ("END", ends(false, false)),
            ("commit work", ends(false, false)),
            ("commit and chain", ends(false, true)),
            ("prepare transaction 'x'", ends(false, false)),
            ("commit prepared 'x'", Control::EndPrepared),
            ("rollback", ends(true, false)),
            ("ROLLBACK TO here", Control::RollBackTo),
            ("savepoint here", Control::None),
        ];
        for (statement, control) in controls {
            let answer = answer_to(statement, "15.0");
            assert_eq!((answer.control, answer.has_failed), (control, false), "{statement}");
        }
        assert!(answer_to("copy t from stdin", "15.0").has_failed);
    }
}
