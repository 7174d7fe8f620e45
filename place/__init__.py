"""PLACE: continuous queries over moving objects."""

from place.session import Limits, Session, connect, within

__all__ = ["Limits", "Session", "connect", "within"]
__version__ = "0.1.0"
