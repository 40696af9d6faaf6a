"""Databases on trial: PostgreSQL under pgbench, telemetry, batches and crashes."""
