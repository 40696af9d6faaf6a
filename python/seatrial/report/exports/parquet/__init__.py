"""Runs as Parquet files, one per table, for DuckDB, Spark, PostgreSQL and others."""
