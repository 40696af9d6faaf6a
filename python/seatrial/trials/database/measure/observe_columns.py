"""The columns of a database's series: what each is made of.

A share is between 0 and 1. The columns of the machine are there only when the server runs on it.
"""

from __future__ import annotations

from typing import Final

from seatrial.trials.database.measure.observe_series import (
    Derive,
    cores,
    count,
    mean_ms,
    now,
    per_s,
    rest_of,
    share_among,
    share_of_time,
)

_PROCESSOR_PARTS_NS: Final = tuple(
    f"machine_{part}_ns" for part in ("user", "system", "iowait", "steal", "idle")
)

MACHINE_COLUMNS: Final[dict[str, Derive]] = {
    "cpu_user_share": share_among("machine_user_ns", _PROCESSOR_PARTS_NS),
    "cpu_system_share": share_among("machine_system_ns", _PROCESSOR_PARTS_NS),
    "cpu_iowait_share": share_among("machine_iowait_ns", _PROCESSOR_PARTS_NS),
    "cpu_steal_share": share_among("machine_steal_ns", _PROCESSOR_PARTS_NS),
    "cpu_idle_share": share_among("machine_idle_ns", _PROCESSOR_PARTS_NS),
    "server_cpu_cores": cores("server_cpu_ns"),
    "server_delay_cores": cores("server_delay_ns"),
    "server_read_bytes_per_s": per_s("server_read_bytes"),
    "client_cpu_cores": cores("client_cpu_ns"),
    "client_delay_cores": cores("client_delay_ns"),
    "seatrial_cpu_cores": cores("seatrial_cpu_ns"),
    "others_cpu_cores": rest_of(
        ("machine_user_ns", "machine_system_ns"),
        ("server_cpu_ns", "client_cpu_ns", "seatrial_cpu_ns"),
    ),
    "psi_cpu_some_share": share_of_time("psi_cpu_some_ns"),
    "psi_io_some_share": share_of_time("psi_io_some_ns"),
    "psi_io_full_share": share_of_time("psi_io_full_ns"),
    "psi_memory_some_share": share_of_time("psi_memory_some_ns"),
    "device_read_per_s": per_s("device_reads"),
    "device_write_per_s": per_s("device_writes"),
    "device_read_bytes_per_s": per_s("device_read_bytes"),
    "device_write_bytes_per_s": per_s("device_write_bytes"),
    "device_read_latency_ms": mean_ms("device_read_ns", "device_reads"),
    "device_write_latency_ms": mean_ms("device_write_ns", "device_writes"),
    "device_queue_mean": share_of_time("device_queued_ns"),
    "device_in_flight": now("device_in_flight"),
    "device_busy_share": share_of_time("device_busy_ns", among="devices"),
    "device_flush_per_s": per_s("device_flushes"),
    "device_flush_latency_ms": mean_ms("device_flush_ns", "device_flushes"),
}
"""Of the machine, of the device under the data, and of the processes of server and client.

``*_cpu_cores`` is processor time per second, 1.6 for one processor and six tenths of a second:
``server`` without the session that answers the observer, ``client`` the processes that put the
load on, ``seatrial`` this process (with the driver, where it is a thread of it) and that session,
``others`` what is left of all that the machine did, the kernel's own threads included.
``*_delay_cores`` is the time in which threads could run and had no processor, summed up over them.
``device_queue_mean`` is how many requests were on their way on the average (their times summed up
over the time that passed, by Little's law); ``device_in_flight`` how many at the entry's end.
Of several devices under one file system rates are summed up, and the busy share is their mean.
"""

IO_PREFIX: Final = "io_"
"""How names of what pg_stat_io tells begin; the context and what was done follow."""

IO_CONTEXTS: Final = ("normal", "vacuum", "bulkread", "bulkwrite", "init")
"""In what the server reads and writes, as pg_stat_io has it."""

_IO_COLUMNS: Final[dict[str, Derive]] = {
    f"{IO_PREFIX}{context}_{kind}_per_s": per_s(f"{IO_PREFIX}{context}_{kind}")
    for context in IO_CONTEXTS
    for kind in ("reads", "writes", "extends", "fsyncs")
}

MOMENT_COLUMNS: Final[dict[str, Derive]] = {
    "wal_bytes_per_s": per_s("wal_bytes"),
    "checkpoints_timed": count("checkpoints_timed"),
    "checkpoints_requested": count("checkpoints_requested"),
    "checkpoint_buffers_per_s": per_s("checkpoint_buffers"),
    "bgwriter_buffers_per_s": per_s("bgwriter_buffers"),
    "backend_buffers_per_s": per_s("backend_buffers"),
}
"""Of the server, as it stands at the moment of asking. ``*_buffers_per_s`` are blocks written by
the checkpointer, the background writer and the clients' own backends."""

REPORT_COLUMNS: Final[dict[str, Derive]] = {
    "transactions_per_s": per_s("transactions_committed"),
    "rollbacks_per_s": per_s("transactions_rolled_back"),
    "shared_hits_per_s": per_s("shared_hits"),
    "shared_reads_per_s": per_s("shared_reads"),
    "temp_bytes_per_s": per_s("temp_bytes"),
    "deadlocks": count("deadlocks"),
    "wal_records_per_s": per_s("wal_records"),
    "wal_fpi_per_s": per_s("wal_fpi"),
    "wal_buffers_full_per_s": per_s("wal_buffers_full"),
    "wal_writes_per_s": per_s("wal_writes"),
    "wal_syncs_per_s": per_s("wal_syncs"),
    "wal_sync_latency_ms": mean_ms("wal_sync_ns", "wal_syncs"),
    **_IO_COLUMNS,
}
"""Of the server, as its backends report it; blocks are the server's, 8 KiB each as a rule.

A backend reports what it did at most once a second (PostgreSQL's PGSTAT_MIN_INTERVAL): a report is
half a second late on the average. So these are read half a second later than the rest, and an
entry is right to half a second; the last one is read when all backends have ended, so that the
entries sum up to the totals.
"""
