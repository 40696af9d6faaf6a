"""Audits: how a cell is measured."""
