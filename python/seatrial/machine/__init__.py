"""What is under trial, the one guard before it and the undo journal behind it."""
