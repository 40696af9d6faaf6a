"""Block requests from the kernel, and the files and relations that they belong to."""
