"""Audit of tables: fitted models, gaps and bounds."""
