"""Structured output: asks for JSON of a shape, and reads the answer (R-UTL-5).

It words the prompt and reads the result. Who answers, and what is tried again, is decided as for every other prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from kandev_routing_sdk.errors import Problem, RoutingError, UsageError
from kandev_routing_sdk.results import CallResult

_T = TypeVar("_T")

_FENCED: Final = re.compile(r"```[\w-]*\n(.*?)```", re.DOTALL)
_SHOWN: Final = 16_384
"""Characters of an answer that its agent, or the next, is shown again."""
_TOLD: Final = 8
"""Problems that a message names."""
_NO_JSON: Final = Problem("answer", "holds no JSON; answer with one JSON value and nothing else", "json_invalid")


class AnswerMismatch(RoutingError):
    """An agent answered, and the answer has not the shape that was asked for. The call itself succeeded."""

    code = "answer_mismatch"
    exit_code = 1
    result: CallResult
    """The call; ``result.text`` is the answer."""
    problems: tuple[Problem, ...]
    """What is wrong with it, each at its place in the answer."""

    def __init__(self, result: CallResult, problems: tuple[Problem, ...]) -> None:
        super().__init__(result, problems)
        self.result, self.problems = result, problems

    def __str__(self) -> str:
        who = self.result.execution_profile_id or self.result.logical_profile_id
        return (
            f"the answer of {who!r} has not the shape that was asked for ({self.told}): ask again, or read it as text"
        )

    @property
    def told(self) -> str:
        """The first problems, as one line."""
        more = len(self.problems) - _TOLD
        return "; ".join(map(str, self.problems[:_TOLD])) + (f"; and {more} more" if more > 0 else "")


class StructuredOutput(Generic[_T]):
    """Asks agents for JSON of a shape, and makes a value of what they answer.

    :meth:`prompt` words the question, :meth:`read` reads the result; what is between them is a call like every other.

    Args:
        shape: whatever pydantic can read from JSON: a model, a dataclass, ``list[int]``, …

    Raises:
        UsageError: no JSON Schema can be made of it.
    """

    def __init__(self, shape: type[_T]) -> None:
        try:
            self._adapter: TypeAdapter[_T] = TypeAdapter(shape)
            self._schema: dict[str, Any] = self._adapter.json_schema()
        except PydanticUserError as problem:
            reason = problem.message.splitlines()[0]
            raise UsageError(f"no JSON Schema can be made of {shape!r}: {reason}") from problem

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema that the agent is shown."""
        return self._schema

    def prompt(self, task: str, *, after: AnswerMismatch | None = None) -> str:
        """Return a prompt that asks for ``task``, and for the answer in this shape.

        ``after``: an answer that had another shape is shown with what is wrong with it. To whoever is asked now, the whole task is
        new: ask again only for one that changes nothing.
        """
        asked = f"{task}\n\nAnswer with one JSON value and nothing else. Its JSON Schema:\n{json.dumps(self._schema)}"
        if after is None:
            return asked
        said = after.result.text
        shown = said if len(said) <= _SHOWN else f"{said[:_SHOWN]} […cut]"
        return f"{asked}\n\nAn earlier answer could not be used ({after.told}). It was:\n{shown}"

    def read(self, result: CallResult) -> _T:
        """Return the answer as a value of the shape. A fence or a sentence around the JSON is passed over.

        Raises :class:`AnswerMismatch` when it has another shape, or is no JSON.
        """
        problems: tuple[Problem, ...] = ()
        for text in _parts(result.text):
            try:
                return self._adapter.validate_json(text.encode("utf-8", "replace"))
            except ValidationError as wrong:
                found = wrong.errors(include_url=False, include_context=False, include_input=False)
                if not problems and found[0]["type"] != "json_invalid":
                    problems = tuple(Problem(_path(e["loc"]), e["msg"], e["type"]) for e in found)
        raise AnswerMismatch(result, problems or (_NO_JSON,))


def _parts(text: str) -> Iterator[str]:
    """What in an answer may be its JSON, the likeliest first."""
    yield text
    yield from (fenced[1] for fenced in _FENCED.finditer(text))
    for first, last in ("{}", "[]"):
        yield text[text.find(first) : text.rfind(last) + 1]


def _path(loc: tuple[int | str, ...]) -> str:
    return ".".join(("answer", *map(str, loc)))
