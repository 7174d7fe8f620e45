"""Exact sums: the order of terms does not matter, and a term that is taken back leaves nothing.

A sum is a whole number in digits of 32 bits ("limbs"), the lowest first; those of DOUBLE count
multiples of 2**-1074, of which every DOUBLE is one. All limbs but the last, which has the sign,
are kept within 32 bits, so that a sum has one form. `low` is the first limb that is kept at all.

Terms come in segments, each of one slot: those from `starts[s]` to `starts[s + 1]`. What a sum is
worth is read at the end of every segment.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

BITS, MASK = 32, (1 << 32) - 1
PART, PARTS = 20, (1 << 20) - 1
"""A weight is added in parts of so many bits; a limb then takes many before it overflows."""
BEFORE_CARRY = 1 << 27
"""The sum of parts after which what is above 32 bits has to be carried on."""
ROOM = 6
"""Limbs that a sum may need beyond that of the lowest bit of its largest term."""
EXACT = 1 << 53
"""The whole numbers up to this one are DOUBLEs."""

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


@njit(nogil=True, cache=True)
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
def _add_term(limbs, slot, place, size, negative, weight, load):
    """Add `size` times 2**`place` times the size of a weight to a sum, or take it from it.

    `load` is what the sum has taken since it was last carried; what it is now is returned.
    """
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
            _carry(limbs, slot)
            load = np.int64(0)
        rest >>= np.uint64(PART)
        place += PART
    return load


@njit(nogil=True, cache=True)
def _add_doubles(limbs, low, slot, bits, weights, start, end):
    """Add the terms from `start` to `end`, the bits of DOUBLEs, to the sum at a slot."""
    load = np.int64(0)
    for i in range(start, end):
        if weights[i] == 0 or bits[i] == 0:
            continue
        size = bits[i] & (_HIDDEN - 1)
        size |= _HIDDEN if (bits[i] >> 52) & _INFINITE else 0
        place = _exponent(bits[i]) - low * BITS
        negative = (bits[i] < 0) != (weights[i] < 0)
        load = _add_term(limbs, slot, place, size, negative, weights[i], load)
    _carry(limbs, slot)


@njit(nogil=True, cache=True)
def _add_wholes(limbs, slot, numbers, weights, start, end):
    """The same of whole numbers."""
    load = np.int64(0)
    for i in range(start, end):
        if weights[i] == 0 or numbers[i] == 0:
            continue
        negative = (numbers[i] < 0) != (weights[i] < 0)
        size = abs(numbers[i])  # of the smallest number this is 2**63, without a sign
        load = _add_term(limbs, slot, 0, size, negative, weights[i], load)
    _carry(limbs, slot)


@njit(nogil=True, cache=True)
def _split(limbs, slot, size):
    """Put the size of a sum into `size`, of one limb more; returns its highest limb that is not 0
    (or the lowest one), and whether the sum is negative."""
    width = limbs.shape[1]
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
    return top, negative


@njit(nogil=True, cache=True)
def _bits_in(limb):
    length = 0
    while limb >> length:
        length += 1
    return length


@njit(nogil=True, cache=True)
def _nearest(limbs, low, slot, size):
    """The bits of the DOUBLE nearest to a sum, ties to even; infinite if it is too large for one.

    `size` is room for one limb more than a sum has.
    """
    top, negative = _split(limbs, slot, size)
    # Of the bits from `top` on, the 53 highest are kept; there are none below place 0.
    first = max(top * BITS + _bits_in(size[top]) - 53, -low * BITS)
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
    return made | (np.int64(-1) << 63 if negative else 0)


@njit(nogil=True, cache=True)
def _whole(limbs, slot):
    """A sum of whole numbers modulo 2**64, and whether that is all of it."""
    found = limbs[slot, 0] | (limbs[slot, 1] << BITS)
    fits = limbs[slot, limbs.shape[1] - 1] == (-1 if found < 0 else 0)
    for j in range(2, limbs.shape[1] - 1):
        fits &= limbs[slot, j] == (MASK if found < 0 else 0)
    return found, fits


@njit(nogil=True, cache=True)
def _double_mean(limbs, slot, size, count):
    """The DOUBLE nearest to a sum of whole numbers over a count: by long division, bit by bit."""
    top, negative = _split(limbs, slot, size)
    left = top * BITS + _bits_in(size[top])
    if left == 0:
        return 0.0
    quotient, rest, divisor = np.int64(0), np.uint64(0), np.uint64(count)
    while quotient < EXACT:  # one bit more than a DOUBLE has; below 2**0 all bits are 0
        left -= 1
        rest <<= np.uint64(1)
        if left >= 0:
            rest |= np.uint64((size[left // BITS] >> (left % BITS)) & 1)
        quotient <<= 1
        if rest >= divisor:
            rest -= divisor
            quotient |= 1
    less = rest != 0
    for j in range(top + 1):
        if j * BITS < left:
            less = less or (size[j] & ((1 << min(left - j * BITS, BITS)) - 1)) != 0
    kept = quotient >> 1
    if quotient & 1 and (less or kept & 1):
        kept += 1
    mean = math.ldexp(np.float64(kept), left + 1)
    return -mean if negative else mean


@njit(nogil=True, cache=True)
def _whole_mean(limbs, slot, size, count):
    """The whole number nearest to a sum of whole numbers over a count, ties to even."""
    top, negative = _split(limbs, slot, size)
    quotient, rest, divisor = np.uint64(0), np.uint64(0), np.uint64(count)
    if top < 2:
        whole = np.uint64(size[0]) | (np.uint64(size[1]) << np.uint64(BITS))
        quotient, rest = whole // divisor, whole % divisor
    else:
        for left in range(top * BITS + _bits_in(size[top]) - 1, -1, -1):
            bit = np.uint64((size[left // BITS] >> (left % BITS)) & 1)
            rest = (rest << np.uint64(1)) | bit
            quotient <<= np.uint64(1)
            if rest >= divisor:
                rest -= divisor
                quotient |= np.uint64(1)
    above = divisor - rest  # not twice the rest, which may be too large
    if rest > above or (rest == above and quotient & np.uint64(1)):
        quotient += np.uint64(1)
    return -np.int64(quotient) if negative else np.int64(quotient)


@njit(nogil=True, cache=True)
def sum_doubles(limbs, low, slots, bits, weights, starts, counts):
    """Add weighted terms, the bits of DOUBLEs, to the sums of segments' slots.

    Returns, at the end of each segment, the sum rounded once, as bits; whether there is none,
    since the count then is not positive or the sum too large; and that sum over the count, as
    bits. Nothing is done if there is no room for the terms: the last two results then are between
    which limbs their lowest bits lie, otherwise (1, 0).
    """
    sums, none = np.zeros(len(slots), np.int64), np.empty(len(slots), np.bool_)
    means = np.zeros(len(slots), np.float64)
    first, last = _reach(bits, weights)
    if first <= last and (first < low or last + ROOM > low + limbs.shape[1]):
        return sums, none, means.view(np.int64), first, last
    size = np.empty(limbs.shape[1] + 1, np.int64)
    for s in range(len(slots)):
        _add_doubles(limbs, low, slots[s], bits, weights, starts[s], starts[s + 1])
        found = _nearest(limbs, low, slots[s], size)
        none[s] = counts[s] <= 0 or (found >> 52) & _INFINITE == _INFINITE
        if not none[s]:
            sums[s] = found
    values = sums.view(np.float64)
    for s in range(len(slots)):
        if not none[s]:
            means[s] = values[s] / counts[s] + 0.0
    return sums, none, means.view(np.int64), 1, 0


@njit(nogil=True, cache=True)
def sum_wholes(limbs, slots, numbers, weights, starts, counts, is_interval):
    """Add weighted whole numbers to the sums of segments' slots.

    Returns, at the end of each segment, the sum and whether there is none, since the count then is
    not positive or the sum too large; the sum over the count, as a whole number of intervals and
    otherwise as the bits of a DOUBLE, and whether there is none.
    """
    sums, no_sum = np.zeros(len(slots), np.int64), np.empty(len(slots), np.bool_)
    means, no_mean = np.zeros(len(slots), np.int64), np.empty(len(slots), np.bool_)
    doubles = means.view(np.float64)
    size = np.empty(limbs.shape[1] + 1, np.int64)
    for s in range(len(slots)):
        slot, count = slots[s], counts[s]
        _add_wholes(limbs, slot, numbers, weights, starts[s], starts[s + 1])
        found, fits = _whole(limbs, slot)
        no_mean[s] = count <= 0
        no_sum[s] = no_mean[s] or not fits
        if not no_sum[s]:
            sums[s] = found
        if no_mean[s]:
            continue
        if is_interval:
            means[s] = _whole_mean(limbs, slot, size, count)
        elif fits and -EXACT <= found <= EXACT and count <= EXACT:
            doubles[s] = found / count
        else:
            doubles[s] = _double_mean(limbs, slot, size, count)
    return sums, no_sum, means, no_mean
