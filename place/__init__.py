"""PLACE: continuous queries over moving objects."""

from place.session import Session, connect

__all__ = ["Session", "connect"]
__version__ = "0.1.0"
