"""Objects of a store such as S3, by their names below a prefix.

An object appears with all of its content when it is put, and a put can be made to succeed only if
there is no object of that name: the store decides between two who try. Both are what `obstore`
offers, so all access goes through it.

Where the store is, and its region, stand in the query of the URI as `pyarrow.fs` reads them:
`s3://bucket/prefix?endpoint_override=http://127.0.0.1:9000&region=eu-west-1`. Credentials are those
of the environment, or of the machine; a URI is shown and written down, so it must hold none.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from place.errors import ConfigurationError
from place.runtime.durable.address import SCHEMES, shown

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

_OPTIONS = {
    "s3": ("endpoint_override", "region", "scheme", "anonymous"),
    "gs": ("anonymous",),
    "az": ("account", "endpoint_override", "scheme", "anonymous"),
}
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PATIENCE: RetryConfig = {"max_retries": 8, "retry_timeout": timedelta(seconds=60)}
_ANY_CODE = re.compile(r"<Code>(\w+)</Code>")
Store = S3Store | GCSStore | AzureStore


class ObjectStore:
    """The objects below the prefix that a URI names."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._store = _opened(root)

    def write(
        self, name: str, fill: Callable[[pa.NativeFile], object], *, lasts: bool = True
    ) -> int:
        """Put an object in the place of the one that may be there; its size."""
        content = _filled(fill)
        with _as_system_errors(name):
            obstore.put(self._store, name, content)
        return content.nbytes

    def create(self, name: str, fill: Callable[[pa.NativeFile], object]) -> int | None:
        """Put an object if there is none of that name; its size, or None if there is one.

        A request whose answer was lost is sent again, and then finds its own object: that is told
        by the content, which no two writers have in common.
        """
        content = _filled(fill)
        with _as_system_errors(name):
            try:
                obstore.put(self._store, name, content, mode="create")
            except AlreadyExistsError:
                if self._content(name) != pa.py_buffer(content):
                    return None
        return content.nbytes

    def replace(self, name: str, fill: Callable[[pa.NativeFile], object]) -> None:
        """Put an object in the place of the one that may be there."""
        self.write(name, fill)

    def move(self, name: str, to: str) -> None:
        """Give an object another name."""
        with _as_system_errors(to):
            obstore.copy(self._store, name, to)
            obstore.delete(self._store, name)

    def read(self, name: str) -> bytes:
        """All that is in an object."""
        with _as_system_errors(name):
            content: bytes = self._content(name).to_pybytes()
            return content

    def open(self, name: str) -> pa.NativeFile:
        """An object to read at any place; it is fetched whole."""
        with _as_system_errors(name):
            return pa.BufferReader(self._content(name))

    def open_lazily(self, name: str) -> pa.NativeFile:
        """An object of which only the parts are fetched that are read."""
        with _as_system_errors(name):
            return pa.PythonFile(obstore.open_reader(self._store, name, buffer_size=1), mode="r")

    def open_part(self, name: str, first: int, size: int) -> pa.NativeFile:
        """A part of an object to read at any place."""
        with _as_system_errors(name):
            found = obstore.get_range(self._store, name, start=first, length=size)
            return pa.BufferReader(pa.py_buffer(found))

    def head(self, name: str, most: int) -> tuple[bytes, int]:
        """The first bytes of an object, and its size."""
        with _as_system_errors(name):
            size = int(obstore.head(self._store, name)["size"])
            wanted = min(size, most)
            if not wanted:
                return b"", size
            return bytes(obstore.get_range(self._store, name, start=0, length=wanted)), size

    def exists(self, name: str) -> bool:
        """Is there an object of that name?"""
        try:
            with _as_system_errors(name):
                obstore.head(self._store, name)
        except FileNotFoundError:
            return False
        return True

    def list(self, directory: str) -> Iterator[tuple[str, int]]:
        """The objects below a directory, with their sizes, in the order of their names."""
        with _as_system_errors(directory):
            found = obstore.list(self._store, prefix=directory).collect()
        yield from sorted((each["path"], int(each["size"])) for each in found)

    def names(self, directory: str) -> Sequence[str]:
        """The names of the objects right below a directory, in their order."""
        with _as_system_errors(directory):
            found = obstore.list_with_delimiter(self._store, prefix=directory)["objects"]
        return sorted(each["path"].rpartition("/")[2] for each in found)

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""
        with contextlib.suppress(FileNotFoundError), _as_system_errors(name):
            obstore.delete(self._store, name)

    def _content(self, name: str) -> pa.Buffer:
        return pa.py_buffer(obstore.get(self._store, name).bytes())


def _filled(fill: Callable[[pa.NativeFile], object]) -> memoryview:
    out = pa.BufferOutputStream()
    fill(out)
    return memoryview(out.getvalue()).cast("B")


@lru_cache(maxsize=64)
def _opened(root: str) -> Store:
    """The store of a URI; connections are shared by all who open it in a process."""
    kind, parts = SCHEMES[root.partition("://")[0]], urlsplit(root)
    bucket, prefix = parts.netloc, unquote(parts.path).strip("/") or None
    if "@" in bucket:
        raise ConfigurationError(
            f"{shown(root)} is given with credentials, which would be shown and written down",
            hint="leave them out and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or those of"
            " your store, in the environment of all machines",
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in _OPTIONS[kind]:
            raise ConfigurationError(
                f'{shown(root)} has the option "{name}", which is not known',
                hint=f"options: {', '.join(_OPTIONS[kind])}",
            )
    if not bucket:
        raise ConfigurationError(f"{shown(root)} names no bucket")
    endpoint, client = _endpoint(root, options)
    is_anonymous = options.get("anonymous", "false").casefold() in ("true", "1", "yes")
    try:
        if kind == "s3":
            given = {"region": options.get("region"), "endpoint": endpoint}
            return S3Store(
                bucket,
                prefix=prefix,
                client_options=client,
                retry_config=_PATIENCE,
                skip_signature=is_anonymous,
                **{name: value for name, value in given.items() if value},  # type: ignore[arg-type]
            )
        if kind == "gs":
            return GCSStore(
                bucket,
                prefix=prefix,
                client_options=client,
                retry_config=_PATIENCE,
                skip_signature=is_anonymous,
            )
        given = {"account_name": options.get("account"), "endpoint": endpoint}
        return AzureStore(
            bucket,
            prefix=prefix,
            client_options=client,
            retry_config=_PATIENCE,
            skip_signature=is_anonymous,
            **{name: value for name, value in given.items() if value},  # type: ignore[arg-type]
        )
    except (BaseError, ValueError) as error:
        raise ConfigurationError(f"{shown(root)} cannot be opened: {_said(error)}") from None


def _endpoint(root: str, options: dict[str, str]) -> tuple[str | None, ClientConfig]:
    """The address of the store, if the URI names one. Without encryption it is taken on this
    machine, and elsewhere only if the URI says so."""
    client: ClientConfig = {"timeout": "60s", "connect_timeout": "10s"}
    endpoint = options.get("endpoint_override")
    if not endpoint:
        return None, client
    if "://" not in endpoint:
        endpoint = f"{options.get('scheme', 'https')}://{endpoint}"
    if endpoint.startswith("http://"):
        if urlsplit(endpoint).hostname not in _LOOPBACK and options.get("scheme") != "http":
            raise ConfigurationError(
                f"{shown(root)} would be reached without encryption",
                hint="write scheme=http in its query if that is meant",
            )
        client["allow_http"] = True
    return endpoint, client


@contextlib.contextmanager
def _as_system_errors(name: str) -> Iterator[None]:
    """Errors as those of files are: a missing object is a FileNotFoundError, all else an OSError.

    What a store says at length may repeat what was sent to it, so only its code is passed on.
    """
    try:
        yield
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error):
            raise OSError(f"{name}: there is no such bucket") from None
        raise FileNotFoundError(f"{name} is not there") from None
    except (BaseError, OSError, ValueError) as error:
        raise OSError(f"{name}: {_said(error)}") from None


def _said(error: Exception) -> str:
    """What is wrong, in a line without what the store repeats."""
    text = str(error)
    found = _ANY_CODE.search(text)
    first = text.partition("\n")[0].partition(" - Server returned")[0].partition("<?xml")[0]
    return f"{first.rstrip(': ')} ({found[1]})" if found else first
