"""What was measured of workloads of files, by flowop."""
