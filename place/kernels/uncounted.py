"""Compiled functions that count no references to the arrays they are given.

A function that is given arrays counts their references when it is called and when it returns, and
so do loops that take arrays out of tuples: kernels of many small functions spend most of their time
on it. Functions that make no array need no counts, as whoever calls them holds what they are given;
Numba refuses to compile one that makes an array here.
"""

from __future__ import annotations

from typing import Any

from numba import njit

OPTIONS: dict[str, Any] = {"nogil": True, "cache": True, "_nrt": False}

uncounted = njit(**OPTIONS)
uncounted_inline = njit(**OPTIONS, forceinline=True)
