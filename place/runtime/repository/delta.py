"""Tables of Delta Lake: which files a table has, and commits that add and remove some at once.

Files are written by others; here they become part of a table, or cease to be. A commit carries the
tick up to which the table is complete, as Delta's transaction of an application: whoever opens the
table knows what it has, and of two processes that commit the same tick one fails.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from place.errors import PlaceError

APPLICATION = "place"
"""The name under which ticks are recorded."""
_CONFIGURATION = {
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": "interval 1 days",
}


class RepositoryFault(PlaceError):
    """The repository is damaged, gone, or cannot be reached; live queries go on."""


@dataclass(frozen=True)
class TableFile:
    """A file of a table: its name below the table's directory, and what is known of its rows."""

    path: str
    size: int
    rows: int
    day: str
    least: Mapping[str, object] = field(default_factory=dict, compare=False)
    greatest: Mapping[str, object] = field(default_factory=dict, compare=False)
    nulls: Mapping[str, int] = field(default_factory=dict, compare=False)


class Delta:
    """One table. `root` is a path or an address of an object store, as storages have them."""

    def __init__(self, root: str, name: str, schema: pa.Schema, day: str) -> None:
        self._address, self._options = _address(root, name)
        self._schema, self._day = schema, day
        self._table: DeltaTable | None = None

    def open(self) -> bool:
        """See the table as it is now; False if there is none yet."""
        try:
            if self._table is None:
                self._table = DeltaTable(self._address, storage_options=self._options)
            else:
                self._table.update_incremental()
        except TableNotFoundError:
            self._table = None
            return False
        except (DeltaError, OSError, ValueError) as error:
            self._table = None
            raise _fault(self._address, error) from None
        return True

    def tick(self, application: str = APPLICATION) -> int | None:
        """The tick of the last commit, as of when the table was opened."""
        if self._table is None:
            return None
        found: int | None = self._table.transaction_version(application)
        return found

    @property
    def version(self) -> int:
        return -1 if self._table is None else int(self._table.version())

    def files(self) -> list[TableFile]:
        """The files of the table, as of when it was opened."""
        if self._table is None:
            return []
        try:
            found = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        except (DeltaError, OSError, ValueError) as error:
            raise _fault(self._address, error) from None
        return [
            TableFile(
                unquote(each["path"]),
                each["size_bytes"],
                each["num_records"] or 0,
                str(each[f"partition.{self._day}"]),
                {k[4:]: v for k, v in each.items() if k.startswith("min.")},
                {k[4:]: v for k, v in each.items() if k.startswith("max.")},
                {k[11:]: v or 0 for k, v in each.items() if k.startswith("null_count.")},
            )
            for each in found
        ]

    def commit(
        self,
        added: Sequence[TableFile],
        removed: Iterable[TableFile],
        transactions: Mapping[str, int],
        note: str,
    ) -> None:
        """Add and remove files at once, with the ticks of applications that this is done for."""
        now = int(time.time() * 1000)
        try:
            if self._table is None:
                self._table = DeltaTable.create(
                    self._address,
                    self._schema,
                    mode="ignore",
                    partition_by=[self._day],
                    configuration=_CONFIGURATION,
                    storage_options=self._options,
                )
            actions: list[AddAction | RemoveAction] = [
                AddAction(each.path, each.size, {self._day: each.day}, now, True, _stats(each))
                for each in added
            ]
            actions += [
                RemoveAction(each.path, True, now, each.size, {self._day: each.day})
                for each in removed
            ]
            self._table.create_write_transaction(
                actions,
                "append",
                self._schema,
                [self._day],
                commit_properties=CommitProperties(
                    custom_metadata={"place": note},
                    max_commit_retries=0,
                    app_transactions=[Transaction(*each) for each in transactions.items()],
                ),
            )
            self._table.update_incremental()
        except (DeltaError, OSError, ValueError) as error:
            self._table = None
            raise _fault(self._address, error) from None


def _stats(file: TableFile) -> str:
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": file.least,
            "maxValues": file.greatest,
            "nullCount": file.nulls,
        }
    )


def _address(root: str, name: str) -> tuple[str, dict[str, str] | None]:
    """Where a table is, and how its store is reached; credentials are those of the environment."""
    scheme, sign, _ = root.partition("://")
    if not sign or scheme == "file":
        path = unquote(urlsplit(root).path) if sign else root
        return f"{path}/{name}", None
    parts = urlsplit(root)
    given = dict(parse_qsl(parts.query))
    options: dict[str, str] = {}
    endpoint = given.get("endpoint_override")
    if endpoint and "://" not in endpoint:
        endpoint = f"{given.get('scheme', 'https')}://{endpoint}"
    for option, value in (
        ("region", given.get("region")),
        ("endpoint", endpoint),
        ("account_name", given.get("account")),
        ("allow_http", "true" if (endpoint or "").startswith("http://") else None),
        ("skip_signature", "true" if given.get("anonymous") in ("true", "1", "yes") else None),
    ):
        if value:
            options[option] = value
    prefix = unquote(parts.path).strip("/")
    known = {"s3a": "s3", "gcs": "gs", "abfs": "az"}.get(scheme, scheme)
    where = f"{parts.netloc}/{prefix}/{name}" if prefix else f"{parts.netloc}/{name}"
    return f"{known}://{where}", options


def _fault(address: str, error: Exception) -> RepositoryFault:
    said = str(error).partition("\n")[0][:300]
    return RepositoryFault(
        f"the repository at {address} cannot be used: {said}",
        hint="restore it from a copy, or move it away: live queries go on without it",
    )
