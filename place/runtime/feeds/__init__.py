"""Feeds: readings that come over a connection, from brokers, receivers and timetables."""
