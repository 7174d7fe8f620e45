"""Where statements end: a text is cut at semicolons outside quotes and comments.

Also what a prompt has to know: whether the text so far is complete, and where a quote was opened
that is never closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from place.errors import StatementError
from place.sql.limits import check_text

_QUOTES = r"""(?P<string>'[^']*+(?:''[^']*+)*+(?P<closed>')?)
      | (?P<identifier>"[^"]*+(?:""[^"]*+)*+(?P<shut>")?)
      | (?P<line_comment>--[^\n]*)
      | (?P<end>;)"""
_TOKEN = re.compile(_QUOTES + r"| (?P<comment>/\*(?:.*?(?P<ended>\*/)|.*))", re.VERBOSE | re.DOTALL)
_TOKEN_AFTER_COMMENTS = re.compile(_QUOTES + r"| (?P<comment>/\*)(?P<ended>(?!))?", re.VERBOSE)
"""Where no comment ends any more: then none is searched for its end, each time in vain."""
_LINE_END = re.compile(r";[ \t]*(?=\n|\Z)")


def locate(text: str, offset: int) -> tuple[int, int]:
    """The line and column of an offset, both from 1.

    >>> locate("ab\\ncd", 4)
    (2, 2)
    """
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def split(text: str) -> Iterator[tuple[int, str]]:
    """The statements of a text, each with its offset; empty ones are passed over.

    Where a quote is not closed, its statement ends with the line that ends in a semicolon, so
    that one slip of a quote does not swallow the statements after it.

    >>> [sql for _, sql in split("SELECT ';'; -- one;\\nSHOW QUERIES;")]
    ["SELECT ';'", ' -- one;\\nSHOW QUERIES']
    """
    check_text(text)
    start = position = 0
    token = _TOKEN
    while position < len(text):
        match = token.search(text, position)
        if match is None:
            break
        position = match.end()
        if _unclosed(match):
            if match["comment"]:
                token = _TOKEN_AFTER_COMMENTS
            line_end = _LINE_END.search(text, match.start())
            if line_end is None:
                break
            yield start, text[start : line_end.start()]
            start = position = line_end.end()
        elif match["end"]:
            if _says_something(text[start : match.start()]):
                yield start, text[start : match.start()]
            start = position
    if _says_something(text[start:]):
        yield start, text[start:]


def _unclosed(match: re.Match[str]) -> bool:
    return bool(
        (match["string"] and not match["closed"])
        or (match["identifier"] and not match["shut"])
        or (match["comment"] and not match["ended"])
    )


def _says_something(text: str) -> bool:
    if "--" not in text and "/*" not in text:
        return bool(text.strip())
    bare = _TOKEN.sub(lambda m: "" if m["line_comment"] or m["comment"] else m[0], text)
    return bool(bare.strip())


def is_complete(text: str) -> bool:
    """Does a prompt have the whole statement: does its last line end in a semicolon?

    A semicolon at the end of a line submits even inside an open quote: the error that follows
    says where the quote was opened, and the next statement starts afresh.
    """
    stripped = text.rstrip()
    return stripped.endswith(";") or not _says_something(stripped)


def check_closed(sql: str, text: str, offset: int) -> None:
    """Raise a StatementError if a quote, a quoted name or a comment in `sql` is never closed.

    `sql` stands at `offset` of `text`, by which the error is located.
    """
    for match in _TOKEN.finditer(sql):
        if _unclosed(match):
            what, close = (
                ("the string", "'")
                if match["string"]
                else ("the quoted name", '"')
                if match["identifier"]
                else ("the comment", "*/")
            )
            line, column = locate(text, offset + match.start())
            raise StatementError(
                f"{what} that starts here is not closed",
                line=line,
                column=column,
                expected=close,
                hint="write a quote inside a string twice: 'O''Hare'" if match["string"] else None,
            )
