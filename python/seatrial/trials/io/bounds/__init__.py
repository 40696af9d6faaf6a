"""What the path to a target can carry, and what on it can hold data: bounds of every figure."""
