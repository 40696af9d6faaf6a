"""Watch: the block requests that a machine sends, by device, process and database relation."""
