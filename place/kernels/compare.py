"""Comparing a point with a box in one step: four coordinates with eight bounds at once."""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic


def _comparison(width, places, low_places=None, high_places=None):
    """Code that compares four coordinates of a row at once: one bit for each that is within.

    The row's coordinates are compared with eight bounds, or, where places of bounds are given, four
    coordinates with the row's bounds. Compilers don't find this in four comparisons of two bounds.
    """
    ir = cgutils.ir  # type: ignore[attr-defined]
    number, four = ir.IntType(32), ir.VectorType(ir.DoubleType(), 4)

    def generate(context, builder, signature, arguments):
        rows = context.make_array(signature.args[0])(context, builder, arguments[0])

        def vector(values):
            made = ir.Constant(four, ir.Undefined)
            for place, value in enumerate(values):
                made = builder.insert_element(made, value, ir.Constant(number, place))
            return made

        def picked(order):
            return builder.shuffle_vector(row, row, ir.Constant(ir.VectorType(number, 4), order))

        offset = builder.mul(arguments[1], ir.Constant(arguments[1].type, width))
        kind = ir.VectorType(ir.DoubleType(), width)
        row = builder.load(builder.bitcast(builder.gep(rows.data, [offset]), kind.as_pointer()))
        row.align = 8
        if low_places is None:
            value, low, high = picked(places), vector(arguments[2:6]), vector(arguments[6:10])
        else:
            value, low, high = vector(arguments[2:6]), picked(low_places), picked(high_places)
        within = builder.and_(
            builder.fcmp_ordered(">=", value, low), builder.fcmp_ordered("<=", value, high)
        )
        return builder.zext(builder.bitcast(within, ir.IntType(4)), ir.IntType(64))

    return generate


def _moving_point_in(_, rows, i, x1, y1, u1, v1, x2, y2, u2, v2):
    """Bits 0 and 1: row i's point (x, y, u, v) is within (x1, y1, x2, y2); 2 and 3: was within."""
    signature = types.uint64(rows, types.uint64, x1, y1, u1, v1, x2, y2, u2, v2)
    return signature, _comparison(4, [0, 1, 2, 3])


def _standing_point_in(_, rows, i, x1, y1, u1, v1, x2, y2, u2, v2):
    """The same for a point (x, y) that was where it is."""
    signature = types.uint64(rows, types.uint64, x1, y1, u1, v1, x2, y2, u2, v2)
    return signature, _comparison(2, [0, 1, 0, 1])


def _in_standing_box(_, rows, i, x, y, u, v):
    """The same for row i's box (x1, y1, x2, y2) that was where it is, and a point."""
    signature = types.uint64(rows, types.uint64, x, y, u, v)
    return signature, _comparison(4, None, [0, 1, 0, 1], [2, 3, 2, 3])


moving_point_in: Any = intrinsic(_moving_point_in)
standing_point_in: Any = intrinsic(_standing_point_in)
in_standing_box: Any = intrinsic(_in_standing_box)
