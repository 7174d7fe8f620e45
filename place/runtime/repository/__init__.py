"""The repository: the past of streams as open tables, which other engines read, too."""
