"""Errors as answers to HTTP requests: one shape, whatever went wrong."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from place.errors import (
    ConfigurationError,
    InternalError,
    LimitError,
    PlaceError,
    ReadingError,
    StatementError,
)
from place.runtime.durable.storage import StorageFault, StorageFull

LOG = logging.getLogger("place.server")
CONFLICTS = ('" exists already', '" is used by')
KINDS = ('stream "', 'table "', 'region "', 'query "', 'sink "')
"""What the catalog says of a name that is taken, or of a definition that others stand on. It is
looked for without a regular expression: names are as long as their writer likes."""


def _is_conflict(message: str) -> bool:
    """Does a message say of a definition that its name is taken, or that others stand on it?"""
    starts = [at for kind in KINDS if (at := message.find(kind)) >= 0]
    ends = [at for said in CONFLICTS if (at := message.rfind(said)) >= 0]
    return bool(starts) and bool(ends) and min(starts) < max(ends)


class Refused(PlaceError):
    """A request that is not served: its status, and a code for programs."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code
        self.headers = headers


def not_found(what: str, name: str) -> Refused:
    """Unknown, or not theirs: the words are the same, so that nobody learns which names exist."""
    return Refused(404, f"unknown_{what}", f'{what} "{name}" does not exist')


def too_large(limit: int) -> Refused:
    return Refused(
        413, "too_large", f"the body is larger than {limit:,} bytes", hint="send it in parts"
    )


def busy(reason: str, seconds: int) -> Refused:
    """Later, please."""
    return Refused(
        429,
        "busy",
        reason,
        hint=f"try again in {seconds} s",
        headers={"Retry-After": str(seconds)},
    )


def error_body(
    code: str,
    message: str,
    hint: str | None = None,
    line: int | None = None,
    column: int | None = None,
) -> dict[str, Any]:
    """The one shape of an error.

    >>> error_body("gone", "too late")["error"]["code"]
    'gone'
    """
    return {
        "error": {"code": code, "message": message, "hint": hint, "line": line, "column": column}
    }


def described(error: PlaceError) -> tuple[int, dict[str, Any]]:
    """The status and the body of an error of ours."""
    if isinstance(error, Refused):
        return error.status, error_body(error.code, error.message, error.hint)
    if isinstance(error, StatementError):
        message = error.message + (f", expected {error.expected}" if error.expected else "")
        taken = _is_conflict(error.message)
        status, code = (409, "conflict") if taken else (400, "wrong_statement")
        if isinstance(error, LimitError):
            status, code = 400, "limit_exceeded"
        return status, error_body(code, message, error.hint, error.line, error.column)
    if isinstance(error, StorageFull):
        return 507, error_body("storage_full", error.message, error.hint)
    if isinstance(error, StorageFault):
        LOG.error("storage: %s", error)
        return 503, error_body("storage_fault", "the storage of the server does not work")
    if isinstance(error, InternalError):
        LOG.error("a bug: %s", error)
        return 500, error_body("internal", "this is a bug of the server; its log says more")
    if isinstance(error, ReadingError):
        return 400, error_body("wrong_reading", error.message, error.hint)
    code = "refused" if isinstance(error, ConfigurationError) else "wrong"
    return 400, error_body(code, error.message, error.hint)


def reply(
    status: int, body: dict[str, Any], headers: Mapping[str, str] | None = None
) -> JSONResponse:
    return JSONResponse(body, status, dict(headers) if headers else None)


def add_handlers(app: FastAPI) -> None:
    """Answer every error in the one shape."""

    async def ours(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, PlaceError)
        status, body = described(error)
        return reply(status, body, error.headers if isinstance(error, Refused) else None)

    async def http(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        phrase = HTTPStatus(error.status_code).phrase.lower()
        code = "too_large" if error.status_code == 413 else re.sub(r"\W", "_", phrase)
        return reply(error.status_code, error_body(code, str(error.detail)), error.headers)

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        found = error.errors()[0]
        place = ".".join(str(part) for part in found["loc"])
        return reply(422, error_body("invalid_request", f"{place}: {found['msg']}"))

    async def unexpected(_: Request, error: Exception) -> JSONResponse:
        LOG.error("a bug: %s", error, exc_info=error)
        # The connection is closed after a bug: who would send the next request on it has to know.
        body = error_body("internal", "this is a bug of the server; its log says more")
        return reply(500, body, {"Connection": "close"})

    app.add_exception_handler(PlaceError, ours)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(Exception, unexpected)
