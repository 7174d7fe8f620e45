"""PLACE: continuous queries over moving objects."""

from place.connection import Connection
from place.model.result import DeltaList
from place.session import Session, connect

__all__ = ["Connection", "DeltaList", "Session", "connect"]
__version__ = "0.1.0"
