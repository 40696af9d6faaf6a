"""Closed queueing models of a table of block sizes and concurrency, and their fit.

numpy and scipy are imported by the functions that need them, never by importing this package.
"""
