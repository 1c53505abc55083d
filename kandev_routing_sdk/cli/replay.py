"""``replay``: what the rules of today say of the failures of yesterday. History is read, never relabelled (R-CLS-6)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kandev_routing_sdk.cli.common import AsJson, examples, globals_of
from kandev_routing_sdk.cli.output import SCHEMA_VERSION, note, one_line, print_json, print_text, span
from kandev_routing_sdk.cli.rulebook import RuleFiles, load_catalogue, one_form
from kandev_routing_sdk.errors import StoreUnavailable, UsageError

if TYPE_CHECKING:
    from kandev_routing_sdk.catalogue.classification import Classification
    from kandev_routing_sdk.catalogue.classify import Catalogue
    from kandev_routing_sdk.catalogue.replay import Replayed
    from kandev_routing_sdk.ports import AttemptQuery, PastAttempt, Store

EPILOGUE: Final = examples(
    "kandev-routing replay --since 7d",
    "kandev-routing replay --rules new.toml --changed       what a rule that is not shipped yet would change",
    "kandev-routing replay --rules new.toml --check --json",
)
EXIT_DIFFERS: Final = 1
PAGE: Final = 100
"""Attempts that are read at once: with the largest envelopes, less than 10 MiB."""
_IN_MEMORY: Final = 4 * 1024 * 1024
"""Bytes of a document that is being put together; a longer one waits in a temporary file."""
_UNITS: Final[Mapping[str, str]] = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

SAME: Final = "same"
DIFFERS: Final = "differs"
NO_EVIDENCE: Final = "no_evidence"
UNREADABLE: Final = "unreadable"
NOT_JUDGED: Final = "not_judged"
_CHANGED: Final = frozenset({DIFFERS, UNREADABLE})
_ASKED: Final = frozenset({SAME, DIFFERS, NO_EVIDENCE, UNREADABLE})
"""What becomes of an attempt that there was something to ask about."""


def replay(  # noqa: PLR0917  # options, which typer gives by name
    context: typer.Context,
    rules: RuleFiles = None,
    call: Annotated[
        str | None, typer.Option(metavar="ID", help="Only the attempts of one call or session.", show_default=False)
    ] = None,
    attempt: Annotated[str | None, typer.Option(metavar="ID", help="Only one attempt.", show_default=False)] = None,
    family: Annotated[
        str | None, typer.Option(metavar="FAMILY", help="Only attempts with agents of one family.", show_default=False)
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN", help="Only attempts from then on: 90m, 24h, 7d or 2026-11-30.", show_default=False
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only the N newest of these.", show_default=False)
    ] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Show only what differs, and what could not be read.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help=f"Exit with {EXIT_DIFFERS} if anything differs.")] = False,
    as_json: AsJson = False,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Print one attempt a line as JSON; the summary goes to standard error.")
    ] = False,
) -> None:
    """Classify the stored evidence of past attempts with the rules of now, and show what would differ.

    Newest first. Changes no byte of the database; where there is none, none is made.
    """
    from kandev_routing_sdk.ports import AttemptQuery
    from kandev_routing_sdk.store import open_store

    one_form(as_json=as_json, jsonl=jsonl)
    query = AttemptQuery(session_id=call, attempt_id=attempt, family=family, since=_since(since))
    files = list(dict.fromkeys(rules or ()))
    catalogue = load_catalogue(files)
    url = globals_of(context).settings(required=False).store_url
    absent = _absent(url)
    if absent and check:
        raise StoreUnavailable(
            f"there is no database {absent}, so nothing could be checked; name the right one with --store"
        )
    with open_store(url, read_only=True) as store:
        _known(store, query)
        judge = _Judge(catalogue, files)
        shown = judge.documents(_attempts(store, query, limit), _CHANGED if changed else _ASKED)
        if jsonl:
            for document in shown:
                print_json(document, on_one_line=True)
            for line in judge.summary_lines():
                note(line)
        elif as_json:
            _print_document(judge, shown, check=check)
        else:
            if absent:
                print_text(f"there is no database {absent} yet")
            for document in shown:
                _show(document)
            for line in judge.summary_lines():
                print_text(line)
    raise typer.Exit(judge.exit_code(check=check))


# What is read ----------------------------------------------------------------------------------------------------------------


def _since(given: str | None) -> datetime | None:
    if given is None:
        return None
    from kandev_routing_sdk.clock import SystemClock

    length = re.fullmatch(rf"(\d{{1,9}})([{''.join(_UNITS)}])", given.strip())
    try:
        if length is not None:
            return SystemClock().now() - timedelta(**{_UNITS[length[2]]: int(length[1])})
        at = datetime.fromisoformat(given.strip())
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            f"--since: {given!r} is neither a length of time nor a moment; write 90m, 24h, 7d, 2026-11-30 or 2026-11-30T08:00Z"
        ) from None


def _absent(url: str) -> str | None:
    """Return the path of an SQLite database that is not there."""
    from pathlib import Path

    path = url.removeprefix("sqlite:///").partition("?")[0]
    return path if path != url and not Path(path).exists() else None


def _known(store: Store, query: AttemptQuery) -> None:
    """Refuse an id that nothing has: no answer would look like one that nothing differs in."""
    from kandev_routing_sdk.ports import AttemptQuery

    call, attempt = query.session_id, query.attempt_id
    if call is not None and store.call(call) is None and not store.past_attempts(AttemptQuery(call), limit=1):
        raise UsageError(f"there is no call {call!r}; kandev-routing calls lists them")
    if attempt is not None and not store.past_attempts(AttemptQuery(attempt_id=attempt), limit=1):
        raise UsageError(f"there is no attempt {attempt!r}; kandev-routing replay lists them")


def _attempts(store: Store, query: AttemptQuery, limit: int | None) -> Iterator[PastAttempt]:
    """Yield attempts, newest first; holds one page of them."""
    last: PastAttempt | None = None
    left = limit
    while left is None or left > 0:
        wanted = PAGE if left is None else min(PAGE, left)
        page = store.past_attempts(query, after=last, limit=wanted)
        yield from page
        if len(page) < wanted:
            return
        last = page[-1]
        left = None if left is None else left - len(page)


# What it means ---------------------------------------------------------------------------------------------------------------


class _Judge:
    """Turns past attempts into documents, and counts."""

    def __init__(self, catalogue: Catalogue, files: list[str]) -> None:
        from kandev_routing_sdk.evidence.sanitise import Sanitiser

        self._catalogue, self._files = catalogue, files
        self._sanitiser = Sanitiser()
        self._verdicts: Counter[str] = Counter()
        self._changes: Counter[str] = Counter()

    def documents(self, attempts: Iterable[PastAttempt], wanted: Collection[str]) -> Iterator[dict[str, Any]]:
        """Judge and count every attempt; yield a document of each with one of the verdicts that are wanted."""
        for attempt in attempts:
            verdict, found = self._verdict(attempt)
            changes = found.changes if found else ()
            self._verdicts[verdict] += 1
            self._changes.update(change.value for change in changes)
            if verdict in wanted:
                yield {
                    **_identity(attempt),
                    "verdict": verdict,
                    "changes": [change.value for change in changes],
                    "unreadable": list(attempt.unreadable),
                    "dropped": attempt.evidence.dropped if attempt.evidence else None,
                    "then": _result(attempt, attempt.classification and self._clean(attempt.classification)),
                    "now": _result(attempt, found.now if found else None),
                }

    def _verdict(self, attempt: PastAttempt) -> tuple[str, Replayed | None]:
        from kandev_routing_sdk.catalogue.replay import replay

        if attempt.unreadable:
            return UNREADABLE, None
        if attempt.classification is None:
            return NOT_JUDGED, None
        if attempt.evidence is None:
            return NO_EVIDENCE, None
        found = replay(self._catalogue, attempt.classification, attempt.evidence)
        return (DIFFERS if found.changes else SAME), found

    def _clean(self, then: Classification) -> Classification:
        """Clean what was written down once more: that version may have known fewer shapes of secrets."""
        from kandev_routing_sdk.catalogue.classify import MAX_EXCERPT_BYTES
        from kandev_routing_sdk.evidence.sanitise import excerpt

        said, hint, text = then.safe_excerpt, then.hint, self._sanitiser.text
        return then.model_copy(
            update={
                "safe_excerpt": None if said is None else excerpt(text(said), MAX_EXCERPT_BYTES),
                "hint": None if hint is None else hint.model_copy(update={"written": text(hint.written)}),
            }
        )

    def summary(self) -> dict[str, Any]:
        """Return the counts as JSON."""
        from kandev_routing_sdk.catalogue.replay import Change

        return {
            "attempts": self._verdicts.total(),
            **{name: self._verdicts[name] for name in (SAME, DIFFERS, NO_EVIDENCE, UNREADABLE, NOT_JUDGED)},
            "changes": {change.value: self._changes[change.value] for change in Change},
        }

    def summary_lines(self) -> Iterator[str]:
        """Yield the counts as lines."""
        of = self._verdicts
        read = of.total() - of[NOT_JUDGED]
        beside = f" with {', '.join(self._files)}" if self._files else ""
        yield (
            f"{read} attempt{'' if read == 1 else 's'} against catalogue {self.version}{beside}: "
            f"{of[DIFFERS]} differ{'s' if of[DIFFERS] == 1 else ''}, {of[SAME]} the same, "
            f"{of[NO_EVIDENCE]} without evidence, {of[UNREADABLE]} unreadable"
        )
        kinds = [f"{name} {count}" for name, count in self.summary()["changes"].items() if count]
        if kinds:
            yield f"what differs: {', '.join(kinds)}"
        if of[NOT_JUDGED]:
            yield f"{of[NOT_JUDGED]} more had nothing to judge: they succeeded, were cancelled, or still run"

    @property
    def version(self) -> str:
        """The catalogue's."""
        return self._catalogue.version

    @property
    def files(self) -> list[str]:
        """The files of rules that are tried."""
        return self._files

    def exit_code(self, *, check: bool) -> int:
        """Return 1 if somebody asked for that and something differs."""
        return EXIT_DIFFERS if check and self._verdicts[DIFFERS] else 0


def _identity(attempt: PastAttempt) -> dict[str, Any]:
    from kandev_routing_sdk.cli.document import utc

    return {
        "attempt_id": attempt.attempt_id,
        "call_id": attempt.session_id,
        "ordinal": attempt.ordinal,
        "created_at": utc(attempt.created_at),
        "execution_profile_id": attempt.execution_profile_id,
        "family": attempt.family,
        "outcome": attempt.outcome.value if attempt.outcome else None,
        "catalogue_version": attempt.catalogue_version,
    }


def _result(attempt: PastAttempt, found: Classification | None) -> dict[str, Any] | None:
    """Return an answer in the shape that ``classify`` prints."""
    from kandev_routing_sdk.catalogue.wire import result_record
    from kandev_routing_sdk.evidence.model import Evidence
    from kandev_routing_sdk.types import Phase

    if found is None:
        return None
    # of an attempt whose evidence is missing, its effects are known all the same
    missing = Evidence(family=attempt.family, phase=Phase.PROMPT_SEND, signals=(), effects=attempt.effects)
    return dict(result_record(attempt.attempt_id, found, attempt.evidence or missing))


# How it is shown -------------------------------------------------------------------------------------------------------------


def _print_document(judge: _Judge, shown: Iterator[dict[str, Any]], *, check: bool) -> None:
    """Print one document, whole or not at all, however long it is: what it says of all is known when the last was read."""
    with SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="ascii") as kept:
        for document in shown:
            kept.write(json.dumps(document) + "\n")
        head = {
            "schema_version": SCHEMA_VERSION,
            "catalogue_version": judge.version,
            "rules": judge.files,
            "summary": judge.summary(),
            "exit_code": judge.exit_code(check=check),
        }
        print_text(f'{json.dumps(head)[:-1]}, "attempts": [')
        kept.seek(0)
        before = next(kept, None)
        for line in kept:
            print_text(f"{(before or '').rstrip()},")
            before = line
        print_text(f"{(before or '').rstrip()}]}}")


def _show(document: dict[str, Any]) -> None:
    then, now, verdict = document["then"], document["now"], document["verdict"]
    at = re.sub(r"(\.\d+)?Z$", " UTC", (document["created_at"] or "unknown time").replace("T", " "))
    head = f"{at}  {document['attempt_id']}  {document['execution_profile_id']} ({document['family']})"
    version = document["catalogue_version"]
    if verdict == SAME:
        print_text(one_line(f"{head}  same: {then['code']} by {_rule(then)} of {version}", 1000))
        return
    what = {
        DIFFERS: f"differs: {', '.join(document['changes'])}",
        NO_EVIDENCE: "no evidence was kept",
        UNREADABLE: f"cannot be read: {', '.join(document['unreadable'])}",
    }[verdict]
    print_text(one_line(f"{head}  {what}", 1000))
    if then is not None:
        print_text(f"  then: {_answer(then)}, by {_rule(then)} of {one_line(version)}")
    if now is not None:
        print_text(f"  now:  {_answer(now)}, by {_rule(now)}")
        if now["safe_excerpt"]:
            print_text(f"  said: {one_line(now['safe_excerpt'])}")


def _rule(answer: dict[str, Any]) -> str:
    return one_line(answer["classifier_rule"] or "no rule")


def _answer(answer: dict[str, Any]) -> str:
    timing = []
    if answer["reset_at"]:
        timing.append(f"back at {answer['reset_at']}")
    if answer["retry_after_s"] is not None:
        timing.append(f"back in {span(answer['retry_after_s'])}")
    parts = [
        f"{answer['code']} ({answer['class']})",
        f"confidence {answer['confidence']}",
        f"scope {answer['scope']}",
        *(timing or ["no time"]),
        "automatic" if answer["automatic"] else "not automatic",
    ]
    return ", ".join(parts)
