-- Single-row reads with a Zipfian distribution, as in most databases. pgbench's built-in select-only is
-- uniform, so that a cache smaller than the table has little effect.
\set aid random_zipfian(1, 100000 * :scale, 1.1)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
