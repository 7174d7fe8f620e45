"""What an archive can be asked: errors that name the times that are there."""

from __future__ import annotations

from place.errors import StatementError
from place.model.schema import Stream
from place.model.time import format_timestamp
from place.plan.catalog import Catalog
from place.plan.past import Question, since_then
from place.plan.past_reads import start_of
from place.plan.query import Query
from place.runtime.archive import Archive, Span
from place.runtime.interface import Runtime
from place.sql.statements import Position, wrong


def check_range(archive: Archive, question: Question) -> None:
    """Raise a StatementError if a question is about a time of which the archive knows nothing."""
    streams = question.streams
    for stream in streams:
        if stream.archiving is None:
            raise wrong(
                f'of stream "{stream.name}" no past is kept',
                question.at[0],
                hint="create it with the option archive = 'all'",
            )
    spans = {stream.name: _kept(archive, stream, question.begin) for stream in streams}
    known = {name: span for name, span in spans.items() if span is not None}
    if not known:
        raise wrong(
            f"nothing is archived yet of {' and '.join(spans)}",
            question.at[0],
            hint="ask again when readings have come",
        )
    begin = max(span.begin for span in known.values())
    end = min(span.end for span in known.values())
    for time, at in zip((question.begin, question.last), question.at, strict=True):
        if time < begin or time > end:
            raise _outside(time, known, at or question.at[0])
    _check_reach(question, streams, known)


def _kept(archive: Archive, stream: Stream, at: int) -> Span | None:
    """The times that an archive has to have. It may have removed less than `keep` allows, which is
    nothing to rely on; but what is pinned may be asked for."""
    span = archive.span(stream, at)
    keep = None if stream.archiving is None else stream.archiving.keep
    if span is None or keep is None or span.is_pinned:
        return span
    return Span(max(span.begin, span.end - keep), span.end)


def check_beginning(runtime: Runtime, catalog: Catalog, query: Query, at: Position) -> None:
    """Raise a StatementError if a query cannot begin in the past at the time that it names."""
    assert query.since is not None
    if not query.streams:
        raise wrong("what reads no stream has no past", at, hint="leave FROM 'time' out")
    question = since_then(catalog, query, query.since, at)
    check_range(runtime.archive, question)
    for stream in question.streams:
        if stream.archiving is not None and not stream.archiving.is_complete:
            raise wrong(
                f"a query cannot begin in the past of {stream.name}: not every reading is archived",
                at,
                hint="ask with SELECT … BETWEEN, or create the stream with archive = 'all'",
            )


def _outside(time: int, spans: dict[str, Span], at: Position | None) -> StatementError:
    """What to say of a time that not all archives have."""
    begin = max(span.begin for span in spans.values())
    where = "before" if time < begin else "after"
    shown = format_timestamp(time)
    if len(spans) == 1:
        ((name, span),) = spans.items()
        return wrong(f"{shown} is {where} the past of {name}, which is {_shown(span)}", at)
    each = ", ".join(f"{name} {_shown(span)}" for name, span in spans.items())
    common = Span(begin, min(span.end for span in spans.values()))
    both = "they have no time in common" if common.begin > common.end else "in common: "
    both += "" if common.begin > common.end else _shown(common)
    return wrong(f"{shown} is {where} what is known of all streams: {each}; {both}", at)


def _shown(span: Span) -> str:
    return f"from {format_timestamp(span.begin)} to {format_timestamp(span.end)}"


def _check_reach(question: Question, streams: list[Stream], spans: dict[str, Span]) -> None:
    """A window that reaches back to before an archive misses what was removed there."""
    start = start_of(question)
    for stream in streams:
        span, kept = spans.get(stream.name), stream.archiving
        if span is None or kept is None or kept.keep is None or start is None:
            continue
        is_cut = span.is_pinned or span.end - span.begin >= kept.keep
        if is_cut and start < span.begin and question.query.needs_history:
            raise wrong(
                f"a window reaches back to {format_timestamp(start)}, and the past of"
                f" {stream.name} is {_shown(span)}",
                question.at[0],
                hint="ask about a later time, or keep more",
            )
