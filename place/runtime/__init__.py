"""Runtimes: the reference (the oracle), and what keeps the catalog and reads tables for all."""
