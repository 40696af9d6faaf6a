"""What a cache would serve of recorded requests."""
