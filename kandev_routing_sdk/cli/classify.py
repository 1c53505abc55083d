"""``classify``: what was this failure, by which rule, and why?"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

import typer

from kandev_routing_sdk.cli.common import AsJson, examples, read_text, standard_input
from kandev_routing_sdk.cli.output import error_line, note, one_line, print_json, print_text
from kandev_routing_sdk.cli.rulebook import RuleFiles, load_catalogue, one_form
from kandev_routing_sdk.errors import InputDataError

if TYPE_CHECKING:
    from kandev_routing_sdk.catalogue.classify import Catalogue

EPILOGUE: Final = examples(
    "some-agent 2>&1 >/dev/null | kandev-routing classify --family claude",
    "kandev-routing classify evidence.json --explain",
    "kandev-routing classify --jsonl < evidence.jsonl > results.jsonl",
    "kandev-routing classify evidence.json --explain --rules new.toml    try rules that are not shipped yet",
)
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
_TEXT_FAMILY: Final = "unknown"
_ABSENT: Final[Mapping[str, str]] = {"no_match": "finds nothing", "not_applicable": "does not apply"}
"""What became of rules that did not match, in words."""


def classify(  # noqa: PLR0917  # options, which typer gives by name
    file: Annotated[str, typer.Argument(metavar="FILE", help="Evidence; - for standard input.")] = "-",
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="One JSON record a line; one JSON result a line, in order.")
    ] = False,
    family: Annotated[
        str | None,
        typer.Option(
            metavar="FAMILY",
            help="The agent that said it, for text and for records that do not say.",
            show_default=False,
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Also say what became of every rule, and why nothing automatic may follow."),
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Explain, and name the rules, too, that find nothing or do not apply.")
    ] = False,
    rules: RuleFiles = None,
    as_json: AsJson = False,
) -> None:
    """Classify what an agent's runtime said: plain text, a JSON evidence record, or one record a line.

    Opens no database. Text, and JSON that is no record, is what the agent's runtime says now of a prompt that was sent.
    """
    one_form(as_json=as_json, jsonl=jsonl)
    catalogue = load_catalogue(list(dict.fromkeys(rules or ())))
    known = {name for rule in catalogue.rules for name in rule.families}
    if family is not None and family not in known:
        note(
            f"no installed rules are of family {family!r}, only neutral ones apply (known: {', '.join(sorted(known))})"
        )
    judge = _Judge(catalogue, family, explain=explain or every)
    if jsonl:
        raise typer.Exit(_each_line(judge, file))
    with _without_secrets():
        text = read_text(file)
    if not text.strip():
        raise InputDataError("there is nothing to classify: give text or a JSON evidence record")
    record = _record(text, "standard input" if file == "-" else file)
    document, refusal = judge.answer({"evidence": _of_text(text, family)} if record is None else record, 1, "")
    if as_json:
        print_json(document)
    else:
        _show(document, refusal, every=every)


def _record(text: str, where: str) -> Any:  # noqa: ANN401  # any JSON
    """Return the record that ``text`` holds, or None: what was pasted is a provider's words, which may be JSON, too."""
    from kandev_routing_sdk.catalogue.wire import is_record

    if text.lstrip()[:1] not in {"{", "["}:
        return None
    meant = any(f'"{key}"' in text for key in ("evidence", "signals"))
    try:
        value, end = json.JSONDecoder(parse_constant=_no_number).raw_decode(text := text.strip())
    except json.JSONDecodeError:
        return _json(text, where) if meant else None
    except (RecursionError, ValueError):
        return _json(text, where)  # which says what is wrong
    one_a_line = "write one record a line and use --jsonl"
    if is_record(value):
        if text[end:].strip():
            raise InputDataError(f"{where} holds more than one JSON value; {one_a_line}")
        return value
    if isinstance(value, list) and value and all(map(is_record, value)):
        raise InputDataError(f"{where} is a list of records; {one_a_line}")
    return None


def _each_line(judge: _Judge, file: str) -> int:
    """Print a result a line, at once, so that a reader can follow. A line that is wrong is named, and keeps back no other's answer.

    Returns the exit code.
    """
    exit_code = 0
    for number, line in _lines(file):
        where = f"line {number}"
        try:
            document = judge.document(_json(line, where), number, where)
        except InputDataError as problem:
            error_line(str(problem))
            exit_code = problem.exit_code
        else:
            print_json(document, on_one_line=True)
    return exit_code


def _of_text(text: str, family: str | None) -> dict[str, Any]:
    """Text is what somebody sees now, so that a wall time in it has a day."""
    from kandev_routing_sdk.cli.document import utc
    from kandev_routing_sdk.clock import SystemClock

    return {
        "observed_at": utc(SystemClock().now()),
        "family": family or _TEXT_FAMILY,
        "phase": "prompt_send",
        "signals": [{"channel": "agent_notice", "text": text.strip()}],
    }


class _Judge:
    """Turns records into result documents."""

    def __init__(self, catalogue: Catalogue, family: str | None, *, explain: bool) -> None:
        self._catalogue, self._family, self._explain = catalogue, family, explain

    def document(self, record: Any, index: int, where: str) -> dict[str, Any]:  # noqa: ANN401  # any JSON
        """Return the result of a record."""
        return self.answer(record, index, where)[0]

    def answer(self, record: Any, index: int, where: str) -> tuple[dict[str, Any], str | None]:  # noqa: ANN401
        """Return the result of a record, and why nothing automatic may follow."""
        from kandev_routing_sdk.catalogue.explain import explain
        from kandev_routing_sdk.catalogue.wire import is_bare, parse_record, result_record

        bare = is_bare(record)
        try:
            record_id, evidence = parse_record(self._with_family(record, bare=bare), index, bare=bare)
        except InputDataError as problem:
            raise InputDataError(_placed(str(problem), index, where)) from None
        if not self._explain:
            found = self._catalogue.classify(evidence)
            return result_record(record_id, found, evidence), found.automatic_refusal(evidence.effects)
        explained = explain(self._catalogue, evidence)
        document = {
            **result_record(record_id, explained.classification, evidence),
            "because": list(explained.classification.because),
            "refusal": explained.refusal,
            "rules": [{"rule": v.rule, "fate": v.fate, "why": v.why} for v in explained.verdicts],
        }
        return document, explained.refusal

    def _with_family(self, record: Any, *, bare: bool) -> Any:  # noqa: ANN401
        evidence = record if bare else record.get("evidence") if isinstance(record, dict) else None
        if self._family is None or not isinstance(evidence, dict) or "family" in evidence:
            return record
        whole = {**evidence, "family": self._family}
        return whole if bare else {**record, "evidence": whole}


def _placed(message: str, index: int, where: str) -> str:
    """Say the line instead of the record's number; one record needs neither."""
    if message.endswith("family is missing; give it"):
        message += ", or use --family"
    rest = message.removeprefix(f"record {index}")
    if rest == message:
        return message
    return f"{where}{rest}" if where else rest.removeprefix(": ").strip()


@contextmanager
def _without_secrets() -> Iterator[None]:
    """Clean what an error repeats: a text that was given in place of a file's name may hold a key (R-EVI-5)."""
    try:
        yield
    except InputDataError as problem:
        from kandev_routing_sdk.evidence.sanitise import Sanitiser

        raise InputDataError(one_line(Sanitiser().text(str(problem)), 300)) from None


def _lines(file: str) -> Iterator[tuple[int, bytes]]:
    """Yield each line that holds something, with its number; reads no further than it is asked to."""
    if file == "-":
        yield from _numbered(standard_input())
        return
    with _without_secrets():
        try:
            stream = open(file, "rb")  # noqa: SIM115, PTH123  # closed below; opening is what may fail
        except OSError as problem:
            raise InputDataError(
                f"{file} cannot be read: {problem.strerror}; name a file, or - for standard input"
            ) from None
    with stream:
        yield from _numbered(stream)


def _numbered(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if line.strip():
            yield number, line
        while len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            line = stream.readline(MAX_LINE_BYTES + 1)  # the rest of a line that is too long


def _json(text: str | bytes, where: str) -> Any:  # noqa: ANN401
    if isinstance(text, bytes) and len(text) > MAX_LINE_BYTES:
        raise InputDataError(f"{where} is longer than {MAX_LINE_BYTES} bytes; split its record")
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8-sig")
        return json.loads(decoded, parse_constant=_no_number)
    except UnicodeDecodeError as problem:
        raise InputDataError(f"{where} is not UTF-8 text (byte {problem.start}); convert it to UTF-8") from None
    except json.JSONDecodeError as problem:
        place = (
            f"column {problem.colno}" if isinstance(text, bytes) else f"line {problem.lineno}, column {problem.colno}"
        )
        raise InputDataError(
            f"{where} is not JSON ({problem.msg} at {place}); write one evidence record there"
        ) from None
    except RecursionError:
        raise InputDataError(f"{where} is nested too deeply; flatten it") from None
    except _NotJson as problem:
        raise InputDataError(f"{where} is not JSON ({problem}); write one evidence record there") from None
    except ValueError:
        raise InputDataError(
            f"{where} holds a number of thousands of digits; shorten it, or write it as a string"
        ) from None


class _NotJson(ValueError):
    """What Python takes for JSON, and nobody else."""


def _no_number(name: str) -> float:
    raise _NotJson(f"{name} is no JSON number")


def _show(document: dict[str, Any], refusal: str | None, *, every: bool) -> None:
    print_text(
        f"{document['code']} ({document['class']}), confidence {document['confidence']}, scope {document['scope']}"
    )
    print_text(f"rule: {document['classifier_rule'] or 'none decides'} (catalogue {document['catalogue_version']})")
    facts = [document[name] for name in ("provider_id", "model_id") if document[name]]
    if facts:
        print_text(f"provider: {', '.join(facts)}")
    _show_timing(document)
    print_text(f"automatic recovery: {f'not allowed ({refusal})' if refusal else 'allowed'}")
    if document["safe_excerpt"]:
        print_text(f"said: {one_line(document['safe_excerpt'], 500)}")
    for line in document.get("because", ()):
        print_text(f"why: {one_line(line, 500)}")
    if "rules" in document:
        _show_rules(document["rules"], every=every)


def _show_rules(rules: list[dict[str, str]], *, every: bool) -> None:
    """Show what became of the rules: those that matched, and of the others how many, or each."""
    fates = Counter(rule["fate"] for rule in rules)
    silent = fates["no_match"] + fates["not_applicable"]
    if fates.total() > silent + fates["unread"]:
        print_text("rules that match:")
    else:
        print_text(f"no rule matches{', though there are words of:' if fates['unread'] else ''}")
    for rule in rules:
        if every or rule["fate"] not in _ABSENT:
            print_text(f"  {rule['rule']}: {_ABSENT.get(rule['fate'], rule['fate'])}: {one_line(rule['why'], 300)}")
    if not every:
        print_text(
            f"other rules: {fates['no_match']} find nothing that they look for, {fates['not_applicable']} do not apply "
            "(another family, channel or phase); --all names them"
        )


def _show_timing(document: dict[str, Any]) -> None:
    if document["reset_at"]:
        print_text(f"back at: {document['reset_at']}")
    if document["retry_after_s"] is not None:
        print_text(f"back in: {document['retry_after_s']} s")
    hint = document["hint"]
    if hint:
        print_text(f"  read from the {hint['source']} {one_line(hint['written'], 200)!r}, zone: {hint['zone']}")
