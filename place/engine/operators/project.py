"""The columns of the answer: each output of SELECT, made of the rows below."""

from __future__ import annotations

from dataclasses import replace

from place.engine.columns import Dictionary
from place.engine.flow import Flow
from place.engine.operator_specs import ProjectSpec
from place.engine.operators.contract import Parameters, Span, Stateless
from place.engine.vector import as_columns, evaluate_all
from place.model.schema import Column


class Project(Stateless):
    """Makes rows of outputs; the rows become source 0."""

    name = "answer"

    def __init__(self, step: ProjectSpec, parameters: Parameters, dictionary: Dictionary) -> None:
        self._step = step
        self._parameters = parameters
        self._dictionary = dictionary
        self._columns = tuple(Column(name, made.type) for name, made in step.outputs)

    def take(self, flow: Flow, span: Span) -> Flow:
        """The rows of the answer."""
        if not len(flow):
            return flow
        sources, size = self._parameters.beside(flow), len(flow)
        made = [
            evaluate_all(expression, sources, size, self._dictionary)
            for _, expression in self._step.outputs
        ]
        rows = as_columns(self._columns, made, self._dictionary)
        return replace(flow, sources=(rows,), ranks=None, slots=None, readings=None)
