"""Block I/O on trial: the engine driven as fio drives a job."""
