"""The experiments of the papers, each with a table, a plot and a verdict computed from both."""

from bench.papers.command import add_parser

__all__ = ["add_parser"]
