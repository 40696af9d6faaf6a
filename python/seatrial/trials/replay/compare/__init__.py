"""Before against after, query by query, page by page, batch by batch."""
