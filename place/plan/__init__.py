"""From statements to plans: the catalog, the binder, bound queries and their explanation."""
