"""Tests of the results room."""
