"""Predictions of caches, in words, tables and charts."""
