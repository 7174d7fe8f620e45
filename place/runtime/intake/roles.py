"""What formats of positions know by themselves: where, when, and whose a reading is.

Such a format says which of its members are the position, the time and the object. They become the
stream's columns of these roles, whatever the stream calls them, so that its statement need not say
it again; all other columns are found by name. Where the option `columns` names a member for a
column, that member it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from place.model.schema import Stream
from place.model.types import Type

X, Y, TIME, KEY = "x", "y", "time", "key"


class Roles:
    """The names under which a stream looks for its position, its time and its objects."""

    def __init__(self, stream: Stream) -> None:
        places = {X: stream.x, Y: stream.y, TIME: stream.time, KEY: stream.key}
        called = {name.casefold() for name, _ in stream.called}
        self._has_texts = stream.key is not None and stream.key_type is Type.STRING
        self._names: dict[str, tuple[str, bool]] = {}
        for role, place in places.items():
            if place is not None:
                is_named = stream.columns[place].name.casefold() in called
                self._names[role] = stream.names_of(place)[0], is_named

    def item(self, known: Mapping[str, Any], members: Mapping[str, Any]) -> dict[str, Any]:
        """A reading by the names that its stream looks for.

        `known` is what the format says of some roles, `members` all that it has under names.
        """
        folded = {name.casefold() for name in members}
        found: dict[str, Any] = {}
        key = known.get(KEY)
        if self._has_texts and isinstance(key, int):  # a number that is a name
            known = {**known, KEY: str(key)}
        for role, value in known.items():
            if role in self._names:
                name, is_named = self._names[role]
                if not (is_named and name.casefold() in folded):
                    found[name] = value
        for name, value in members.items():
            found.setdefault(name, value)
        return found
