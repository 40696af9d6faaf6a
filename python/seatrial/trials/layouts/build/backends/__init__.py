"""One file for each backend, with a ``BACKEND``; all modules here are loaded.

docs/how-to-add-a-backend.md says how to write one.
"""
