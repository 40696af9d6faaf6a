"""fio's files: job files, JSON of many versions, logs."""
