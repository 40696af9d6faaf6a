"""Shows workloads of files: by flowop, by set of files, by wait."""
