"""Rules of no one topic: what is wrong with a run, a machine or a comparison, and why."""
