"""Commands for those who run PLACE: replay, run, status, changes."""
