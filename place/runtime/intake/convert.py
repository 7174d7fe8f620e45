"""The values of a column of a source, in whatever form they come, as values of a type.

What comes out is what `settle` makes of each value. Whole columns are converted where Arrow and
NumPy are sure to agree with it; a value in doubt is settled by `settle` itself, once however often
it repeats. Bytes are texts in UTF-8; Arrow's timestamps and dates are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from place.model.segment import ARROW
from place.model.time import DAY, EARLIEST, LATEST, MILLISECOND, SECOND
from place.model.types import Type, Value, ValueMismatch
from place.runtime.intake.values import DATES, FEWEST, SIZES, UNITS, fits_arrow, settle

Mask = npt.NDArray[np.bool_]
Certain = tuple[pa.Array, Mask | None]
"""Values, and where there is doubt about one that is not NULL; None for nowhere."""

# What a text must look like for Arrow's reading of it to be certain; the rest is in doubt.
_BIGINT = "^-?[0-9]{1,18}$"
_COUNT = "^-?([0-9]{1,18}|[1-8][0-9]{18})$"  # of nanoseconds, too
_DOUBLE = r"^-?[0-9]{1,30}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,2})?$"
_DATE = (
    "[0-9]{4}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13578]|1[02])-(29|30|31)"
    "|(0[469]|11)-(29|30))"
)
_CLOCK = r"[ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?"
_LOCAL = f"^{_DATE}({_CLOCK})?$"
_ZONED = f"^{_DATE}{_CLOCK}(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)$"

_UNITS = {"s": SECOND, "ms": MILLISECOND, "us": 1}


@dataclass(frozen=True)
class Converted:
    """A column's values, NULL where one does not fit; `raw` is what stood in the source."""

    array: pa.Array
    bad: Mask | None
    raw: Callable[[int], Any]
    timestamps: str | None = None
    """What the source writes timestamps as, if it says so."""


def convert(values: pa.Array, kind: Type, timestamps: str | None = None) -> Converted:
    """The values of an Arrow array of any type as those of `kind`."""
    plain, invalid = _plain(values)
    array, doubt = _certain(plain, kind, timestamps)
    bad = invalid
    if doubt is not None and doubt.any():
        array, wrong = _settled(plain, array, doubt, kind, timestamps)
        bad = wrong if bad is None else bad | wrong
    return Converted(array, bad, lambda index: python_value(values[index]), timestamps)


def convert_objects(values: list[Any], kind: Type, timestamps: str | None = None) -> Converted:
    """The same of Python's values, as JSON and whoever pushes give them, of any types mixed."""
    native = _NATIVE.get(kind)
    stored: pa.DataType = ARROW[kind]
    if kind is Type.TIMESTAMP:  # of texts alone or of integers alone a whole column is converted
        kinds = {type(value) for value in values if value is not None}
        native = kinds.pop() if len(kinds) == 1 else None
        native = native if native in (int, str) else None
        stored = pa.string() if native is str else pa.int64()
    wrong = np.zeros(len(values), np.bool_)
    fitting = list(values)
    checked = native in (int, str)  # which may be too long, or half a letter
    for index, value in enumerate(values):
        if value is None or (type(value) is native and not (checked and not fits_arrow(value))):
            continue
        try:
            fitting[index] = settle(value, kind, timestamps)
        except ValueMismatch:
            fitting[index], wrong[index] = None, True
    array = pa.array(fitting, stored)
    bad = None
    if kind is Type.DOUBLE or (kind is Type.TIMESTAMP and native is not None):
        # NaN is to be found, texts are to be read, and numbers to be told apart
        converted = convert(array, kind, timestamps)
        array, bad = converted.array, converted.bad
    if wrong.any():
        bad = wrong if bad is None else bad | wrong
    return Converted(array, bad, values.__getitem__, timestamps)


_NATIVE: dict[Type, type] = {
    Type.BIGINT: int,
    Type.DOUBLE: float,
    Type.STRING: str,
    Type.BOOLEAN: bool,
}


def python_value(scalar: pa.Scalar) -> Any:
    """A scalar as a value of Python, also where Python's own type cannot hold it."""
    kind = scalar.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":  # which Python does not have
        scalar = scalar.cast(pa.timestamp("us", kind.tz), safe=False)
    elif pa.types.is_duration(kind) and kind.unit == "ns":
        scalar = scalar.cast(pa.duration("us"), safe=False)
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return scalar.as_buffer().to_pybytes()
    except (ValueError, OverflowError, KeyError):  # beyond the year 9999, or an unknown time zone
        if pa.types.is_timestamp(kind):
            return np.datetime64(scalar.value, scalar.type.unit)
        return getattr(scalar, "value", None)


def _plain(values: pa.Array) -> tuple[pa.Array, Mask | None]:
    """The values without what is only a way to store them; and which are bytes that are no text."""
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    elif pa.types.is_run_end_encoded(values.type):
        values = pa.compute.run_end_decode(values)
    if not _is_text(values.type) and not _is_binary(values.type):
        return values, None
    try:
        if _is_text(values.type):  # its maker may not have checked it: Parquet's reader does not
            values.validate(full=True)
        return values.cast(pa.string()), None
    except pa.ArrowInvalid:
        return _decoded(values)


def _decoded(values: pa.Array) -> tuple[pa.Array, Mask]:
    invalid = np.zeros(len(values), np.bool_)
    texts: list[str | None] = []
    for index, scalar in enumerate(values):
        try:
            texts.append(str(scalar.as_buffer().to_pybytes(), "utf-8") if scalar.is_valid else None)
        except UnicodeDecodeError:
            texts.append(None)
            invalid[index] = True
    return pa.array(texts, pa.string()), invalid


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def _is_binary(kind: pa.DataType) -> bool:
    tests = (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
        pa.types.is_fixed_size_binary,
    )
    return any(test(kind) for test in tests)


def _settled(
    values: pa.Array, array: pa.Array, doubt: Mask, kind: Type, timestamps: str | None
) -> tuple[pa.Array, Mask]:
    """The array with the values in doubt as `settle` has them, and which of them do not fit."""
    tests = (pa.types.is_string, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating)
    if not any(test(values.type) for test in (*tests, pa.types.is_decimal)):
        return array, doubt  # dates out of range, lists and structs: nothing that fits
    coded = values.filter(pa.array(doubt)).dictionary_encode()
    found: list[Value] = []
    wrong = np.zeros(len(coded.dictionary), np.bool_)
    for index, value in enumerate(coded.dictionary.to_pylist()):
        try:
            found.append(settle(value, kind, timestamps))
        except ValueMismatch:
            found.append(None)
            wrong[index] = True
    settled = pa.array(found, ARROW[kind]).take(coded.indices)
    bad = np.zeros(len(values), np.bool_)
    bad[np.flatnonzero(doubt)[wrong[coded.indices.to_numpy()]]] = True
    return pa.compute.replace_with_mask(array, pa.array(doubt), settled), bad


# Whole columns


def _certain(values: pa.Array, kind: Type, timestamps: str | None) -> Certain:
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), ARROW[kind]), None
    if kind is Type.BIGINT:
        return _bigints(values)
    if kind is Type.DOUBLE:
        return _doubles(values)
    if kind is Type.TIMESTAMP:
        return _instants(values, timestamps)
    if values.type == ARROW[kind] and kind in (Type.STRING, Type.BOOLEAN):
        return values, None
    return _doubtful(values, kind)


def _doubtful(values: pa.Array, kind: Type) -> Certain:
    return pa.nulls(len(values), ARROW[kind]), _flags(values.is_valid())


def _flags(array: pa.Array) -> Mask:
    return array.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _numbers(values: pa.Array) -> npt.NDArray[np.float64]:
    """Numbers of any type as doubles, NULL as NaN."""
    doubles = values.cast(pa.float64(), safe=False)
    return doubles.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _texts(values: pa.Array, pattern: str, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    fits = pa.compute.match_substring_regex(values, pattern)
    chosen = pa.compute.if_else(fits, values, pa.scalar(None, values.type))
    return chosen.cast(kind), _flags(pa.compute.invert(fits).fill_null(False))


def _bigints(values: pa.Array) -> Certain:
    kind = values.type
    if pa.types.is_string(kind):
        return _texts(values, _BIGINT, pa.int64())
    if pa.types.is_uint64(kind):
        large = pa.compute.greater(values, pa.scalar(2**63 - 1, pa.uint64()))
        fitting = pa.compute.if_else(large, pa.scalar(None, kind), values)
        return fitting.cast(pa.int64()), _flags(large.fill_null(False))
    if pa.types.is_integer(kind):
        return values.cast(pa.int64()), None
    if pa.types.is_decimal(kind):
        texts = values.cast(pa.string())
        return _texts(pa.compute.replace_substring_regex(texts, r"\.0+$", ""), _BIGINT, pa.int64())
    if not pa.types.is_floating(kind):
        return _doubtful(values, Type.BIGINT)
    numbers = _numbers(values)
    whole = (np.floor(numbers) == numbers) & (numbers >= -(2.0**63)) & (numbers < 2.0**63)
    array = pa.array(np.where(whole, numbers, 0.0).astype(np.int64), mask=~whole)
    return array, ~whole & ~np.isnan(numbers)


def _doubles(values: pa.Array) -> Certain:
    kind = values.type
    doubt: Mask | None = None
    if pa.types.is_string(kind):
        values, doubt = _texts(values, _DOUBLE, pa.float64())
    elif pa.types.is_decimal(kind):
        values = values.cast(pa.string()).cast(pa.float64())  # which alone is to the last bit
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return _doubtful(values, Type.DOUBLE)
    numbers = _numbers(values)
    finite = np.isfinite(numbers)
    tidy = numbers + 0.0  # as `coerce` does, so that there is one zero
    if finite.all():
        return pa.array(tidy), doubt
    infinite = np.isinf(numbers)
    return pa.array(tidy, mask=~finite), infinite if doubt is None else doubt | infinite


def _instants(values: pa.Array, timestamps: str | None) -> Certain:
    kind = values.type
    if pa.types.is_timestamp(kind):
        counts = values.cast(pa.int64())
        if kind.unit == "ns":
            return _bounded(_floor_thousandths(counts), 1)
        return _bounded(counts, _UNITS[kind.unit])
    if pa.types.is_date32(kind):
        return _bounded(values.cast(pa.int32()).cast(pa.int64()), DAY)
    if pa.types.is_date64(kind):
        return _bounded(values.cast(pa.int64()), MILLISECOND)
    if pa.types.is_string(kind):
        return _written_instants(values, timestamps)
    if timestamps == "iso" or timestamps in DATES:
        return _doubtful(values, Type.TIMESTAMP)
    if timestamps is not None:
        return _counted(values, timestamps)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return _doubtful(values, Type.TIMESTAMP)
    return _by_size(values)


def _written_instants(values: pa.Array, timestamps: str | None) -> Certain:
    if timestamps == "iso":
        return _iso(values)
    if timestamps in DATES:
        return _dates(values, *DATES[timestamps])
    if timestamps is None:
        array, no_time = _iso(values)
        if no_time is None or not no_time.any():
            return array, no_time
        numbers, no_number = _texts(values, _COUNT, pa.int64())
        if no_number.all():
            return array, no_time
        counted, doubt = _by_size(numbers)
        wrong = no_number if doubt is None else no_number | doubt
        return pa.compute.coalesce(array, counted), no_time & wrong
    is_whole = UNITS[timestamps][0] == 1
    form = (_COUNT, pa.int64()) if is_whole else (_DOUBLE, pa.float64())
    numbers, no_number = _texts(values, *form)
    array, doubt = _counted(numbers, timestamps)
    return array, no_number if doubt is None else no_number | doubt


def _floor_thousandths(counts: pa.Array) -> pa.Array:
    whole = counts.fill_null(0).to_numpy() // 1000
    return pa.array(whole, mask=_flags(counts.is_null()) if counts.null_count else None)


def _counted(values: pa.Array, unit: str) -> Certain:
    """Numbers that count a unit since 1970."""
    scale, per = UNITS[unit]
    if not pa.types.is_floating(values.type) or scale == 1:
        array, doubt = _bigints(values)
        bounded, outside = _bounded(_floor_thousandths(array) if per != 1 else array, scale)
        if doubt is None or outside is None:
            return bounded, outside if doubt is None else doubt
        return bounded, doubt | outside
    numbers = _numbers(values)
    whole = np.floor(numbers)
    inside = (whole >= -(-EARLIEST // scale)) & (whole < LATEST // scale)
    rest = np.rint((np.where(inside, numbers, 0.0) - np.where(inside, whole, 0.0)) * scale)
    instants = np.where(inside, whole, 0.0).astype(np.int64) * scale + rest.astype(np.int64)
    return pa.array(instants, mask=~inside), ~inside & ~np.isnan(numbers)


def _by_size(values: pa.Array) -> Certain:
    """Numbers that count the units since 1970 that their sizes tell; in doubt below `FEWEST`."""
    if pa.types.is_floating(values.type):
        sizes = np.abs(_numbers(values))
        doubt = (sizes < FEWEST) | np.isinf(sizes)
    else:  # exact, which doubles are not
        values = values if pa.types.is_uint64(values.type) else values.cast(pa.int64())
        numbers = values.fill_null(FEWEST).to_numpy()
        sizes = numbers if numbers.dtype == np.uint64 else np.abs(numbers)
        doubt = sizes < FEWEST
    found = pa.nulls(len(values), pa.int64())
    done = doubt.copy()
    for unit in UNITS:
        chosen = ~done & (sizes < SIZES[unit]) if unit in SIZES else ~done
        done |= chosen
        if not chosen.any():
            continue
        picked = pa.compute.if_else(pa.array(chosen), values, pa.scalar(None, values.type))
        counted, wrong = _counted(picked, unit)
        found = pa.compute.coalesce(found, counted)
        doubt = doubt if wrong is None else doubt | wrong
    return found, doubt


def _bounded(counts: pa.Array, scale: int) -> Certain:
    """Counts of `scale` microseconds as instants, in doubt where they cannot be written down."""
    if len(counts) == counts.null_count:
        return counts, None
    first, last = -(-EARLIEST // scale), LATEST // scale
    numbers = counts.fill_null(first).to_numpy()
    if numbers.min() >= first and numbers.max() <= last:
        if scale == 1:
            return counts, None
        missing = _flags(counts.is_null()) if counts.null_count else None
        return pa.array(numbers * scale, mask=missing), None
    inside = (numbers >= first) & (numbers <= last)
    missing = _flags(counts.is_null())
    return pa.array(np.where(inside, numbers, 0) * scale, mask=missing | ~inside), ~inside


def _dates(values: pa.Array, pattern: str, written: str) -> Certain:
    """Texts that begin with a date as some country writes it. What has its digits is certain."""
    pattern = pattern.replace("{1,2}", "{2}")
    array, doubt = _iso(pa.compute.replace_substring_regex(values, pattern, written))
    found = pa.compute.match_substring_regex(values, pattern).fill_null(True)
    other = ~found.to_numpy(zero_copy_only=False)
    return array, other if doubt is None else doubt | other


def _iso(values: pa.Array) -> Certain:
    """Texts as instants; Arrow tells those with an offset and those without apart."""
    local, zoned = pa.timestamp("us"), pa.timestamp("us", "UTC")
    for kind in (local, zoned):
        try:
            return _bounded(values.cast(kind).cast(pa.int64()), 1)
        except pa.ArrowInvalid:
            continue
    first, without = _texts(values, _LOCAL, local)
    second, with_offset = _texts(values, _ZONED, zoned)
    array, outside = _bounded(
        pa.compute.coalesce(first.cast(pa.int64()), second.cast(pa.int64())), 1
    )
    doubt = without & with_offset
    return array, doubt if outside is None else doubt | outside
