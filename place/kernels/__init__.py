"""Arrays in, arrays out: the compiled loops of the matcher."""
