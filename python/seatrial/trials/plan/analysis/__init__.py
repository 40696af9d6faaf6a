"""What follows from a load, limits, failure rates and prices."""
