"""What samples of a database say: what the time went into, what served its reads, its caches."""
