"""What the pages on rules, policy and benchmarks show is what there is."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks import classify as benchmark
from kandev_routing_sdk import policy
from kandev_routing_sdk.catalogue.classify import automatic
from kandev_routing_sdk.catalogue.wire import is_bare, parse_record
from kandev_routing_sdk.opening import load_rules
from tests.docs._pages import REFERENCE, ROOT, links, section, text_of


@pytest.mark.parametrize("name", ["dynamic", "interactive", "unattended"])
def test_the_signatures_of_the_policy_functions_are_the_codes(name: str) -> None:
    """Names, order and defaults."""
    function: Callable[..., Any] = getattr(policy, name)
    shown = re.search(rf"`{name}\((.*?)\)` \|", text_of(REFERENCE / "policy.md"))
    assert shown is not None
    made = []
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.KEYWORD_ONLY and "*" not in made:
            made.append("*")
        made.append(p.name if p.default is p.empty else f"{p.name}={p.default}")
    assert ", ".join(made) == shown[1]


def test_the_readme_leads_to_rules_policy_and_replay() -> None:
    """And names the two commands that show what rules make of a failure."""
    found = set(links(ROOT / "README.md"))
    assert {"docs/reference/rules.md", "docs/reference/policy.md", "docs/how-to/replay.md"} <= found
    for command in ("classify", "replay"):
        assert f"`kandev-routing {command}`" in text_of(ROOT / "README.md")


def test_the_records_of_the_command_line_page_say_what_it_says() -> None:
    """The smallest one is never automatic, the one with effects is."""
    found = []
    shown = section(REFERENCE / "cli.md", "kandev-routing classify")
    for text in re.findall(r"echo '(\{.*?\})' ?\|", shown, re.DOTALL):
        record = json.loads(text)
        _, evidence = parse_record(record, 1, bare=is_bare(record))
        classified = load_rules()[1].classify(evidence)
        found.append((classified.code.value, automatic(classified, evidence)))
    assert [("provider_overloaded", False), ("provider_overloaded", True)] == found


def test_the_benchmarks_examples_measure_something(capsys: pytest.CaptureFixture[str]) -> None:
    """An example that prints nothing teaches nothing."""
    text = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    (line,) = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ") and "--only" in line]
    arguments = shlex.split(line, comments=True)[2:]
    assert 0 == benchmark.main([*arguments, "--seconds", "0.001"])
    assert "64 KiB : 4 KiB of adversarial text" in capsys.readouterr().out


def test_an_adversary_that_there_is_not_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """With the names that there are."""
    for arguments in (["--only", "nothing_like_it"], ["--only", "braces", "--table", "nothing"]):
        with pytest.raises(SystemExit) as ended:
            benchmark.main(arguments)
        assert 2 == ended.value.code
    err = capsys.readouterr().err
    assert "no adversary's name contains 'nothing_like_it'; names are the ids of rules, and braces, " in err
    assert "leave out --table nothing" in err
