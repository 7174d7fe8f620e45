"""What outlives a process: files, manifests, deltas, homes."""
