"""The page, tables and exports; reads results and analysis, nothing else."""
