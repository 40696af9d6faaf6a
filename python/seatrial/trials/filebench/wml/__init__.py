"""Reads workload files of Filebench (language WML): words, statements, then the workload."""
