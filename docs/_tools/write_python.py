# noqa: INP001  # a script beside the documentation, not a package
"""Write the entries of docs/reference/python.md from the docstrings of everything that is public.

``python docs/_tools/write_python.py`` rewrites what stands between the markers of each door; a test holds the page to it. What is
written by hand stands outside of the markers, or inside an entry behind ``<!-- by hand -->``, and stays.
"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import FunctionType
from typing import Any, Final, NamedTuple

from kandev_routing_sdk.errors import RoutingError

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "python.md"
DOORS: Final = ("kandev_routing_sdk", "kandev_routing_sdk.spec", "kandev_routing_sdk.testing")
FIRST: Final[Mapping[str, tuple[str, ...]]] = {
    "kandev_routing_sdk": ("route_once", "route_once_async", "explain", "load_settings", "Router", "Sessions"),
    "kandev_routing_sdk.spec": ("AgentAdapter", "LaunchRequest", "LaunchPlan"),
    "kandev_routing_sdk.testing": ("ScriptedAgent", "ScriptBuilder"),
}
"""What a reader comes for; the others follow in the order of their names."""
BY_HAND: Final = "<!-- by hand -->"
WIDTH: Final = 130
_ROLE: Final = re.compile(r":(\w+):`~?([\w.]+)`")
_PLACE: Final = re.compile(r"^(Args|Raises|Returns|Yields):$", re.MULTILINE)


class Entry(NamedTuple):
    """One public name."""

    door: str
    name: str
    value: object
    home: str
    """The module that defines it."""


def entries(door: str) -> list[Entry]:
    """Return the names of a door, what is looked for most first."""
    module = importlib.import_module(door)
    homes = dict(_imports(door))
    order = [*FIRST[door], *sorted(set(module.__all__) - set(FIRST[door]), key=str.lower)]
    return [Entry(door, name, getattr(module, name), homes[name]) for name in order]


def _imports(door: str) -> Iterator[tuple[str, str]]:
    """Where a door has its names from, as far down as they are passed on."""
    for node in ast.walk(_tree(door)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, _defining(node.module, alias.name)


def _defining(module: str, name: str) -> str:
    if not module.startswith("kandev_routing_sdk"):
        return module
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom) and node.module and name in {a.asname or a.name for a in node.names}:
            return _defining(node.module, name)
    return module


@cache
def _tree(module: str) -> ast.Module:
    importlib.import_module(module)
    return ast.parse(inspect.getsource(sys.modules[module]))


# Text -------------------------------------------------------------------------------------------------------------------


class Prose:
    """Docstrings as Markdown, with links to what is described on this page."""

    def __init__(self, anchors: Mapping[str, str], owner: str = "") -> None:
        self._anchors, self._owner = anchors, owner

    def inside(self, owner: str) -> Prose:
        """Return what reads the docstrings of a class's members."""
        return Prose(self._anchors, owner)

    def inline(self, text: str) -> str:
        """Return a text with its roles as links, and its code as code."""
        return re.sub(r"``(.+?)``", r"`\1`", _ROLE.sub(self._role, text))

    def _role(self, found: re.Match[str]) -> str:
        parts = found[2].split(".")
        of_a_class = found[1] in {"meth", "attr"}
        shown = ".".join(parts[-2:] if of_a_class else parts[-1:])
        own = f"{self._owner}.{shown}"
        if of_a_class and own in self._anchors:
            return f"[`{shown}`]({self._anchors[own]})"
        return f"[`{shown}`]({self._anchors[shown]})" if shown in self._anchors else f"`{shown}`"

    def typed(self, kind: str) -> str:
        """Return a type as code, with a link to the first of its names that is described."""
        names = (name for name in re.findall(r"\w+", kind) if name in self._anchors)
        shown, name = f"`{_escaped(kind)}`", next(names, None)
        return shown if name is None else f"[{shown}]({self._anchors[name]})"

    def paragraphs(self, text: str) -> list[str]:
        """Return prose: paragraphs are filled, lists keep their lines, and code is left as it is."""
        found = []
        for paragraph in re.split(r"\n\s*\n(?! )", text.strip("\n")):
            if not paragraph.strip():
                continue
            if paragraph.startswith(" "):
                found.append(_fenced(textwrap.dedent(paragraph)))
            elif re.match(r"```|[-*\d]+[. ]", paragraph):
                found.append(paragraph if paragraph.startswith("`") else self.inline(paragraph))
            else:
                found.append(_filled(self.inline(" ".join(paragraph.split()))))
        return found

    def docstring(self, text: str) -> list[str]:
        """Return a docstring in Google's style: prose, then its arguments and errors as lists."""
        head, *sections = _PLACE.split(text)
        found = self.paragraphs(head)
        for title, body in zip(sections[::2], sections[1::2], strict=True):
            inner = textwrap.dedent(body.strip("\n"))
            first, _, rest = inner.partition("\n\n")
            if title in {"Args", "Raises"}:
                found += [
                    f"{'Arguments' if title == 'Args' else title}:",
                    "\n".join(self._items(first, errors=title == "Raises")),
                ]
            else:
                found.append(_filled(self.inline(f"{title}: {' '.join(first.split())}")))
            found += self.paragraphs(textwrap.dedent(rest))
        return found

    def _items(self, text: str, *, errors: bool) -> Iterator[str]:
        for item in re.split(r"\n(?=\S)", text):
            names, _, said = " ".join(item.split()).partition(": ")
            shown = ", ".join(self._error(name) if errors else f"`{name}`" for name in names.split(", "))
            yield _filled(f"- {shown}: {self.inline(said)}", indent="  ")

    def _error(self, name: str) -> str:
        return f"[`{name}`]({self._anchors[name]})" if name in self._anchors else f"`{name}`"


def _filled(text: str, *, indent: str = "") -> str:
    whole = re.sub(r"`[^`]+`", lambda code: code[0].replace(" ", "\0"), text)  # no line ends inside of code
    lines = textwrap.wrap(whole, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


# Signatures -------------------------------------------------------------------------------------------------------------


def _signature(name: str, function: object, *, prefix: str = "") -> str:
    """Return how a function is called, one line or one for each argument."""
    signature = inspect.signature(function)  # type: ignore[arg-type]  # whoever calls this has a callable
    parameters = [p for p in signature.parameters.values() if p.name not in {"self", "cls"}]
    shown: list[str] = []
    for at, parameter in enumerate(parameters):
        if parameter.kind is parameter.KEYWORD_ONLY and not any(
            p.kind in {p.KEYWORD_ONLY, p.VAR_POSITIONAL} for p in parameters[:at]
        ):
            shown.append("*")
        shown.append(_parameter(parameter))
    returned = signature.return_annotation
    arrow = "" if returned is signature.empty or inspect.isclass(function) else f" -> {_type(returned)}"
    line = f"{prefix}{name}({', '.join(shown)}){arrow}"
    if len(line) <= WIDTH - 20:
        return line
    return f"{prefix}{name}(\n" + "".join(f"    {one},\n" for one in shown) + f"){arrow}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    shown = f"{stars}{parameter.name}"
    if parameter.annotation is not parameter.empty:
        shown += f": {_type(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        shown += f" = {_value(parameter.default)}"
    return shown


def _type(annotation: object) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", text).strip("'\"")


def _value(value: object) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    simple = value is None or isinstance(value, (bool, int, float, str, bytes)) or value in ((), {}, frozenset())
    return repr(value) if simple else "…"


# Entries ----------------------------------------------------------------------------------------------------------------


def _entry(entry: Entry, prose: Prose) -> list[str]:
    value = entry.value
    if inspect.isclass(value):
        return _class(entry, value, prose)
    if isinstance(value, FunctionType):
        prefix = "await " if inspect.iscoroutinefunction(value) else ""
        return [_fenced(_signature(entry.name, value, prefix=prefix)), *prose.docstring(inspect.getdoc(value) or "")]
    said = _attribute_docs(_tree(entry.home).body).get(entry.name, "")
    shown = _alias(entry)
    return [*([_fenced(shown)] if shown else []), *prose.docstring(said)]


def _alias(entry: Entry) -> str:
    """What a constant or an alias is, as it is written; nothing of what another package defines."""
    for node in _tree(entry.home).body if entry.home.startswith("kandev_routing_sdk") else ():
        target = node.target if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [None])[0]
        if isinstance(target, ast.Name) and target.id == entry.name and getattr(node, "value", None) is not None:
            return f"{entry.name} = {ast.unparse(node.value)}"  # type: ignore[attr-defined]  # an assignment has one
    return ""


def _class(entry: Entry, owner: type, outer: Prose) -> list[str]:
    prose = outer.inside(entry.name)
    found = prose.docstring(inspect.getdoc(owner) or "")
    if issubclass(owner, enum.Enum):
        found.append(_values(owner, prose))
    elif issubclass(owner, Exception):
        found.append(_raised(owner))
    if data := list(_data(owner)):
        rows = [
            (f"`{name}`", f"{prose.typed(kind)}{default}", prose.inline(_line(said)))
            for name, kind, default, said in data
        ]
        found.append(_table(("field", "type", ""), rows))
    elif getattr(owner, "_is_protocol", False):  # what is called, not how one would make it
        found[:0] = _called(entry.name, owner)
    elif "__init__" in vars(owner) and not issubclass(owner, enum.Enum | Exception) and not _is_private(owner):
        found.insert(0, _fenced(_signature(entry.name, owner)))
    for name, member in _members(owner):
        found += [f"#### `{entry.name}.{name}`", *_member(entry.name, name, member, prose)]
    return found


def _called(name: str, owner: type) -> list[str]:
    """How a host's own function is called, if that is what the protocol is about."""
    function = vars(owner).get("__call__")
    if not isinstance(function, FunctionType):
        return []
    prefix = "await " if inspect.iscoroutinefunction(function) else ""
    return [_fenced(_signature(name, function, prefix=prefix))]


def _values(owner: type[enum.Enum], prose: Prose) -> str:
    docs = _attribute_docs(_body(owner))
    rows = [(f"`{m.value}`", prose.inline(_line(docs.get(m.name, "")))) for m in owner]
    if any(said for _, said in rows):
        return _table(("value", ""), rows)
    return _filled(", ".join(value for value, _ in rows) + ".")


def _is_private(owner: type) -> bool:
    """Whether nobody makes one by its constructor: its docstring says where it comes from."""
    return bool(re.search(r"(Make one with|Get (it|one) (from|with))", owner.__doc__ or ""))


def _raised(owner: type[Exception]) -> str:
    base = f"Base: `{owner.__bases__[0].__name__}`."
    if not issubclass(owner, RoutingError):
        return base
    return f"{base} Code [`{owner.code}`](errors.md#{owner.code}), exit code {owner.exit_code}."


def _data(owner: type) -> Iterator[tuple[str, str, str, str]]:
    """The fields of a record, or the annotated attributes of a class: name, type, default, what is said of it."""
    docs: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for base in reversed(owner.__mro__):
        if base.__module__.startswith("kandev_routing_"):
            body = _body(base)
            docs |= _attribute_docs(body)
            kinds |= {
                n.target.id: ast.unparse(n.annotation)
                for n in body
                if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
            }
    defaults: dict[str, object] = {}
    if is_dataclass(owner):
        made = {f.name: f.default_factory() for f in fields(owner) if f.default_factory is not MISSING}
        defaults = made | {f.name: f.default for f in fields(owner) if f.default is not MISSING}
    elif hasattr(owner, "model_fields"):
        given = {name: f for name, f in owner.model_fields.items() if not f.is_required()}
        defaults = {name: f.get_default(call_default_factory=True) for name, f in given.items()}
    elif hasattr(owner, "_field_defaults"):
        defaults = owner._field_defaults
    else:
        defaults = {name: vars(owner)[name] for name in kinds if name in vars(owner)}
    for name, kind in kinds.items():
        told = issubclass(owner, Exception) and name in {"code", "exit_code"}
        if name.startswith("_") or name == "model_config" or told:
            continue
        default = f" = `{_escaped(_value(defaults[name]))}`" if name in defaults else ""
        yield name, re.sub(r"^(ClassVar|Final)\[(.*)\]$", r"\2", kind), default, docs.get(name, "")


def _members(owner: type) -> Iterator[tuple[str, object]]:
    for name, member in vars(owner).items():
        if not name.startswith("_") and (isinstance(member, FunctionType | property | classmethod | staticmethod)):
            yield name, member


def _member(owner: str, name: str, member: object, prose: Prose) -> list[str]:
    if isinstance(member, property):
        said = prose.docstring(inspect.getdoc(member) or "")
        kind = _type(inspect.signature(member.fget).return_annotation) if member.fget else ""
        return [_fenced(f"{name}: {kind}"), *said]
    function: Any = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    prefix = "await " if inspect.iscoroutinefunction(function) else ""
    shown = f"{owner}.{name}" if isinstance(member, classmethod | staticmethod) else name
    return [_fenced(_signature(shown, function, prefix=prefix)), *prose.docstring(inspect.getdoc(function) or "")]


def _body(owner: type) -> list[ast.stmt]:
    tree = _tree(owner.__module__)
    return next((n.body for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == owner.__name__), [])


def _attribute_docs(body: list[ast.stmt]) -> dict[str, str]:
    """What stands as a string right below an assignment, by name."""
    found = {}
    for node, after in pairwise(body):
        target = node.target if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [None])[0]
        said = after.value if isinstance(after, ast.Expr) else None
        if isinstance(target, ast.Name) and isinstance(said, ast.Constant) and isinstance(said.value, str):
            found[target.id] = inspect.cleandoc(said.value)
    return found


def _line(text: str) -> str:
    return _escaped(" ".join(text.split()))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _fenced(text: str) -> str:
    return f"```text\n{text}\n```"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in [heads, *rows]]
    return "\n".join([lines[0], f"|{'---|' * len(heads)}", *lines[1:]])


# The page ---------------------------------------------------------------------------------------------------------------


def content() -> str:
    """Return the page as it should be."""
    page = PAGE.read_text("utf-8")
    every = [entry for door in DOORS for entry in entries(door)]
    anchors = dict(_anchors(every)) | _error_anchors()
    prose = Prose(anchors)
    kept = _by_hand(page)
    for door in DOORS:
        written = []
        for entry in entries(door):
            parts = [f"### `{entry.name}`", *_entry(entry, prose)]
            if (door, entry.name) in kept:
                parts += [BY_HAND, kept[door, entry.name]]
            written.append("\n\n".join(part for part in parts if part))
        begin, end = f"<!-- {door} -->", f"<!-- end of {door} -->"
        head, _, rest = page.partition(begin)
        page = f"{head}{begin}\n\n" + "\n\n".join(written) + f"\n\n{end}{rest.partition(end)[2]}"
    return page


def _anchors(every: Iterable[Entry]) -> Iterator[tuple[str, str]]:
    for entry in every:
        yield entry.name, f"#{entry.name.lower()}"
        if inspect.isclass(entry.value):
            for name, _ in _members(entry.value):
                yield f"{entry.name}.{name}", f"#{entry.name.lower()}{name.lower()}"


def _error_anchors() -> dict[str, str]:
    found: dict[str, str] = {}
    waiting: list[type[RoutingError]] = [RoutingError]
    while waiting:
        error = waiting.pop()
        if error.__module__.startswith("kandev_routing_sdk"):
            found[error.__name__] = f"errors.md#{error.code}"
        waiting += error.__subclasses__()
    return found


def _by_hand(page: str) -> dict[tuple[str, str], str]:
    """What stands behind the mark in each entry."""
    found = {}
    for door in DOORS:
        inside = page.partition(f"<!-- {door} -->")[2].partition(f"<!-- end of {door} -->")[0]
        for part in re.split(r"^### ", inside, flags=re.MULTILINE)[1:]:
            name = part.partition("\n")[0].strip("`")
            if BY_HAND in part:
                found[door, name] = part.partition(BY_HAND)[2].strip("\n")
    return found


def main() -> None:
    """Write the page."""
    PAGE.write_text(content(), "utf-8")


if __name__ == "__main__":
    main()
