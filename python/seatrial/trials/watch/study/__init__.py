"""Recordings as workloads of a study."""
