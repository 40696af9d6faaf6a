"""The part of a study on caches: its workload, its cells, what they cost."""
