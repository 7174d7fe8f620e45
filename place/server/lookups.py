"""What a viewer of the map asks about objects: where one is, which have such a key, what is in a
column. Each answer is bounded, and holds only objects that the viewer may see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from place.model.schema import find_column
from place.plan.catalog import fold
from place.server.alerts import shown
from place.server.frames import Layer, Slotted
from place.server.query_info import key_name

MOST_FOUND = 20
"""Objects that a search tells of."""

MOST_LABELLED = 250
"""Objects whose values are told at once."""

LONGEST = 200
"""Characters of a text that is looked for, and of one that is told as a label."""


def described(layer: Layer | None, slot: int) -> dict[str, Any]:
    """The key and all attributes of an object; a key of None if it is gone."""
    found = layer.row(slot) if layer is not None else None
    if found is None or layer is None:
        return {"key": None}
    kinds = {column.name: column.type for column in layer.stream.columns}
    row = {name: shown(value, kinds[name]) for name, value in found.items()}
    return {"key": row[key_name(layer.stream) or ""], "row": row}


def located(layer: Layer | None, key: object) -> int | None:
    """The slot of the object with a key, which may be written as text."""
    if layer is None or isinstance(key, dict | list) or key is None:
        return None
    try:
        wanted = pa.array([str(key).lower() if isinstance(key, bool) else str(key)])
        slots: list[int | None] = layer.slots.locate(wanted.cast(layer.slots.kind).to_pylist())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return slots[0]


def found(
    layers: Iterable[Layer], text: str, seen: dict[int, Slotted] | None
) -> list[dict[str, Any]]:
    """The first objects whose keys hold a text: those that are it, then those that begin with it,
    then all others. `seen` are the objects that may be found, by layer; without it, all."""
    wanted = text[:LONGEST].strip()
    ranked: list[tuple[int, str, dict[str, Any]]] = []
    for layer in layers:
        keys, slots = layer.slots.held
        if keys is None or not wanted:
            continue
        texts = keys.cast(pa.string())
        holds = pc.match_substring(texts, wanted, ignore_case=True)
        places = np.flatnonzero(holds.to_numpy(zero_copy_only=False))
        if seen is not None:
            places = places[np.isin(slots[places], seen.get(layer.index, []))]
        for place in _best(texts.take(pa.array(places)), wanted):
            at = int(places[place])
            key = texts[at].as_py()
            shown_key = shown(keys[at].as_py(), layer.stream.columns[layer.stream.key or 0].type)
            told = {"stream": layer.index, "slot": int(slots[at]), "key": shown_key}
            ranked.append((_rank(key, wanted), key, told))
    ranked.sort(key=lambda each: each[:2])
    return [told for *_, told in ranked[:MOST_FOUND]]


def _best(texts: pa.Array, wanted: str) -> list[int]:
    """The places of the first few, those that begin with what is wanted before the others."""
    begins = pc.starts_with(texts, wanted, ignore_case=True)
    order = pc.sort_indices(
        pa.table({"begins": begins, "size": pc.utf8_length(texts), "text": texts}),
        sort_keys=[("begins", "descending"), ("size", "ascending"), ("text", "ascending")],
    )
    best: list[int] = order.slice(0, MOST_FOUND).to_pylist()
    return best


def _rank(key: str, wanted: str) -> int:
    low, text = key.lower(), wanted.lower()
    return 0 if low == text else 1 if low.startswith(text) else 2


def labels(
    layer: Layer, column: str, slots: Iterable[int], seen: Slotted | None
) -> dict[str, list[Any]]:
    """What stands in a column of some objects, beside their slots."""
    place = find_column(layer.stream.columns, column)
    asked = np.array(list(slots)[:MOST_LABELLED], np.int64)
    if seen is not None:
        asked = asked[np.isin(asked, seen)]
    if place is None:
        return {"slots": [], "texts": []}
    kind = layer.stream.columns[place].type
    told, values = layer.values(place, asked)
    texts = [shown(value, kind) for value in values]
    cut = [text[:LONGEST] if isinstance(text, str) else text for text in texts]
    return {"slots": told, "texts": cut}


def layer_named(layers: Iterable[Layer], name: str) -> Layer | None:
    return next((layer for layer in layers if fold(layer.stream.name) == fold(name)), None)
