"""The chains of a cell: one for each shape of queries, made when the first query of it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from place.engine.chain import Chain, Workshop
from place.engine.chosen import Among
from place.engine.columns import Columns, Dictionary
from place.engine.compiled import Compiled, QueryShape
from place.engine.join_sources import area_of, elements_of, placed_of
from place.engine.matrix import Matrix
from place.engine.operator_specs import (
    JoinSpec,
    NearestJoinSpec,
    NearestSpec,
    PreviousSpec,
    ReverseSpec,
    StreamJoinSpec,
)
from place.engine.operators.contract import NEVER, Operator
from place.engine.operators.group_nearest import GroupNearest
from place.engine.operators.k_nearest import Nearest
from place.engine.operators.nearest_each import NearestEach
from place.engine.operators.nearest_join import NearestJoin
from place.engine.operators.reverse_nearest import ReverseNearest
from place.engine.operators.stream_join import StreamJoin
from place.engine.partial_answers import is_merged
from place.engine.stored_versions import StoredVersions
from place.engine.stores import Stores
from place.kernels.arrays import Longs
from place.model.schema import Relation, Stream
from place.plan.query import Focal, Query

Choosing = Nearest | GroupNearest | ReverseNearest
"""The operators that choose who is near to a place, to a focal object or to a group of them, or to
whom these are near."""


class Chains:
    """Chains by their shape, and by the numbers of their queries."""

    def __init__(
        self, matrix: Matrix, stores: Stores, dictionary: Dictionary, threads: int
    ) -> None:
        self._matrix = matrix
        self._stores = stores
        self._dictionary = dictionary
        self._threads = threads
        self._chains: dict[QueryShape, Chain] = {}
        self._chain_of: dict[int, Chain] = {}
        self._candidates: dict[QueryShape, int] = {}
        """For each shape of kNN queries, the number under which the region join knows their
        candidates."""
        self._tables: dict[str, tuple[Relation, pa.Table]] = {}
        self._partners: dict[tuple[str, tuple[int, ...]], Columns] = {}

    def __iter__(self) -> Iterator[Chain]:
        return iter(self._chains.values())

    def of(self, number: int) -> Chain | None:
        """The chain of a query; None if it is not in this cell's column."""
        return self._chain_of.get(number)

    # Queries come and go

    def begin(self, number: int, compiled: Compiled, tables: Mapping[str, pa.Table]) -> bool:
        """A query begins; is its chain a new one?"""
        self._load_tables(compiled, tables)
        chain = self._chains.get(compiled.shape)
        is_new = chain is None
        if chain is None:
            chain = self._chains[compiled.shape] = self._made(compiled)
        self._chain_of[number] = chain
        chain.put(number, compiled.constants)
        for chooser in chain.operators:
            if isinstance(chooser, NearestEach):
                assert compiled.asked.nearest is not None
                chooser.put(number, compiled.asked.nearest.k)
        for operator in nearest_of(chain):
            clause = compiled.asked.nearest
            assert clause is not None
            if isinstance(operator, GroupNearest):
                assert clause.group is not None
                operator.put(number, clause, self._focals_of(clause.group.places))
            elif isinstance(operator, ReverseNearest):
                self._put_reverse(operator, number, compiled.asked)
            else:
                operator.put(number, clause, int(self._focals_of((clause.focal,))[0]))
        return is_new

    def _put_reverse(self, operator: ReverseNearest, number: int, asked: Query) -> None:
        clause, key, has_rank = asked.nearest, None, False
        assert clause is not None
        focal = clause.focal
        if focal is not None:
            key = self._stores.key_number(focal.stream, focal.key)
            has_rank = focal.stream == asked.sources[asked.subject].relation.name
        led = int(self._focals_of((focal,))[0])
        operator.put(number, clause, led, key, has_rank=has_rank)

    def _focals_of(self, places: Sequence[object]) -> Longs:
        """The numbers of the focal objects among places; −1 for points."""
        return np.array(
            [self._stores.focal_number(p) if isinstance(p, Focal) else -1 for p in places], np.int64
        )

    def begin_alike(self, numbers: Longs, compiled: Sequence[Compiled]) -> None:
        """More queries begin that are like one that has begun."""
        chain = self._chains[compiled[0].shape]
        self._chain_of.update(dict.fromkeys(numbers.tolist(), chain))
        chain.begin_all(numbers, compiled[0].constants)

    def add_candidates(self, number: int, compiled: Compiled) -> None:
        """The candidates of the kNN queries of a shape are known by a number of their own.

        Their constants are those of any query of the shape, because they are part of it.
        """
        chain = self._chains[compiled.shape]
        self._candidates[compiled.shape] = number
        self._chain_of[number] = chain
        chain.parameters.put(number, compiled.constants)

    def candidates_of(self, number: int) -> int:
        """The number by which the region join knows a query: that of its candidates, for kNN."""
        chain = self._chain_of[number]
        return self._candidates.get(chain.shape, number)

    def forget(self, ended: list[int]) -> list[int]:
        """Forget queries that have ended. Returns the numbers of sets of candidates that no query
        uses any more."""
        gone: list[int] = []
        left = {id(chain): chain for n in ended if (chain := self._chain_of.pop(n, None))}
        for shape in [chain.shape for chain in left.values()]:
            if not self._chains[shape].queries:
                del self._chains[shape]
                if shape in self._candidates:
                    gone.append(self._candidates.pop(shape))
        for number in gone:
            self._chain_of.pop(number)
        return gone

    def forget_tables(self, read: set[str]) -> None:
        """Drop the tables that no query reads any more."""
        self._tables = {name: rows for name, rows in self._tables.items() if name in read}
        self._partners = {key: rows for key, rows in self._partners.items() if key[0] in read}

    def _load_tables(self, compiled: Compiled, tables: Mapping[str, pa.Table]) -> None:
        query = compiled.asked
        joined = {
            source
            for spec in compiled.shape.lower
            if isinstance(spec, JoinSpec)
            for source, _, _ in spec.tables
        }
        for i, source in enumerate(query.sources):
            if source.is_stream:
                continue
            name = source.relation.name
            if i in joined or query.is_join:
                self._tables.setdefault(name, (source.relation, tables[name]))
            else:
                is_regions = query.query_table is not None and query.query_table.source == i
                self._stores.load_table(source.relation, tables[name], is_regions=is_regions)

    def partner(self, name: str, needed: tuple[int, ...]) -> Columns:
        """The rows of a table that is joined, kept once for all that need the same."""
        key = (name, needed)
        if key not in self._partners:
            relation, rows = self._tables[name]
            self._partners[key] = Columns.from_arrow(
                tuple(relation.columns[i] for i in needed),
                self._dictionary,
                [rows.column(i) for i in needed],
            )
        return self._partners[key]

    def _made(self, compiled: Compiled) -> Chain:
        shape = compiled.shape
        chain = Chain(shape, self._dictionary)
        workshop = Workshop(
            self._dictionary,
            self.partner,
            self._stores.subjects.get(compiled.subject),
            lambda spec: self._nearest(spec, compiled),
            lambda spec, chain: self._stream_join(spec, chain, compiled.asked),
        )
        chain.operators = workshop.lower(chain)
        if not is_merged(shape, self._matrix):
            chain.operators += workshop.upper(chain, merges=False)
        return chain

    def _nearest(self, spec: NearestSpec, compiled: Compiled) -> Operator:
        shape = compiled.shape
        among = Among(
            self._stores.subjects[compiled.subject],
            shape.subject,
            len(shape.needed),
            shape.needed[shape.subject],
            compiled.asked.space,
            not compiled.has_regions,
            is_merged(shape, self._matrix),
            self._threads,
        )
        if spec.is_group:
            return GroupNearest(among, self._stores.focals)
        return Nearest(among, self._stores.focals)

    def _stream_join(self, spec: StreamJoinSpec, chain: Chain, asked: Query) -> Operator:
        if isinstance(spec, NearestJoinSpec):
            return self._nearest_join(spec)
        if isinstance(spec, ReverseSpec):
            return self._reverse(spec)
        elements = [
            elements_of(spec, i, asked, self._stores, self.partner) for i in range(spec.width)
        ]
        areas = [area_of(spec, i) for i in range(spec.width)]
        parameters, dictionary = chain.parameters, self._dictionary
        is_whole = self._matrix.rows == 1
        return StreamJoin(
            spec, elements, parameters, areas, dictionary, self._threads, is_whole=is_whole
        )

    def _nearest_join(self, spec: NearestJoinSpec) -> Operator:
        assert spec.rank is not None
        assert spec.rank.around is not None
        centers, candidates = (
            placed_of(spec, source, self._stores, self.partner)
            for source in (spec.rank.around, spec.rank.among)
        )
        return NearestJoin(spec, centers, candidates, self._threads)

    def _reverse(self, spec: ReverseSpec) -> Operator:
        stores, relation = self._stores, spec.sources[spec.subject].relation
        placed = placed_of(spec, spec.subject, stores, self.partner)
        mine = led = texts = None
        if isinstance(relation, Stream):
            texts = stores.texts(stores.subjects[relation.name])
        else:
            placed.load()
            every = np.arange(len(placed.places))
            own = stores.place.has_objects(every, None)
            mine = every if own is None else every[own]
        if spec.led is not None and spec.shown[spec.led]:
            name = spec.sources[spec.led].relation.name
            led = StoredVersions(name, stores.holding(name))
        return ReverseNearest(spec, placed, mine, led, stores.focals, texts, self._threads)

    # What is held

    def next_expiry(self) -> int:
        """The next instant at which something happens, if nothing else does."""
        return min((chain.next_expiry() for chain in self), default=NEVER)

    def contents(
        self, asked: Callable[[Longs], tuple[Query, ...]]
    ) -> list[tuple[list[str], pa.Table]]:
        """What operators hold that does not follow from objects: the names of queries in the order
        in which the first column counts them, and the rows."""
        found = []
        for chain in self:
            table = chain.save()
            if table is not None:
                numbers = table.column(0).to_numpy()
                known = np.unique(numbers)
                names = [query.name for query in asked(known)]
                places = pa.array(np.searchsorted(known, numbers))
                found.append((names, table.set_column(0, "0", places)))
        return found

    def content(self, number: int) -> pa.Table | None:
        """What the operators of one query hold; None if it is not in this cell's column."""
        chain = self._chain_of.get(number)
        return None if chain is None else chain.content(number)

    def windowed(self) -> set[str]:
        """The streams of whose readings joins have windows."""
        return {
            source.relation.name
            for chain in self
            for spec in chain.shape.lower
            if isinstance(spec, StreamJoinSpec)
            for source in spec.sources
            if source.window is not None
        }

    def reach_everywhere(self, stream: str) -> bool:
        """Do queries need all objects of a stream? kNN and joins do, and `WINDOW PREVIOUS`, which
        waits for the next reading of everybody."""
        joined = {
            source.relation.name
            for chain in self
            for spec in chain.shape.lower
            if isinstance(spec, StreamJoinSpec)
            for source in spec.sources
        }
        return stream in joined or any(
            chain.shape.sources[chain.shape.subject].name == stream
            and any(isinstance(spec, PreviousSpec | NearestSpec) for spec in chain.shape.lower)
            for chain in self
        )

    def nearest(self) -> list[Choosing]:
        """All operators that choose who is near."""
        return [operator for chain in self for operator in nearest_of(chain)]


def nearest_of(chain: Chain) -> list[Choosing]:
    """The operators of a chain that choose who is near."""
    return [operator for operator in chain.operators if isinstance(operator, Choosing)]
