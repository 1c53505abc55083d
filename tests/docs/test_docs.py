"""The documentation lists what the code has, leads where it says, and shows what loads and compiles.

Each test names the page that is to be mended when it fails.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import re
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import get_args

import pluggy
import pytest
import typer.main

import kandev_routing_sdk
from kandev_routing_sdk import errors, load_settings, results, spec, structured, testing
from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.rules import RuleSource
from kandev_routing_sdk.cli.app import app
from kandev_routing_sdk.errors import RoutingError
from kandev_routing_sdk.evidence.updates import AgentUpdate
from kandev_routing_sdk.plugins import load_registry
from kandev_routing_sdk.policy.document import ClassPolicy, PolicyDocument, RetryPolicy, Section, WaitPolicy
from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.profiles.parse import CANDIDATE_KEYS, LAUNCH_KEYS, SHARED_KEYS
from kandev_routing_sdk.results import CallOutcome
from kandev_routing_sdk.route.drafts import drafts
from kandev_routing_sdk.route.facts import Facts
from kandev_routing_sdk.route.model import EventKind, Reason, Route, State
from kandev_routing_sdk.settings import SETTINGS, SettingSpec
from kandev_routing_sdk.spec import hooks
from kandev_routing_sdk.types import Code, Confidence, ErrorClass, Phase, Scope
from tests.docs._pages import (
    DOCS,
    REFERENCE,
    ROOT,
    Snippet,
    anchors,
    headings,
    links,
    name_of,
    pages,
    prose_of,
    section,
    snippets,
    text_of,
)

README = ROOT / "README.md"
CONFIGURATION = REFERENCE / "configuration.md"
ERRORS = REFERENCE / "errors.md"
EVENTS = REFERENCE / "events.md"
HOOKS = REFERENCE / "hooks.md"
PYTHON = REFERENCE / "python.md"
CLI = REFERENCE / "cli.md"


def _row(text: str, key: str) -> str:
    """The table row whose first cell is ``key``."""
    found = re.search(rf"^\| [^|]*`{re.escape(key)}`[^|]* \|.*$", text, re.MULTILINE)
    return found[0] if found else ""


# Pages ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert [] == broken


def test_the_index_leads_to_every_page() -> None:
    index = DOCS / "index.md"
    reached = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    assert set() == {p for p in DOCS.rglob("*.md") if p != index} - reached


# Settings and keys ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
def test_every_setting_has_its_section(setting: SettingSpec) -> None:
    text = section(CONFIGURATION, f"`{setting.name}`")
    assert f"`{setting.environment}`" in text
    assert f"| flag | {f'`{setting.flag}`' if setting.flag else 'none'} |" in text
    assert {"environment", "flag", "type", "default", "example"} == set(re.findall(r"^\| (\w+) \|", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("heading", "keys"),
    [
        ("Keys of every profile", SHARED_KEYS),
        ("Keys of a concrete profile", LAUNCH_KEYS),
        ("Keys of a dynamic profile", ("candidates",)),
        ("Candidates", CANDIDATE_KEYS),
        ("Policy", ("version", "on_exhausted")),
    ],
)
def test_every_key_has_its_row_and_nothing_else_has(heading: str, keys: tuple[str, ...]) -> None:
    text = section(CONFIGURATION, heading)
    for key in keys:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", _row(text, key))[1:-1]]
        assert 5 == len(cells), key
        assert cells[1], f"{key} has no type"
        assert re.search(rf"\b{key}\b.* = ", cells[4]), f"{key} has no example"
    listed = {
        name for row in re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE) for name in re.findall(r"`([\w.]+)`", row)
    }
    assert set() == listed - set(keys) - ({"transient", "hard"} | _policy_paths() if heading == "Policy" else set())


def _policy_paths() -> set[str]:
    sections: dict[str, type[Section]] = {"retry": RetryPolicy, "wait_for_reset": WaitPolicy}
    return {f"{name}.{key}" for name, model in sections.items() for key in model.model_fields}


def test_the_keys_of_a_policy_are_all_listed() -> None:
    text = section(CONFIGURATION, "Policy")
    assert {"retry", "wait_for_reset", "on_exhausted"} == set(ClassPolicy.model_fields)
    assert {"version", "transient", "hard"} == set(PolicyDocument.model_fields)
    assert [] == [path for path in sorted(_policy_paths() | {"transient", "hard"}) if not _row(text, path)]


@pytest.mark.parametrize(("name", "model"), [("retry", RetryPolicy), ("wait_for_reset", WaitPolicy)])
def test_the_bounds_are_those_of_the_code(name: str, model: type[Section]) -> None:
    text = section(CONFIGURATION, "Policy")
    for key, (low, high) in model.bounds.items():
        assert f"| {low}–{high}" in _row(text, f"{name}.{key}")


@pytest.mark.parametrize("key", [k for k in (*SHARED_KEYS, *LAUNCH_KEYS) if k not in {"kind", "name", "family"}])
def test_the_defaults_of_flags_are_those_of_the_code(key: str) -> None:
    default = ConcreteProfile.model_fields[key].default
    if isinstance(default, bool):
        assert f"| `{str(default).lower()}` |" in _row(text_of(CONFIGURATION), key)


def test_the_published_schema_is_the_codes() -> None:
    """Run ``docs/_tools/write_config_schema.py`` when this fails."""
    tool = _tool("write_config_schema")
    assert tool.content() == tool.TARGET.read_text("utf-8")


# Errors -----------------------------------------------------------------------------------------------------------------


def _errors(root: type[RoutingError]) -> Iterator[type[RoutingError]]:
    yield root
    for child in root.__subclasses__():
        yield from _errors(child)


def _ours() -> list[type[RoutingError]]:
    assert {results.CallFailed, structured.AnswerMismatch} <= set(RoutingError.__subclasses__()), "imported, so known"
    return [error for error in _errors(RoutingError) if error.__module__.startswith("kandev_routing_sdk")]


@pytest.mark.parametrize("error", _ours(), ids=lambda e: e.__name__)
def test_every_error_has_its_section(error: type[RoutingError]) -> None:
    text = section(ERRORS, f"`{error.code}`").strip()
    assert text.startswith(f"`{error.__name__}`, exit code {error.exit_code}"), error.code
    assert 60 < len(text), "say what it means, and the way out"


def test_no_error_is_listed_that_there_is_not() -> None:
    listed = {title.strip("`") for title in headings(ERRORS) if title.startswith("`")}
    assert {error.code for error in _ours()} == listed
    assert len(_ours()) == len(listed), "each code belongs to one error"


def test_the_exit_codes_of_the_readme_are_complete() -> None:
    text = section(README, "Exit codes")
    listed = {int(n) for row in re.findall(r"^\| ([\d, ]+) \|", text, re.MULTILINE) for n in row.split(",")}
    of_the_code = {error.exit_code for error in _ours()} | {outcome.exit_code for outcome in CallOutcome}
    assert of_the_code | {143} == listed


def test_the_tree_in_errors_shows_every_error_below_its_parent() -> None:
    """And the exit code where it is given; without one it is the parent's."""
    lines = [line for line in (errors.__doc__ or "").splitlines() if re.match(r"    (RoutingError|[ │├└─]+\w)", line)]
    parents, shown = [RoutingError.__name__], {}
    for line in lines[1:]:
        found = re.match(r"    ([ │]*[├└]── )(\w+)\s*(\d*)", line)
        assert found is not None, line
        parents[len(found[1]) // 4 :] = [found[2]]
        shown[found[2]] = parents[-2], int(found[3] or 0)
    known = {error.__name__: error for error in _ours()}
    known.pop(RoutingError.__name__)
    assert {name: error.__bases__[0].__name__ for name, error in known.items()} == {n: p for n, (p, _) in shown.items()}
    of_parent = {name: error.__bases__[0].exit_code for name, error in known.items()}  # type: ignore[attr-defined]
    assert {name: error.exit_code for name, error in known.items()} == {
        name: code or of_parent[name] for name, (_, code) in shown.items()
    }


# Hooks ------------------------------------------------------------------------------------------------------------------


def test_every_hook_has_its_exact_signature_as_heading() -> None:
    manager = pluggy.PluginManager(hooks.GROUP)
    manager.add_hookspecs(hooks)
    found = [
        f"{name}({', '.join(caller.spec.argnames)})"
        for name, caller in sorted(vars(manager.hook).items())
        if isinstance(caller, pluggy.HookCaller) and caller.spec is not None
    ]
    assert found
    assert found == [title for title in headings(HOOKS) if title.startswith("kandev_routing_")]


# Events, reasons, progress ----------------------------------------------------------------------------------------------


def test_the_events_are_exactly_those_of_the_code() -> None:
    assert [kind.value for kind in EventKind] == [t.strip("`") for t in headings(EVENTS) if t.startswith("`session.")]


NOW = datetime(2026, 1, 1, tzinfo=UTC)
FAILED = Classification(
    code=Code.QUOTA_LIMITED,
    error_class=ErrorClass.HARD,
    confidence=Confidence.HIGH,
    scope=Scope.ACCOUNT,
    classifier_rule=None,
    catalogue_version="1",
    phase=Phase.STREAMING,
)


@pytest.mark.parametrize("kind", list(EventKind))
@pytest.mark.parametrize("state", [State.RETRY_WAIT, State.ACTION_REQUIRED])
def test_every_parameter_of_an_event_is_described(kind: EventKind, state: State) -> None:
    decision = kandev_routing_sdk.Decision.model_validate(
        {
            "kind": "retry",
            "error_class": "hard",
            "code": "quota_limited",
            "ordinal": 1,
            "deadline": NOW,
            "pending_outcome": "skip",
            "catalogue_version": "1",
        }
    )
    route = Route(
        session_id="s",
        logical_profile_id="p",
        state=state,
        classification=FAILED,
        decision=decision,
        created_at=NOW,
        updated_at=NOW,
    )
    labels = {"provider_id": "north", "model_id": "m", "profile": "Fable"}
    (draft,) = drafts([kind], route, route, Facts(labels=labels))
    text = section(EVENTS, f"`{kind}`")
    assert [] == [name for name in draft.params if f"`{name}`" not in text and name not in labels]
    assert draft.params


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_is_described(reason: Reason) -> None:
    assert _row(section(EVENTS, "Reasons"), reason)


@pytest.mark.parametrize("progress", get_args(results.Progress), ids=lambda p: p.__name__)
def test_every_progress_value_has_its_section(progress: type) -> None:
    text = section(EVENTS, f"`{progress.__name__}`")
    assert [] == [name for name in inspect.signature(progress).parameters if f"`{name}`" not in text]


@pytest.mark.parametrize("update", get_args(AgentUpdate), ids=lambda u: u.__name__)
def test_every_agent_update_is_described(update: type) -> None:
    row = _row(section(EVENTS, "Agent updates"), update.__name__)
    assert [] == [name for name in inspect.signature(update).parameters if f"`{name}`" not in row]


# Public names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", [kandev_routing_sdk, spec, testing], ids=lambda m: m.__name__)
def test_every_public_name_has_its_heading_and_no_other_has(door: ModuleType) -> None:
    text = section(PYTHON, f"`{door.__name__}`")
    assert sorted(door.__all__) == sorted(re.findall(r"^### `(\w+)`$", text, re.MULTILINE))


def test_every_error_that_a_public_docstring_names_is_public() -> None:
    """A host catches it: `except StaleGeneration`."""
    named = set(re.findall(r"errors\.md#(\w+)", text_of(PYTHON)))
    doors = {name for door in (kandev_routing_sdk, spec, testing) for name in door.__all__}
    assert "stale_generation" in named
    assert set() == {error.__name__ for error in _ours() if error.code in named} - doors


def test_the_entries_are_the_docstrings() -> None:
    """Run ``python docs/_tools/write_python.py`` when this fails."""
    tool = _tool("write_python")
    assert tool.content() == tool.PAGE.read_text("utf-8")


@pytest.mark.parametrize(
    "name", ["Router", "Sessions", "AgentAdapter"], ids=["the host's object", "its sessions", "the adapter's base"]
)
def test_every_public_method_is_described(name: str) -> None:
    text = text_of(PYTHON)
    owner = getattr(kandev_routing_sdk, name, None) or getattr(spec, name)
    methods = [
        n
        for n, value in vars(owner).items()
        if not n.startswith("_") and (callable(value) or isinstance(value, property | classmethod))
    ]
    assert methods
    assert [] == [n for n in methods if not re.search(rf"`{name}\.{n}\b", text)]


@pytest.mark.parametrize("name", ["route_once", "route_once_async", "explain", "load_settings"])
def test_the_signatures_name_every_argument(name: str) -> None:
    text = section(PYTHON, f"`{name}`")
    assert [] == [p for p in inspect.signature(getattr(kandev_routing_sdk, name)).parameters if p not in text]


def test_every_argument_of_open_is_described() -> None:
    text = section(PYTHON, "`Router`")
    parameters = inspect.signature(kandev_routing_sdk.Router.open).parameters
    assert [] == [p for p in parameters if f"`{p}`" not in text]


@pytest.mark.parametrize(
    "name",
    ["CallResult", "AttemptReport", "Classification", "Decision", "Explanation", "Signal", "Snapshot", "WorkerReport"],
)
def test_every_field_of_a_result_is_described(name: str) -> None:
    text = section(PYTHON, f"`{name}`")
    known = inspect.signature(getattr(kandev_routing_sdk, name)).parameters
    attribution = {"provider_id", "model_id", "occurred_at", "catalogue_version"}
    assert [] == [p for p in known if f"`{p}`" not in text and p not in attribution]


def test_every_mark_of_a_turn_is_described() -> None:
    text = section(PYTHON, "`TurnRecord`")
    marks = [n for n in vars(spec.TurnRecord) if not n.startswith("_") and n != "report"]
    assert [] == [n for n in marks if f"`{n}`" not in text and f"#### `TurnRecord.{n}`" not in text]


# Explanations -----------------------------------------------------------------------------------------------------------

CONTRIBUTING = ROOT / "CONTRIBUTING.md"
EXPLANATIONS = [CONTRIBUTING, *sorted((DOCS / "explanation").rglob("*.md"))]


@pytest.mark.parametrize("page", EXPLANATIONS, ids=name_of)
def test_every_file_that_an_explanation_names_is_there(page: Path) -> None:
    """A name alone is any file of the package or an adapter, a path begins in the package or at the root."""
    package = ROOT / "kandev_routing_sdk"
    named = {path for path in re.findall(r"`([\w./-]+\.(?:py|toml))`", prose_of(page)) if path != "kandev-routing.toml"}
    alone = {path.name for folder in (package, ROOT / "adapters") for path in folder.rglob("*.*")}
    assert set() == {
        path for path in named if not (path in alone or (package / path).exists() or (ROOT / path).exists())
    }


def test_the_commands_for_contributors_name_what_there_is() -> None:
    text = text_of(CONTRIBUTING)
    tox = (ROOT / "tox.ini").read_text("utf-8")
    environments = set(re.findall(r"tox -e ([\w-]+)", text))
    assert {"lint", "types", "tests", "real-agents", "py"} == environments
    assert [] == [name for name in environments - {"py"} if f"[testenv:{name}]" not in tox]
    paths = set(re.findall(r"[`\s](tests/[\w/]+|\.ci/run|docs/[\w/.-]+|adapters/\w+)(?=[\s`)/])", text))
    assert {"tests/policy", ".ci/run", "adapters/claude"} <= paths
    assert [] == [path for path in paths if not (ROOT / path).exists()]
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert set() == set(re.findall(r"--group (\w+)", text)) - set(groups["dependency-groups"])
    assert set() == {e for found in re.findall(r"'\.\[([\w,]+)\]'", text) for e in found.split(",")} - set(
        groups["project"]["optional-dependencies"]
    )


def test_the_architecture_shows_every_floor() -> None:
    text = section(DOCS / "explanation" / "architecture.md", "The floors")
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (contract["layers"] for contract in linter["contracts"] if contract["id"] == "floors")
    floors = [re.findall(r"\w+", layer) for layer in layers]
    package = ROOT / "kandev_routing_sdk"
    built = [
        name for floor in floors for name in floor if (package / name).is_dir() or (package / f"{name}.py").exists()
    ]
    shown = [
        name
        for row in re.findall(r"^\| ([^|]*(?:\\\|[^|]*)*) \|", text, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    ]
    assert "store" in shown
    assert set() == set(built) - set(shown) - {"__main__"}
    order = [i for name in shown for i, floor in enumerate(floors) if name in floor]
    assert sorted(order) == order, "from top to bottom"


# Command line -----------------------------------------------------------------------------------------------------------


def _commands() -> list[str]:
    root = typer.main.get_command(app)
    found = []
    for name, command in getattr(root, "commands", {}).items():
        found.append(name)
        found += [f"{name} {sub}" for sub in getattr(command, "commands", {})]
    return found


@pytest.mark.parametrize("command", _commands())
def test_every_command_has_its_heading(command: str) -> None:
    assert any(re.search(rf"\b{command}\b", title) for title in headings(CLI)), f"{name_of(CLI)} has no {command}"


# What is shown ----------------------------------------------------------------------------------------------------------


def _tool(name: str) -> ModuleType:
    made = importlib.util.spec_from_file_location(name, DOCS / "_tools" / f"{name}.py")
    assert made is not None
    assert made.loader is not None
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    return module


def test_the_readme_draws_the_table() -> None:
    """Run ``docs/_tools/draw_states.py`` when this fails."""
    tool = _tool("draw_states")
    assert README in tool.DOCUMENTS
    assert tool.diagram() in text_of(README)


def test_the_readme_starts_with_the_two_commands() -> None:
    bash = [s.text for s in snippets("bash") if s.page == "README.md"]
    assert [
        "python -m pip install . ./adapters/claude ./adapters/codex ./adapters/opencode && kandev-routing demo\n",
        "python -m pip install tox-uv && tox\n",
    ] == bash[:2]


@pytest.mark.parametrize("snippet", snippets("python"), ids=str)
def test_python_compiles(snippet: Snippet) -> None:
    compile(snippet.text, str(snippet), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("snippet", snippets("json"), ids=str)
def test_json_parses(snippet: Snippet) -> None:
    """One document."""
    json.loads(snippet.text)


@pytest.mark.parametrize("snippet", snippets("toml"), ids=str)
def test_toml_loads(snippet: Snippet, tmp_path: Path) -> None:
    """A snippet is a configuration, whole or (without ``version``) a part of one, unless a comment before it says
    ``not a configuration: …``. The shipped adapters must find nothing wrong with its profiles either.
    """
    document = tomllib.loads(snippet.text)
    if snippet.comment == "not a configuration: rules":
        Catalogue.load([RuleSource(name=str(snippet), text=snippet.text)], verify=True)
        return
    if snippet.comment.startswith("not a configuration"):
        return
    file = tmp_path / "kandev-routing.toml"
    file.write_text(snippet.text if "version" in document else f"version = 1\n{snippet.text}", "utf-8")
    settings = load_settings(environ={"HOME": str(tmp_path)}, cwd=tmp_path, config=str(file))
    registry = load_registry()
    for profile in settings.profiles.values():
        if isinstance(profile, ConcreteProfile) and (adapter := registry.get(profile.family)) is not None:
            assert [] == list(adapter.validate(profile))
