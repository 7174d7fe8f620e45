"""Readings from outside: files and messages of any kind become checked segments."""
