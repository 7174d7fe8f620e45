"""HTTP, WebSocket and webhooks: statements and readings in, answers and deltas out."""
