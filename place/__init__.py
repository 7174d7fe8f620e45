"""PLACE: continuous queries over moving objects."""

from place.connection import Connection
from place.model.result import DeltaList
from place.session import Limits, Session, connect, within

__all__ = ["Connection", "DeltaList", "Limits", "Session", "connect", "within"]
__version__ = "0.1.0"
