"""One file a backend: each holds a ``BACKEND``, and is found by being here.

docs/how-to-add-a-backend.md says how to write one.
"""
