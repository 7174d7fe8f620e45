"""The incremental operators, and the cell that runs them in process."""
