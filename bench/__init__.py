"""The experiments: what the kernels cost, beside what others would do with the same work."""
