"""Where a storage is, as it is given: a path of this machine, or a URI of an object store.

Whoever only has to tell one from the other needs no client of stores, which is large.
"""

from __future__ import annotations

SCHEMES = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "az": "az", "abfs": "az"}
"""The schemes of URIs, and the kind of store that each names."""


def is_object_store(root: str) -> bool:
    """Does a URI name an object store?"""
    return root.partition("://")[0] in SCHEMES and "://" in root


def shown(root: str) -> str:
    """A URI or path as it may be shown: without what may be a secret."""
    scheme, sign, rest = root.partition("://")
    if not sign:
        return root
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"
