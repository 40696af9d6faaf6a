"""Audits: what a table of block sizes and concurrency says of the storage under it."""
