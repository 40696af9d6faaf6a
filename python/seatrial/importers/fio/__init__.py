"""fio's own files: job files, JSON of many versions, logs."""
