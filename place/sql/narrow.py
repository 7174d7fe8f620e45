"""A SELECT that asks more than its author wrote: conditions on the sources of its FROM.

They are put into the text, because a definition is kept as the statement that made it. Where FROM
and WHERE end is what the grammar says, not a search for words.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot.tokenizer_core import TokenType

from place.sql.dialect import Place
from place.sql.parser import StatementParser


def qualified(condition: str, columns: Mapping[str, str], alias: str) -> str:
    """A condition whose columns are those of an alias; `columns` has their names by folded ones.

    >>> qualified("fleet = 'fleet' AND size > 3", {"fleet": "fleet", "size": "size"}, "c")
    '"c"."fleet" = \\'fleet\\' AND "c"."size" > 3'
    """
    tokens = Place.Tokenizer(dialect=Place).tokenize(condition)
    made = condition
    for place in reversed(range(len(tokens))):
        token = tokens[place]
        name = columns.get(token.text.casefold())
        if name is None or token.token_type is TokenType.STRING:
            continue
        if place and tokens[place - 1].token_type is TokenType.DOT:
            continue
        if place + 1 < len(tokens) and tokens[place + 1].token_type is TokenType.L_PAREN:
            continue  # a function of that name
        made = made[: token.start] + f"{quoted(alias)}.{quoted(name)}" + made[token.end + 1 :]
    return made


def narrowed(sql: str, conditions: list[str]) -> str:
    """A statement with a SELECT, in which these conditions have to hold, too."""
    if not conditions:
        return sql
    parser = StatementParser(dialect=Place)
    tokens = Place.Tokenizer(dialect=Place).tokenize(sql)
    parser.parse_statement(tokens, sql, sql, 0)
    more = " AND ".join(f"({condition})" for condition in conditions)
    after_from, where = parser.spans
    if where is None:
        return f"{sql[:after_from]} WHERE {more}{sql[after_from:]}"
    begin, end = where
    return f"{sql[:begin]}{more} AND ({sql[begin:end]}){sql[end:]}"


def quoted(name: str) -> str:
    """A name as it can stand in any statement."""
    return '"' + name.replace('"', '""') + '"'
