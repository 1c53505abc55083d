"""Logging: one logger per module, a constant sentence, and everything else in fields with documented names (R-OBS-1).

A field holds an id, a number, a word of ours, or a sentence of our own errors, sanitised; never what an agent, a provider or a
host's own code said.
"""

from __future__ import annotations

import logging
from typing import Any, Final, TypedDict, Unpack

from kandev_routing_sdk.errors import RoutingError
from kandev_routing_sdk.evidence.sanitise import Sanitiser

ROOT: Final = "kandev_routing_sdk"
"""The name of the logger above all of this package's."""


class Fields(TypedDict, total=False):
    """Every field that a record of ours may carry, by the name of its attribute; ``docs/reference/metrics.md`` describes each."""

    session_id: str
    attempt_id: str
    generation: int
    revision: int
    family: str
    error: str
    code: str
    detail: str
    progress: str
    source: str
    metric: str


NAMES: Final = tuple(Fields.__annotations__)


def get_logger(module: str) -> logging.Logger:
    """Return a module's own logger, ``get_logger(__name__)``. A host that configured no logging hears nothing."""
    root = logging.getLogger(ROOT)
    if not any(isinstance(handler, logging.NullHandler) for handler in root.handlers):
        root.addHandler(logging.NullHandler())
    return logging.getLogger(module)


def fields(**values: Unpack[Fields]) -> dict[str, Any]:
    """Return what is given to a log call as ``extra``."""
    return dict(values)


def problem_fields(problem: BaseException, **values: Unpack[Fields]) -> dict[str, Any]:
    """Return the fields of an error, with ``values``.

    Errors of this package say what happened in sentences of their own; of another one only its type is told, for its text may hold
    anything.
    """
    found = {"error": type(problem).__name__, **values}
    if isinstance(problem, RoutingError):
        found |= {"code": problem.code, "detail": Sanitiser().text(str(problem))}
    return found


class FieldFormatter(logging.Formatter):
    """Shows a record's fields behind its sentence, as ``name=value``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, or lines, of ``record``."""
        line, _, below = super().format(record).partition("\n")
        found = [f"{name}={record.__dict__[name]}" for name in NAMES if name in record.__dict__]
        shown = f"{line} ({', '.join(found)})" if found else line
        return f"{shown}\n{below}" if below else shown
