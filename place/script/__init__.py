"""Continuous-query scripts (`.cq`): what the system should do, for a user to read."""
