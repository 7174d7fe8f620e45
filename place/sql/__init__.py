"""The language: a sqlglot dialect, and the statements that it yields."""
