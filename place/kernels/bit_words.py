"""Words of 64 bits: the lowest bit that is set, and how many are. One instruction each."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic


def _lowest_bit(_, word):
    """The place of the lowest bit that is set; 64 if there is none."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], context.get_constant(types.boolean, False))

    return types.uint64(types.uint64), generate


def _count_bits(_, word):
    """How many bits are set."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


lowest_bit: Any = intrinsic(_lowest_bit)
count_bits: Any = intrinsic(_count_bits)
