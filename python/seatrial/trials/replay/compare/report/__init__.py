"""SQL before and after: sections, tables and charts on the page, tables on the terminal."""
