"""The charts of a report, as data: what each shows, says and leaves out."""
