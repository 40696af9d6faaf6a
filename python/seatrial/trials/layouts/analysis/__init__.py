"""Analysis of layouts: device I/O for each operation, scaling with drives, and failures."""
