//! Functions with effects, by their names.

use crate::item::UnsafeOperation;

/// The effect of a function call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEffect {
    /// It reaches beyond the database.
    UnsafeOperation(UnsafeOperation),
    /// It changes a sequence or a large object.
    Writes,
    /// It returns what the session wrote before.
    AfterWrite,
    /// It changes a setting.
    Setting,
    /// It runs a text as a query.
    Query,
}

/// Functions of the server. `pg_stat_reset...` and `pg_ls_...` are recognized by their prefix.
const SERVER: [&str; 35] = [
    "lo_export",
    "lo_import",
    "pg_backup_start",
    "pg_backup_stop",
    "pg_copy_logical_replication_slot",
    "pg_copy_physical_replication_slot",
    "pg_create_logical_replication_slot",
    "pg_create_physical_replication_slot",
    "pg_create_restore_point",
    "pg_drop_replication_slot",
    "pg_file_read",
    "pg_file_rename",
    "pg_file_sync",
    "pg_file_unlink",
    "pg_file_write",
    "pg_import_system_collations",
    "pg_log_backend_memory_contexts",
    "pg_logdir_ls",
    "pg_logical_emit_message",
    "pg_logical_slot_get_binary_changes",
    "pg_logical_slot_get_changes",
    "pg_promote",
    "pg_read_binary_file",
    "pg_read_file",
    "pg_reload_conf",
    "pg_replication_slot_advance",
    "pg_rotate_logfile",
    "pg_start_backup",
    "pg_stat_file",
    "pg_stat_statements_reset",
    "pg_stop_backup",
    "pg_switch_wal",
    "pg_sync_replication_slots",
    "pg_wal_replay_pause",
    "pg_wal_replay_resume",
];

/// Prefixes of further functions of the server.
const SERVER_PREFIXES: [&str; 3] = ["pg_ls_", "pg_replication_origin_", "pg_stat_reset"];

/// Functions that change sequences and large objects.
const WRITES: [&str; 10] = [
    "lo_creat",
    "lo_create",
    "lo_from_bytea",
    "lo_put",
    "lo_truncate",
    "lo_truncate64",
    "lo_unlink",
    "lowrite",
    "nextval",
    "setval",
];

/// Functions that run a text as a query, in PostgreSQL and its contrib.
const QUERIES: [&str; 12] = [
    "connectby",
    "crosstab",
    "crosstab2",
    "crosstab3",
    "crosstab4",
    "crosstabn",
    "query_to_xml",
    "query_to_xml_and_xmlschema",
    "query_to_xmlschema",
    "ts_rewrite",
    "ts_stat",
    "xpath_table",
];

/// The effect of calling a function of this name, in lower case; None if it has none.
pub fn of_name(name: &str) -> Option<CallEffect> {
    if name.starts_with("dblink") {
        return Some(CallEffect::UnsafeOperation(UnsafeOperation::Dblink));
    }
    if SERVER.contains(&name) || SERVER_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Some(CallEffect::UnsafeOperation(UnsafeOperation::Server));
    }
    if WRITES.contains(&name) {
        return Some(CallEffect::Writes);
    }
    if QUERIES.contains(&name) {
        return Some(CallEffect::Query);
    }
    match name {
        "pg_terminate_backend" | "pg_cancel_backend" => {
            Some(CallEffect::UnsafeOperation(UnsafeOperation::TerminateBackend))
        }
        "pg_notify" => Some(CallEffect::UnsafeOperation(UnsafeOperation::Notify)),
        "currval" | "lastval" => Some(CallEffect::AfterWrite),
        "set_config" => Some(CallEffect::Setting),
        _ => None,
    }
}

/// Whether a word may be the name of an unsafe function, or of one that runs a query: a quick check
/// before the full analysis.
#[inline]
pub fn may_matter(word: &[u8]) -> bool {
    let begins = |prefix: &[u8]| {
        word.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix))
    };
    match word.first().map(u8::to_ascii_lowercase) {
        Some(b'c') => begins(b"connectby") || begins(b"crosstab"),
        Some(b'd') => begins(b"dblink"),
        Some(b'l') => begins(b"lo_"),
        Some(b'p') => begins(b"pg_"),
        Some(b'q') => begins(b"query_to_xml"),
        Some(b't') => begins(b"ts_"),
        Some(b'x') => begins(b"xpath_table"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A statement that passes the quick check is never examined again except in a read-only
    /// playback.
    #[test]
    fn every_unsafe_function_fails_the_quick_check() {
        let prefixed = ["pg_ls_dir", "pg_stat_reset_shared", "dblink_exec", "pg_notify"];
        let ends = ["pg_terminate_backend", "pg_cancel_backend", "PG_Notify", "DBLINK"];
        for name in SERVER.iter().chain(&QUERIES).chain(&prefixed).chain(&ends) {
            assert!(may_matter(name.as_bytes()), "{name}");
            assert!(of_name(&name.to_lowercase()).is_some(), "{name}");
        }
        for name in ["count", "lower", "now", "pg_sleep", "dblin"] {
            assert_eq!(of_name(name), None);
        }
    }
}
