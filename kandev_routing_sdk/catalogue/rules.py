"""Rules as data: the TOML form, read and checked (R-CLS-4).

A source is a TOML text::

    released = "2026.11"          # the month of the last change, part of the catalogue version
    provider = "anthropic"        # optional: the provider behind these rules, when the evidence names none
    families = ["claude"]         # optional: the families whose evidence these rules read

    [[rule]]
    id = "claude.limit.plan.1"    # stable, never reused
    code = "quota_limited"
    confidence = "high"           # default
    priority = 60                 # 0–100, default 50: decides between rules of one rank
    scope = "account"             # optional, default: the code's
    channels = ["agent_notice"]   # optional, default: every runtime channel but `exit`
    phases = ["prompt_send"]      # optional, default: all
    families = ["claude"]         # optional, default: the source's
    shared = false                # several causes share what this rule looks at: it ranks below every other rule
    foreign = false               # somebody else's words: no other rule may read the line (or, for fields, the signal)
    wide = false                  # foreign: the line above and the four below such a line are theirs, too
    bare = false                  # phrases that anybody may use: on stderr only in a line that is the agent's own
    timing = ["header", "field", "text"]  # where this cause's timing hints may come from, default all
    far_code = "quota_limited"    # the code when the validated hint is more than ten minutes away
    structured = [[{ at = "data:error.type", equals = "rate_limit_error" }]]  # alternatives; all of one must hold
    exact = ["Credit balance is too low"]      # the whole message, case and prefix apart
    pattern = ["usage limit (reached|hit)"]    # RE2 over the message with single spaces, case apart
    positive = ["…", { channel = "http", http_status = 429, text = "…" }]
    negative = ["…"]
    correlation = ["…"]           # true words in the wrong place: not evidence
    redaction = ["key «sk-…» refused"]         # as positive, and what stands in « » must not come out again

A rule has one kind of match. Structured outranks exact, which outranks pattern; `shared` is below all of them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from importlib.resources import files
from typing import Any, ClassVar, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictBool, StrictInt, StrictStr, ValidationError

from kandev_routing_sdk.catalogue.codes import CODES
from kandev_routing_sdk.catalogue.rule_errors import as_toml, file_sentence, fixture_sentence, listed_wrongly
from kandev_routing_sdk.errors import CatalogueError
from kandev_routing_sdk.evidence.model import Signal
from kandev_routing_sdk.types import Channel, Code, Confidence, ErrorClass, Phase, Scope

TimingSource = Literal["header", "field", "text"]
FixtureKind = Literal["positive", "negative", "correlation", "redaction"]
FIXTURE_KINDS: Final[tuple[FixtureKind, ...]] = get_args(FixtureKind)
DEFAULT_CHANNELS: Final = frozenset(c for c in Channel if c.is_runtime and c is not Channel.EXIT)
"""``exit`` carries a code or a signal; words on it are somebody's summary, which only a rule that says so reads."""
SHARED_STATUSES: Final = frozenset({400, 403, 404, 409, 413, 422, 429})
"""HTTP statuses that several causes share (R-CLS-3): alone they may only back a `shared` rule."""


class Rank(IntEnum):
    """R-CLS-3: structured fields outrank exact messages, which outrank patterns; what causes share comes last."""

    FOREIGN = 0
    SHARED = 1
    PATTERN = 2
    EXACT = 3
    STRUCTURED = 4


class RuleSource(BaseModel):
    """A rule file: ``name`` is used in error messages."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    name: str
    text: str


class _Strict(BaseModel):
    """Part of a rule file, in which an unknown key is an error."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Condition(_Strict):
    """One test on a signal.

    ``at`` is ``data:<path>`` (keys and list indexes joined by dots, ``*`` = any), ``header:<name>``, ``code``,
    ``http_status`` or ``text``; exactly one operator. The end of the process is ``data:exit_code`` and ``data:signal`` on
    ``exit``.
    """

    at: str
    equals: StrictStr | StrictInt | StrictBool | None = None
    any_of: tuple[StrictStr | StrictInt, ...] | None = Field(default=None, alias="in")
    regex: str | None = None
    lacks: str | None = None
    """RE2 that no value there may match: what is absent lacks everything."""
    exists: StrictBool | None = None

    @property
    def pattern(self) -> str | None:
        """What ``regex`` or ``lacks`` looks for."""
        return self.regex if self.regex is not None else self.lacks

    @property
    def needs_a_value(self) -> bool:
        """Whether it can hold only where something is."""
        return self.lacks is None and self.exists is not False


class _RuleModel(_Strict):
    id: str = Field(pattern=r"^[a-z0-9_]+(\.[a-z0-9_]+)+$")
    code: Code
    confidence: Confidence = Confidence.HIGH
    priority: StrictInt = Field(default=50, ge=0, le=100)
    scope: Scope | None = None
    channels: tuple[Channel, ...] = ()
    phases: tuple[Phase, ...] = ()
    families: tuple[str, ...] = ()
    shared: StrictBool = False
    foreign: StrictBool = False
    wide: StrictBool = False
    bare: StrictBool = False
    timing: tuple[TimingSource, ...] = get_args(TimingSource)
    far_code: Code | None = None
    structured: tuple[tuple[Condition, ...], ...] = ()
    exact: tuple[str, ...] = ()
    pattern: tuple[str, ...] = ()
    positive: tuple[str | dict[str, JsonValue], ...] = ()
    negative: tuple[str | dict[str, JsonValue], ...] = ()
    correlation: tuple[str | dict[str, JsonValue], ...] = ()
    redaction: tuple[str | dict[str, JsonValue], ...] = ()


class _FileModel(_Strict):
    released: str = Field(pattern=r"^\d{4}\.(0[1-9]|1[0-2])$")
    provider: str | None = None
    families: tuple[str, ...] = ()
    rule: tuple[_RuleModel, ...] = ()


_MODELS: Final[Mapping[str, type[BaseModel]]] = {"file": _FileModel, "rule": _RuleModel, "structured": Condition}


@dataclass(frozen=True, slots=True)
class Fixture:
    """A signal and what must be true of it."""

    kind: FixtureKind
    signals: tuple[Signal, ...]
    secrets: tuple[str, ...] = ()
    """What must not come out (redaction)."""
    label: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A checked rule. One object per id: compared by identity."""

    id: str
    code: Code
    confidence: Confidence
    priority: int
    rank: Rank
    scope: Scope | None
    channels: frozenset[Channel]
    phases: frozenset[Phase]
    families: frozenset[str]
    wide: bool
    bare: bool
    timing: frozenset[TimingSource]
    far_code: Code | None
    structured: tuple[tuple[Condition, ...], ...]
    exact: tuple[str, ...]
    patterns: tuple[str, ...]
    provider: str | None
    source: str
    fixtures: tuple[Fixture, ...] = field(repr=False)

    @property
    def foreign(self) -> bool:
        """Whether a match makes the words somebody else's."""
        return self.rank is Rank.FOREIGN

    @property
    def authorises(self) -> bool:
        """Whether its code has a class that something automatic may follow."""
        return CODES[self.code].error_class is not ErrorClass.UNCLASSIFIED

    def reads(self, family: str, channel: Channel, phase: Phase) -> bool:
        """Return whether this rule may look at such a signal."""
        return (
            channel in self.channels
            and (not self.families or family in self.families)
            and (not self.phases or phase in self.phases)
        )

    def why_not(self, family: str, channel: Channel, phase: Phase) -> str | None:
        """Return why this rule may not look at such a signal, or None when it may."""
        if self.families and family not in self.families:
            return f"is for {', '.join(sorted(self.families))}"
        if channel not in self.channels:
            return f"does not read {channel}"
        if self.phases and phase not in self.phases:
            return f"does not apply in {phase}"
        return None


@dataclass(frozen=True, slots=True)
class RuleFile:
    """The rules of one source."""

    name: str
    released: str
    rules: tuple[Rule, ...]
    canonical: Mapping[str, Any] = field(repr=False)
    """What the catalogue version is a hash of: everything that decides, without fixtures."""


def neutral_sources() -> tuple[RuleSource, ...]:
    """Return the rule files that hold for every agent."""
    folder = files("kandev_routing_sdk.catalogue").joinpath("neutral")
    found = sorted((f for f in folder.iterdir() if f.name.endswith(".toml")), key=lambda f: f.name)
    return tuple(RuleSource(name=f"neutral/{f.name}", text=f.read_text(encoding="utf-8")) for f in found)


def read_source(source: RuleSource) -> RuleFile:
    """Read and check one rule file.

    Raises:
        CatalogueError: the text is no TOML, or a rule is not what a rule must be.
    """
    try:
        document = tomllib.loads(source.text)
        parsed = _FileModel.model_validate(document)
    except tomllib.TOMLDecodeError as e:
        raise CatalogueError(f"{source.name} is not TOML: {e}") from None
    except ValidationError as e:
        first = e.errors(include_url=False)[0]
        raise CatalogueError(file_sentence(source.name, document, first, _MODELS)) from None
    if problem := listed_wrongly("families", parsed.families, given="families" in parsed.model_fields_set):
        raise CatalogueError(f"{source.name}: {problem}")
    rules = tuple(_rule(source.name, parsed, model) for model in parsed.rule)
    decides = {"provider": parsed.provider, "families": list(parsed.families)}
    fixtures: set[str] = set(FIXTURE_KINDS)
    bodies = [m.model_dump(mode="json", by_alias=True, exclude=fixtures, exclude_defaults=True) for m in parsed.rule]
    return RuleFile(
        source.name, parsed.released, rules, {**decides, "rules": sorted(bodies, key=lambda b: str(b["id"]))}
    )


def _rule(source: str, parsed: _FileModel, model: _RuleModel) -> Rule:
    def refuse(what: str) -> CatalogueError:
        return CatalogueError(f"{source}: rule {model.id}: {what}")

    channels = frozenset(model.channels) or DEFAULT_CHANNELS
    if model.id.startswith(_OURS) and not source.startswith(_NEUTRAL_FILES):
        raise refuse("ids that begin with neutral are the SDK's own; begin it with who ships the rule")
    for problem in (*_names(model), *_senseless(model), *_problems(model, channels)):
        raise refuse(problem)
    default_channel = next((c for c in Channel if c in channels and c in _FIXTURE_FIRST), min(channels))
    fixtures: list[Fixture] = []
    for kind in FIXTURE_KINDS:
        for number, raw in enumerate(getattr(model, kind), 1):
            try:
                fixtures.append(_fixture(kind, raw, default_channel))
            except ValidationError as e:
                raise refuse(fixture_sentence(kind, number, e.errors(include_url=False)[0])) from None
            except ValueError as e:
                raise refuse(f"{kind} fixture {number}: {e}") from None
    return Rule(
        id=model.id,
        code=model.code,
        confidence=model.confidence,
        priority=model.priority,
        rank=_rank(model),
        scope=model.scope,
        channels=channels,
        phases=frozenset(model.phases),
        families=frozenset(model.families or parsed.families),
        wide=model.wide,
        bare=model.bare,
        timing=frozenset(model.timing),
        far_code=model.far_code,
        structured=model.structured,
        exact=model.exact,
        patterns=model.pattern,
        provider=parsed.provider,
        source=source,
        fixtures=tuple(fixtures),
    )


def _names(model: _RuleModel) -> Iterator[str]:
    """Yield what is wrong with the lists of names."""
    for key in ("channels", "phases", "families", "timing", "pattern", "exact"):
        # an empty `timing` says that no time cures this
        given = key in model.model_fields_set and key != "timing"
        if problem := listed_wrongly(key, getattr(model, key), given=given):
            yield problem


def _senseless(model: _RuleModel) -> Iterator[str]:
    """Yield what a rule says that cannot be meant."""
    row = CODES[model.code]
    acted_on = row.error_class is not ErrorClass.UNCLASSIFIED
    if model.foreign and acted_on:
        yield (
            f"foreign words prove no failure of the agent, and something automatic follows {model.code}; "
            f"name a code of class unclassified, as {Code.TASK_ERROR}"
        )
    if model.foreign and model.shared:
        yield "foreign takes words away from every rule, shared ranks below them; remove one"
    if model.far_code is not None:
        if model.far_code is model.code:
            yield f"far_code is the code itself, {model.code}; remove it"
        elif not acted_on or CODES[model.far_code].error_class is ErrorClass.UNCLASSIFIED:
            unknown = model.far_code if acted_on else model.code
            yield f"far_code tells a long wait from a short one, and no wait cures {unknown}; name two codes that have a class"
    if model.scope is Scope.NONE and acted_on and row.scope is not Scope.NONE:
        yield f'scope = "none" would keep {model.code} from opening any circuit; leave it out for {row.scope}'


def _problems(model: _RuleModel, channels: frozenset[Channel]) -> Iterator[str]:
    """Yield what is wrong with a rule, its fixtures apart."""
    if sum(map(bool, (model.structured, model.exact, model.pattern))) != 1:
        yield "give it one kind of match: structured, exact or pattern"
    if any(not c.is_runtime for c in channels):
        yield "assistant_text and tool_output are never evidence; remove them from channels"
    if model.wide and not (model.foreign and model.pattern):
        yield "wide is for the lines of a foreign pattern; remove it"
    if model.bare and model.structured:
        yield "bare is for words; remove it from a rule that reads fields"
    if any(not alternative for alternative in model.structured):
        yield "an alternative of structured has no condition"
    for condition in (c for alternative in model.structured for c in alternative):
        if problem := _condition_problem(condition):
            yield problem
    if not model.shared and not model.foreign and any(map(_shared_status_alone, model.structured)):
        yield "an HTTP status that several causes share decides nothing alone; add a condition or shared = true"
    for kind in FIXTURE_KINDS:
        if not getattr(model, kind):
            yield f"it has no {kind} fixture; add one beside it"


_OURS: Final = "neutral."
_NEUTRAL_FILES: Final = "neutral/"
_FIXTURE_FIRST: Final = frozenset({Channel.STDERR, Channel.AGENT_NOTICE, Channel.STDOUT_EVENT})
_PLACES: Final = frozenset({"code", "http_status", "text"})


def _condition_problem(condition: Condition) -> str | None:
    prefix, _, path = condition.at.partition(":")
    if condition.at not in _PLACES and (prefix not in {"data", "header"} or not path):
        return f"{condition.at!r} is no place in a signal; use data:<path>, header:<name> or one of {', '.join(sorted(_PLACES))}"
    given = [condition.equals, condition.any_of, condition.regex, condition.lacks, condition.exists]
    if sum(v is not None for v in given) != 1:
        return f"{condition.at!r} needs exactly one of equals, in, regex, lacks, exists"
    return None


def _shared_status_alone(alternative: Sequence[Condition]) -> bool:
    statuses: set[str | int | bool] = set()
    for condition in alternative:
        if condition.at != "http_status":
            return False
        statuses |= {condition.equals} if condition.equals is not None else set(condition.any_of or ())
    return bool(statuses & SHARED_STATUSES) or not statuses


def _rank(model: _RuleModel) -> Rank:
    if model.foreign:
        return Rank.FOREIGN
    if model.shared:
        return Rank.SHARED
    if model.structured:
        return Rank.STRUCTURED
    return Rank.EXACT if model.exact else Rank.PATTERN


def _fixture(kind: FixtureKind, raw: str | dict[str, JsonValue], default: Channel) -> Fixture:
    body: dict[str, Any] = {"text": raw} if isinstance(raw, str) else dict(raw)
    secrets: list[str] = []
    if kind == "redaction":
        body = _unmark(body, secrets)
    if kind == "correlation" and "channel" not in body:
        # the same words as the model's own, and as a tool's
        both = (Channel.ASSISTANT_TEXT, Channel.TOOL_OUTPUT)
        signals = tuple(Signal.model_validate({**body, "channel": c}) for c in both)
    else:
        signals = (Signal.model_validate({"channel": default, **body}),)
    return Fixture(kind, signals, tuple(secrets), f"{raw[:80]!r}" if isinstance(raw, str) else as_toml(raw)[:120])


def _unmark(value: Any, secrets: list[str]) -> Any:  # noqa: ANN401  (any TOML value)
    """Take the « » marks out and note what stood in them."""
    if isinstance(value, dict):
        return {k: _unmark(v, secrets) for k, v in value.items()}
    if isinstance(value, list):
        return [_unmark(v, secrets) for v in value]
    if isinstance(value, str):
        if problem := _unpaired(value):
            raise ValueError(problem)
        secrets.extend(part.partition("»")[0] for part in value.split("«")[1:])
        return value.replace("«", "").replace("»", "")
    return value


def _unpaired(text: str) -> str | None:
    """Return what is wrong with the « » marks of a fixture, or None."""
    inside = False
    for mark in (c for c in text if c in "«»"):
        if (mark == "«") is inside:
            return "« and » mark a secret's beginning and end; write them in pairs"
        inside = not inside
    if inside:
        return "a « has no »; end the secret with it"
    return "nothing stands between « and »; put the secret there" if "«»" in text else None
