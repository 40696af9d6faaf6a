"""The user's own SQL: traces played again, and compared before and after."""
