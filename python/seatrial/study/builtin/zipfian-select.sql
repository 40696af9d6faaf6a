-- Reads of single rows, some far more often than others, as in most databases: pgbench's own
-- select-only reads all rows equally often, of which no cache holds the better part.
\set aid random_zipfian(1, 100000 * :scale, 1.1)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
