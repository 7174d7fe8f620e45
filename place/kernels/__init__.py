"""Arrays in, arrays out: the compiled loops of the matcher."""

from place.kernels.cache import prepare_cache

prepare_cache()
