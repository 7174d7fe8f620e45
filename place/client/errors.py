"""What a server says is wrong, as the errors that a session raises."""

from __future__ import annotations

import json

from place.errors import ConfigurationError, PlaceError, ReadingError, StatementError

LATER = (429, 502, 503, 504)
"""What a server answers that will serve again."""


class ServerError(ConfigurationError):
    """The server did not do what it was asked; `code` and `status` say why."""

    def __init__(self, status: int, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code


def error_of(status: int, content: bytes) -> PlaceError:
    """The error that a server has answered with."""
    try:
        error = json.loads(content)["error"]
        code, message, hint = error["code"], error["message"], error["hint"]
    except (ValueError, KeyError, TypeError):
        return ServerError(status, "unknown", f"the server answered {status}")
    if code in ("wrong_statement", "limit_exceeded", "conflict") and status < 500:
        return StatementError(message, line=error["line"], column=error["column"], hint=hint)
    if code in ("wrong_reading", "wrong_time", "wrong"):
        return ReadingError(message, hint=hint)
    return ServerError(status, code, message, hint)
