"""Rules about the house itself: its budgets, its public door, what it ships, and what must never be written into it."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import entry_points, packages_distributions
from pathlib import Path
from types import ModuleType

import pytest

from kandev_routing_sdk import opening

ROOT = Path(__file__).parents[1]
DISTRIBUTIONS = {
    "kandev_routing_sdk": ROOT,
    "kandev_routing_claude": ROOT / "adapters" / "claude",
    "kandev_routing_codex": ROOT / "adapters" / "codex",
    "kandev_routing_opencode": ROOT / "adapters" / "opencode",
}
PACKAGES = tuple(DISTRIBUTIONS)
MODULE_LINES = 420
FUNCTION_LINES = 60

# Folders that a checkout may hold without being part of it.
FOREIGN = re.compile(r"^(\.(?!ci$|github$).*|build|dist|node_modules|venv|__pycache__|htmlcov)$")

# Character classes keep the patterns from finding themselves.
FORBIDDEN = {
    "a path of one machine": r"(?<![\w.~])/(?:wor[k]|roo[t])/|/tm[p]/kr\b",
    "a package index": r"https?://[^\s\"'<>/]*(?:regist[r]y|py[p]i|mirro[r]|artifactor[y]|nexu[s])[^\s\"'<>/]*",
    "an index option": r"(?:extra-)?inde[x]-url|fin[d]-links|truste[d]-host",
    "an unfinished thought": r"\b(?:TOD[O]|FIXM[E]|XX[X])\b",
}
SKIPPED = re.compile(r"pytest\.(?:mark\.)?(?:ski[p]|skipi[f]|xfai[l]|importorski[p])\b|unittest\.ski[p]")


def _python_files(package: str) -> list[Path]:
    return sorted((DISTRIBUTIONS[package] / package).rglob("*.py"))


def _shipped() -> list[Path]:
    return [path for package in PACKAGES for path in _python_files(package)]


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not FOREIGN.match(name)]
        yield from (Path(parent, name) for name in names if name != ".git")  # a file in a worktree


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _project(folder: Path) -> dict[str, dict[str, object]]:
    return tomllib.loads((folder / "pyproject.toml").read_text())


# Budgets ----------------------------------------------------------------------------------------------------------------


def test_no_module_is_longer_than_can_be_read_at_once() -> None:
    lengths = {_name(path): len(path.read_text().splitlines()) for path in _shipped()}
    assert {} == {name: length for name, length in lengths.items() if length > MODULE_LINES}


def _code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Length without the docstring: describing every argument must not count against a function."""
    first, total = node.body[0], (node.end_lineno or node.lineno) - node.lineno + 1
    described = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return total - ((first.end_lineno or first.lineno) - first.lineno + 1 if described else 0)


def test_no_function_is_longer_than_a_page() -> None:
    lengths = {
        f"{_name(path)}::{node.name}": _code_lines(node)
        for path in _shipped()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {} == {name: length for name, length in lengths.items() if length > FUNCTION_LINES}


def _holds_state(node: ast.stmt) -> bool:
    mutable = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
    if isinstance(node, ast.Assign):
        return isinstance(node.value, mutable) and "__all__" not in {ast.unparse(target) for target in node.targets}
    # Declared read-only, mypy refuses whoever would change it.
    readonly = r"(Final\[)?(Mapping|Sequence|AbstractSet|Collection)\["
    return (
        isinstance(node, ast.AnnAssign)
        and isinstance(node.value, mutable)
        and not re.match(readonly, ast.unparse(node.annotation))
        and ast.unparse(node.target) != "__all__"
    )


def test_no_module_keeps_state() -> None:
    """What a module holds is for good: a tuple, a frozenset, a MappingProxyType, or declared `Mapping` or `Sequence`."""
    found = [
        f"{_name(path)}:{node.lineno}"
        for path in _shipped()
        for node in ast.parse(path.read_text()).body
        if _holds_state(node)
    ]
    assert [] == found


# Floors -----------------------------------------------------------------------------------------------------------------


def test_every_pure_floor_is_under_the_pure_contract() -> None:
    """A floor added at or below `route` is added to the list of those that may not touch the world, too."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    contracts = {contract["id"]: contract for contract in linter["contracts"]}
    floors = [re.findall(r"\w+", layer) for layer in contracts["floors"]["layers"]]
    lowest = floors[next(i for i, floor in enumerate(floors) if "route" in floor) :]
    package = ROOT / "kandev_routing_sdk"
    built = {
        f"kandev_routing_sdk.{name}"
        for floor in lowest
        for name in floor
        if (package / name).is_dir() or (package / f"{name}.py").exists()
    }
    assert set(contracts["pure"]["source_modules"]) == built


def test_nothing_inside_goes_through_the_public_door() -> None:
    """The door re-exports from every floor: an import of it from inside would go up, unseen by the floor contract."""
    package = ROOT / "kandev_routing_sdk"
    modules = {path.stem for path in package.iterdir()}
    found = [
        f"{_name(path)}:{node.lineno}"
        for path in _python_files("kandev_routing_sdk")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "kandev_routing_sdk"
        if any(alias.name not in modules and not alias.name.startswith("__") for alias in node.names)
    ]
    assert [] == found


def test_every_adapter_of_this_repository_is_where_an_adapter_has_to_be() -> None:
    """CONTRIBUTING.md lists the places; one that is forgotten goes unchecked in silence."""
    names = sorted(path.parent.name for path in (ROOT / "adapters").glob("*/pyproject.toml"))
    packages = [f"kandev_routing_{name}" for name in names]
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    contracts = {contract["id"]: contract for contract in tools["importlinter"]["contracts"]}
    for listed in (
        PACKAGES,
        tools["importlinter"]["root_packages"],
        contracts["cycles"]["ancestors"],
        opening._SHIPPED,
    ):
        assert ["kandev_routing_sdk", *packages] == sorted(listed, key=lambda name: (name != PACKAGES[0], name))
    assert packages == sorted(contracts["adapters"]["source_modules"])
    tox = (ROOT / "tox.ini").read_text()
    for name in names:
        assert f"adapters/{name}" in tools["ruff"]["src"]
        assert f"$MYPY_CONFIG_FILE_DIR/adapters/{name}" in tools["mypy"]["mypy_path"]
        assert f"-e ./adapters/{name}\n" in tox
        assert f"{{tox_root}}{{/}}adapters{{/}}{name}" in tox


# Logs -----------------------------------------------------------------------------------------------------------------

LOGGERS = {"_log", "log", "logger", "logging"}
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}


def _log_calls() -> Iterator[tuple[str, ast.Call]]:
    for path in _python_files("kandev_routing_sdk"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=level)) if (
                    name in LOGGERS and level in LEVELS
                ):
                    yield f"{_name(path)}:{node.lineno}", node


def test_every_log_call_is_a_constant_sentence_with_fields() -> None:
    """`_log.warning("an agent could not be proven gone", extra=fields(attempt_id=…))`: nothing is formatted into it (R-OBS-1)."""
    calls = list(_log_calls())
    assert len(calls) > 10
    wrong = []
    for where, call in calls:
        (sentence,) = call.args if len(call.args) == 1 else (None,)
        constant = isinstance(sentence, ast.Constant) and "%" not in str(sentence.value)
        extra = [k.value for k in call.keywords if k.arg == "extra"]
        named = [e.func.id for e in extra if isinstance(e, ast.Call) and isinstance(e.func, ast.Name)]
        if not constant or named not in (["fields"], ["problem_fields"]):
            wrong.append(where)
    assert [] == wrong


def test_every_module_that_logs_has_its_own_logger() -> None:
    """`_log = get_logger(__name__)`, from `kandev_routing_sdk.telemetry`."""
    wrong = []
    for path in _python_files("kandev_routing_sdk"):
        text = path.read_text()
        if "_log." in text and "self._log" not in text and "_log = get_logger(__name__)" not in text:
            wrong.append(_name(path))
    assert [] == wrong


# The public door --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["kandev_routing_sdk", "kandev_routing_sdk.spec", "kandev_routing_sdk.testing"])
def test_all_is_sorted_and_every_name_is_there(door: str) -> None:
    module = importlib.import_module(door)
    assert module.__all__ == sorted(set(module.__all__))
    for name in module.__all__:
        getattr(module, name)


@pytest.mark.parametrize("door", ["kandev_routing_sdk", "kandev_routing_sdk.spec", "kandev_routing_sdk.testing"])
def test_a_door_shows_nothing_that_is_not_listed(door: str) -> None:
    """Its submodules apart, which become attributes once somebody imports them."""
    module = importlib.import_module(door)
    shown = {n for n in dir(module) if not n.startswith("_") and not isinstance(getattr(module, n), ModuleType)}
    assert set(module.__all__) == shown - {"annotations", "TYPE_CHECKING", "import_module"}


@pytest.mark.parametrize("door", ["kandev_routing_sdk", "kandev_routing_sdk.testing"])
def test_a_type_checker_sees_no_name_that_there_is_not(door: str) -> None:
    """A module's ``__getattr__`` gives every misspelt import a type, so it is kept from type checkers."""
    module = importlib.import_module(door)
    body = ast.parse(Path(module.__file__ or "").read_text("utf-8")).body
    (hidden,) = (n for n in body if isinstance(n, ast.If) and "not TYPE_CHECKING" == ast.unparse(n.test))
    assert ["__getattr__"] == [n.name for n in hidden.body if isinstance(n, ast.FunctionDef)]
    assert "__getattr__" not in [n.name for n in body if isinstance(n, ast.FunctionDef)]


def test_the_root_shows_nothing_but_all() -> None:
    """In a fresh process, because submodules that others imported become attributes."""
    script = "import kandev_routing_sdk as sdk; print(*(n for n in dir(sdk) if not n.startswith('_')))"
    shown = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert importlib.import_module("kandev_routing_sdk").__all__ == sorted(shown)


def test_importing_the_root_loads_no_floor_that_is_not_asked_for() -> None:
    script = "import sys, kandev_routing_sdk; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert set() == {"acp", "alembic", "anyio", "cryptography", "rich", "sqlalchemy", "typer"} & set(loaded)


# What ships -------------------------------------------------------------------------------------------------------------


def test_the_adapters_and_the_command_are_found_by_their_entry_points() -> None:
    adapters = {entry.name: entry for entry in entry_points(group="kandev_routing_sdk")}
    scripted = {"scripted": "kandev_routing_sdk.testing.scripted.plugin"}
    shipped = {name: f"kandev_routing_{name}" for name in ("claude", "codex", "opencode")}
    assert shipped | scripted == {name: entry.load().__name__ for name, entry in adapters.items()}
    (command,) = entry_points(group="console_scripts", name="kandev-routing")
    assert callable(command.load())


@pytest.mark.parametrize("package", PACKAGES)
def test_the_wheel_holds_every_file_of_the_package(package: str, tmp_path: Path) -> None:
    """Rules, migrations and py.typed are part of the product."""
    folder = DISTRIBUTIONS[package]
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        shipped = set(archive.namelist())
    expected = {path.relative_to(folder).as_posix() for path in _files(folder / package) if path.suffix != ".pyc"}
    assert set() == expected - shipped
    assert f"{package}/py.typed" in shipped
    assert any(name.endswith("/licenses/LICENSE") for name in shipped)


def test_the_distributions_share_their_version_and_their_licence() -> None:
    projects = [_project(folder)["project"] for folder in DISTRIBUTIONS.values()]
    assert {("0.1.0", "Apache-2.0", ">=3.11")} == {
        (project["version"], project["license"], project["requires-python"]) for project in projects
    }
    assert 1 == len({(folder / "LICENSE").read_bytes() for folder in DISTRIBUTIONS.values()})


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def _distribution(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=!~;]", requirement)[0]).lower()


@pytest.mark.parametrize("package", PACKAGES)
def test_everything_that_is_imported_is_installed_with_it_and_all_that_is_installed_is_used(package: str) -> None:
    """What only tests need is no dependency of a user; what the testing aids need is in the extra that says so."""
    project = tomllib.loads((DISTRIBUTIONS[package] / "pyproject.toml").read_text())["project"]
    needed = {_distribution(requirement) for requirement in project["dependencies"]}
    extra = {_distribution(r) for group in project.get("optional-dependencies", {}).values() for r in group}
    names = {name for path in _python_files(package) for name in _imported(path)} - sys.stdlib_module_names - {package}
    installed = packages_distributions()
    homes = {name: {_distribution(home) for home in installed.get(name, [name])} for name in names}
    known = needed | extra | {"pydantic-core"}  # pydantic pins its core to the version it needs
    # one of its homes is enough: several distributions share `opentelemetry`
    assert {} == {name: found for name, found in homes.items() if not found & known}
    assert set() == needed - set().union(*homes.values()) - {"tzdata"}, "tzdata is data: the standard library reads it"


# What must not be written -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", FORBIDDEN)
def test_nothing_committed_holds(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    found = []
    for path in _files(ROOT):
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [f"{_name(path)}:{number}" for number, line in enumerate(text.splitlines(), 1) if pattern.search(line)]
    assert [] == found


def test_no_test_is_skipped() -> None:
    found = [_name(path) for path in sorted((ROOT / "tests").rglob("*.py")) if SKIPPED.search(path.read_text())]
    assert [] == found
