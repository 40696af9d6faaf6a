"""Audits: models and gaps of tables of block sizes and concurrency."""
