"""Exact sums: the order of terms does not matter, and a term that is taken back leaves nothing.

A sum is a whole number in digits of 32 bits ("limbs"), the lowest first; those of DOUBLE count
multiples of 2**-1074, of which every DOUBLE is one. All limbs but the last, which has the sign,
are kept within 32 bits, so that a sum has one form. `low` is the first limb that is kept at all.
"""

from __future__ import annotations

import numpy as np
from numba import njit

BITS, MASK = 32, (1 << 32) - 1
PART, PARTS = 20, (1 << 20) - 1
"""A weight is added in parts of so many bits; a limb then takes many before it overflows."""
BEFORE_CARRY = 1 << 27
"""The sum of parts after which what is above 32 bits has to be carried on."""
ROOM = 6
"""Limbs that a sum may need beyond that of the lowest bit of its largest term."""

_HIDDEN = 1 << 52
_INFINITE = 0x7FF


@njit(inline="always")
def _exponent(bits):
    """The place of the lowest bit of a DOUBLE, given as its bits."""
    exponent = (bits >> 52) & _INFINITE
    return exponent - 1 if exponent > 0 else 0


@njit(nogil=True, cache=True)
def _reach(bits, weights):
    """The first and the last limb in which the lowest bit of a term lies; (1, 0) if all are 0."""
    least, most = _INFINITE + 1, -1
    for i in range(len(bits)):
        if weights[i] != 0 and bits[i] != 0:
            exponent = _exponent(bits[i])
            least, most = min(least, exponent), max(most, exponent)
    return (least // BITS, most // BITS) if most >= 0 else (1, 0)


@njit(inline="always")
def _carry(limbs, slot):
    carry, last = 0, limbs.shape[1] - 1
    for j in range(last):
        total = limbs[slot, j] + carry
        limbs[slot, j] = total & MASK
        carry = total >> BITS
    limbs[slot, last] += carry


@njit(nogil=True, cache=True)
def carry_all(limbs):
    """Bring all sums to their form, after limbs were put beside those they had."""
    for slot in range(len(limbs)):
        _carry(limbs, slot)


@njit(nogil=True, cache=True)
def add_terms(limbs, low, slots, bits, weights, touched, is_double):
    """Add weighted terms, numbers or the bits of DOUBLEs, to the sums at their slots.

    `touched` has all slots of terms that have a weight. Nothing is done if there is no room for
    the terms: it then returns between which limbs their lowest bits lie, otherwise (1, 0).
    """
    if is_double:
        first, last = _reach(bits, weights)
        if first <= last and (first < low or last + ROOM > low + limbs.shape[1]):
            return first, last
    load = np.int64(0)
    for i in range(len(slots)):
        weight, slot = weights[i], slots[i]
        if weight == 0 or bits[i] == 0:
            continue
        if is_double:
            place = _exponent(bits[i])
            size = bits[i] & (_HIDDEN - 1)
            size |= _HIDDEN if (bits[i] >> 52) & _INFINITE else 0
            place -= low * BITS
        else:
            place, size = 0, abs(bits[i])  # of the smallest number this is 2**63, without a sign
        negative = (bits[i] < 0) != (weight < 0)
        rest = np.uint64(abs(weight))
        while rest:
            part = np.int64(rest & np.uint64(PARTS))
            if negative:
                part = -part
            shift = np.uint64(place % BITS)
            lower = (np.uint64(size) & np.uint64(MASK)) << shift
            upper = (np.uint64(size) >> np.uint64(BITS)) << shift
            middle = (lower >> np.uint64(BITS)) + (upper & np.uint64(MASK))
            j = place // BITS
            limbs[slot, j] += part * np.int64(lower & np.uint64(MASK))
            limbs[slot, j + 1] += part * np.int64(middle)
            limbs[slot, j + 2] += part * np.int64(upper >> np.uint64(BITS))
            load += abs(part)
            if load > BEFORE_CARRY:
                for k in range(len(touched)):
                    _carry(limbs, touched[k])
                load = np.int64(0)
            rest >>= np.uint64(PART)
            place += PART
    for k in range(len(touched)):
        _carry(limbs, touched[k])
    return 1, 0


@njit(nogil=True, cache=True)
def nearest_doubles(limbs, low, slots):
    """The DOUBLE nearest to each sum, ties to even; infinite where that is too large for one."""
    width = limbs.shape[1]
    found = np.empty(len(slots), np.int64)
    size = np.empty(width + 1, np.int64)
    for i in range(len(slots)):
        slot = slots[i]
        negative = limbs[slot, width - 1] < 0
        carry = 0
        for j in range(width):
            total = (-limbs[slot, j] if negative else limbs[slot, j]) + carry
            size[j] = total & MASK
            carry = total >> BITS
        size[width] = carry
        top = width
        while top > 0 and size[top] == 0:
            top -= 1
        length = 0
        while size[top] >> length:
            length += 1
        # Of the bits from `top` on, the 53 highest are kept; there are none below place 0.
        first = max(top * BITS + length - 53, -low * BITS)
        kept, half, less = 0, 0, False
        for j in range(top + 1):
            shift = j * BITS - first
            if shift >= 0:
                kept |= size[j] << shift
            elif shift > -BITS - 1:
                kept |= size[j] >> -shift
                half = (size[j] >> (-shift - 1)) & 1
                less = less or (size[j] & ((1 << (-shift - 1)) - 1)) != 0
            else:
                less = less or size[j] != 0
        if half and (less or kept & 1):
            kept += 1
        # What overflows the fraction goes on to the exponent, which is just what it should do.
        made = ((first + low * BITS) << 52) + kept if kept else 0
        if first + low * BITS >= _INFINITE or made >> 52 >= _INFINITE:
            made = _INFINITE << 52
        found[i] = made | (np.int64(-1) << 63 if negative else 0)
    return found.view(np.float64)


@njit(nogil=True, cache=True)
def whole_numbers(limbs, slots):
    """Sums of whole numbers modulo 2**64, and whether that is all of them."""
    found, fits = np.empty(len(slots), np.int64), np.empty(len(slots), np.bool_)
    for i in range(len(slots)):
        slot = slots[i]
        found[i] = limbs[slot, 0] | (limbs[slot, 1] << BITS)
        fits[i] = limbs[slot, limbs.shape[1] - 1] == (-1 if found[i] < 0 else 0)
        for j in range(2, limbs.shape[1] - 1):
            fits[i] &= limbs[slot, j] == (MASK if found[i] < 0 else 0)
    return found, fits
