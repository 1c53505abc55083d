"""Reads `secrets.toml` and fills its gaps: every kind of secret, new for every seed, and how to see whether one survived."""

from __future__ import annotations

import random
import re
import string
import tomllib
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

B62 = string.ascii_letters + string.digits
ALPHABETS = {
    "b62": B62,
    "b64": B62 + "+/",
    "b64u": B62 + "-_",
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "up": string.ascii_uppercase + string.digits,
    "low": string.ascii_lowercase + string.digits,
    "dig": string.digits,
    "b32": string.ascii_uppercase + "234567",
    "bech": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "pass": B62 + "!#$%*+-.?^_~",
    "pass2": B62 + "!$*+.^_~",
    "name": string.ascii_lowercase,
}
WORDS = ("copper", "orbit", "lemon", "velvet", "harbor", "cactus", "puzzle", "anchor", "meadow", "falcon", "timber")
GAP = re.compile(r"«(\w+)(?: (\d+))?»")
RUN = 8
"""So many characters in a row of what is random are too many."""


@dataclass(frozen=True)
class Sample:
    """A secret as it is written, and what of it is random."""

    kind: str
    text: str
    parts: tuple[str, ...]

    def left_in(self, *texts: str) -> str | None:
        """The first run of a random part that one of ``texts`` holds: 8 characters, or all of a shorter part."""
        return next((run for run in self._runs() if any(run in text for text in texts)), None)

    def left_in_runs(self, runs: set[str], text: str) -> str | None:
        """The same of one ``text``, all of whose runs are known."""
        return next((run for run in self._runs() if (run in runs if len(run) == RUN else run in text)), None)

    def _runs(self) -> Iterator[str]:
        for part in self.parts:
            yield from (part[start : start + RUN] for start in range(max(len(part) - RUN, 0) + 1))


def _fill(alphabet: str, length: int, rng: random.Random) -> str:
    if alphabet == "uuid":
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))
    if alphabet == "words":
        return " ".join(rng.choices(WORDS, k=length))
    if alphabet == "say":  # what a person makes up: words, and a digit or two
        return ("".join(rng.choices(string.ascii_lowercase, k=length - 2)) + str(rng.randrange(10, 99)))[:length]
    signs = ALPHABETS[alphabet]
    ends = "".join(sign for sign in signs if sign.isalnum())
    middle = "".join(rng.choices(signs, k=max(length - 2, 0)))
    return (rng.choice(ends) + middle + rng.choice(ends))[:length]


class Kind:
    """One kind of secret."""

    def __init__(self, name: str, ways: list[str], *, is_key: bool) -> None:
        self.name, self.ways, self.is_key = name, ways, is_key

    def __repr__(self) -> str:
        return self.name

    def samples(self, seed: int | str = 0, *, at_least: int = 1) -> Iterator[Sample]:
        """One sample of every way to write it, and further ones until there are enough."""
        rng = random.Random(f"{self.name}/{seed}")
        for number in range(max(len(self.ways), at_least)):
            yield self._sample(self.ways[number % len(self.ways)], rng)

    def _sample(self, way: str, rng: random.Random) -> Sample:
        parts: list[str] = []

        def fill(gap: re.Match[str]) -> str:
            parts.append(_fill(gap[1], int(gap[2] or 0), rng))
            return parts[-1]

        return Sample(self.name, GAP.sub(fill, way), tuple(parts))


def _load() -> list[Kind]:
    tables = tomllib.loads(Path(__file__).with_name("secrets.toml").read_text("utf-8"))
    return [Kind(name, ways, is_key=table == "keys") for table, kinds in tables.items() for name, ways in kinds.items()]


KINDS = _load()


def survivors(samples: Iterable[Sample], *texts: str) -> list[tuple[str, str]]:
    """The kinds and runs of ``samples`` that are in any of ``texts``."""
    found = [(sample.kind, sample.left_in(*texts)) for sample in samples]
    return [(kind, run) for kind, run in found if run is not None]
