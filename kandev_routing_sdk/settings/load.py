"""Finds, reads and checks the configuration. Precedence: flag, then environment, then file, then default."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kandev_routing_sdk.errors import (
    ConfigInvalid,
    ConfigNotFound,
    ConfigSyntaxError,
    Problem,
    ProfileNotFound,
    UsageError,
)
from kandev_routing_sdk.evidence.secret_names import without_secrets
from kandev_routing_sdk.policy.reading import one_of, suggestion
from kandev_routing_sdk.profiles import Profile, parse_profiles
from kandev_routing_sdk.settings.table import CONFIG, DYNAMIC, STORE_URL

FILE_NAME: Final = "kandev-routing.toml"
_SECTIONS: Final = frozenset({"version", "features", "store", "profiles"})
_MOST: Final = 2**31 - 1
"""The largest version that a database column takes."""
_TRUE, _FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off", ""})


@dataclass(frozen=True, slots=True)
class Settings:
    """What a router opens with. Also a :class:`~kandev_routing_sdk.ports.ProfileSource`."""

    store_url: str = field(repr=False)  # may hold a password
    """``sqlite:///…`` or ``postgresql+psycopg://…``."""
    dynamic_agent_routing: bool = False
    """The feature flag (R-RES-4)."""
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    """Those of the file, by id. The version of each is a number made of what it says."""
    config_path: Path | None = None
    """The file; None: there is none."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    """Setting name → where its value came from."""

    def get(self, profile_id: str) -> Profile | None:
        """Return a profile, or None."""
        return self.profiles.get(profile_id)

    def all(self) -> Mapping[str, Profile]:
        """Return every profile by id."""
        return self.profiles

    def profile(self, profile_id: str) -> Profile:
        """Return a profile; raises :class:`~kandev_routing_sdk.errors.ProfileNotFound`."""
        found = self.profiles.get(profile_id)
        if found is None:
            raise ProfileNotFound(profile_id, sorted(self.profiles))
        return found


def working_directory() -> Path:
    """Return the current directory; raises :class:`~kandev_routing_sdk.errors.UsageError` when it is gone."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError(
            "the current directory does not exist any more; go to one that does, or name a folder"
        ) from None


def user_directory(environ: Mapping[str, str], variable: str, fallback: str) -> Path:
    """Return ``$variable/kandev-routing``, else ``~/fallback/kandev-routing`` (XDG; a relative value is ignored)."""
    base = environ.get(variable, "")
    if base and Path(base).is_absolute():
        return Path(base) / "kandev-routing"
    return Path(environ.get("HOME") or Path.home()) / fallback / "kandev-routing"


def find_config(*, flag: str | None, environ: Mapping[str, str], cwd: Path) -> tuple[Path | None, str]:
    """Return the configuration file to use and how it was found.

    A file that a flag or the environment names must exist: :class:`~kandev_routing_sdk.errors.ConfigNotFound` otherwise.
    """
    for named, source in (
        (flag, f"flag {CONFIG.flag}"),
        (environ.get(CONFIG.environment), f"environment {CONFIG.environment}"),
    ):
        if named:
            path = Path(named) if Path(named).is_absolute() else cwd / named
            if not path.is_file():
                raise ConfigNotFound(
                    f"{named} (from {source}) is not a file; name an existing configuration or run kandev-routing init"
                )
            return path, source
    for folder in (cwd, *cwd.parents):
        if (folder / FILE_NAME).is_file():
            return folder / FILE_NAME, "found from the working directory upwards"
    user = user_directory(environ, "XDG_CONFIG_HOME", ".config") / FILE_NAME
    if user.is_file():
        return user, "found in the user's configuration directory"
    return None, "not found"


def load_settings(
    *,
    environ: Mapping[str, str],
    cwd: Path,
    config: str | None = None,
    store: str | None = None,
    required: bool = True,
) -> Settings:
    """Load everything.

    Raises :class:`~kandev_routing_sdk.errors.ConfigNotFound` (only when ``required`` or named),
    :class:`~kandev_routing_sdk.errors.ConfigSyntaxError`, :class:`~kandev_routing_sdk.errors.ConfigInvalid`.
    """
    path, how = find_config(flag=config, environ=environ, cwd=cwd)
    if path is None and required:
        raise ConfigNotFound(
            f"no {FILE_NAME} in {cwd} or its parents, nor in the user's configuration directory: "
            "write one with kandev-routing init, or name one with --config or KANDEV_ROUTING_CONFIG"
        )
    document = _read(path) if path else {}
    source = str(path) if path else "no file"
    problems = _unknown(document, _SECTIONS, "") + (_version(document) if path else [])
    provenance = {CONFIG.name: how}
    features = _table(document, "features", {"dynamic_agent_routing"}, problems)
    stores = _table(document, "store", {"url"}, problems)
    profiles, profile_problems = parse_profiles(_table(document, "profiles", None, problems), families=None)
    problems += profile_problems
    dynamic = _dynamic(environ, features, source, provenance, problems)
    url, provenance[STORE_URL.name], url_problems = _store_url(store, environ, stores.get("url"), source)
    problems += url_problems
    if problems:
        raise ConfigInvalid(source, problems)
    return Settings(
        url,
        dynamic,
        MappingProxyType({profile_id: _versioned(profile) for profile_id, profile in profiles.items()}),
        path,
        MappingProxyType(provenance),
    )


def _versioned(profile: Profile) -> Profile:
    """A file counts no versions: two that say the same have the same, and what was edited is another one (R-ENG-4, R-POL-7).

    What is left out does not count, so that a key of a later version of the SDK changes nothing; nor does a literal secret.
    """
    said = profile.model_dump(mode="json", exclude={"version"}, exclude_defaults=True)
    if "env" in said:
        said["env"] = without_secrets(said["env"])
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).digest()
    return profile.model_copy(update={"version": int.from_bytes(digest[:4], "big") % _MOST + 1})


def settings_for(url: str, *, environ: Mapping[str, str]) -> Settings:
    """Return settings of a store's URL alone, without any file; the feature flag is the environment's.

    Raises :class:`~kandev_routing_sdk.errors.ConfigInvalid` when one of them is wrong.
    """
    problems: list[Problem] = []
    provenance: dict[str, str] = {}
    store_url, _, wrong = _store_url(url, {}, None, "no file")
    dynamic = _dynamic(environ, {}, "no file", provenance, problems)
    if problems := [*(Problem("url", problem.message, problem.code) for problem in wrong), *problems]:
        raise ConfigInvalid("the arguments", problems)
    return Settings(store_url, dynamic, provenance=MappingProxyType(provenance | {STORE_URL.name: "argument url"}))


def profile_tables(text: str, source: str) -> Mapping[str, object]:
    """Return the ``profiles`` table of a configuration; what its other sections say is not looked at.

    Args:
        text: TOML.
        source: what the text is called in errors.

    Raises :class:`~kandev_routing_sdk.errors.ConfigSyntaxError` and :class:`~kandev_routing_sdk.errors.ConfigInvalid`.
    """
    document = _parse(text, source)
    problems = _unknown(document, _SECTIONS, "") + _version(document)
    profiles = _table(document, "profiles", None, problems)
    if problems:
        raise ConfigInvalid(source, problems)
    return profiles


def _version(document: Mapping[str, object]) -> list[Problem]:
    if document.get("version") == 1:
        return []
    wrong = f"must be 1, not {document['version']!r}" if "version" in document else "is missing"
    return [Problem("version", f"{wrong}; write version = 1 at the top")]


def _read(path: Path) -> dict[str, object]:
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise ConfigSyntaxError(f"{path} is not UTF-8 text; save it as UTF-8") from None
    except OSError as problem:
        raise ConfigNotFound(f"{path} cannot be read: {problem.strerror}; check its permissions") from None
    return _parse(text, str(path))


def _parse(text: str, source: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        # the commonest slip of all, and the parser's words for it name no way out
        way = "; text stands in quotes" if str(problem).startswith("Invalid value") else ""
        raise ConfigSyntaxError(f"{source} is not valid TOML: {problem}{way}") from None
    except (
        RecursionError,
        ValueError,
    ):  # what the parser does not expect: a thousand brackets, a number of 5,000 digits
        raise ConfigSyntaxError(
            f"{source} cannot be read: something in it is nested too deeply, or a number is too long; take it out"
        ) from None


def _unknown(table: Mapping[str, object], known: Collection[str], prefix: str) -> list[Problem]:
    problems = []
    for key in table:
        if key not in known:
            way = suggestion(key, known) or f"; known here: {one_of(known)}"
            if home := next((s.name for s in (DYNAMIC, STORE_URL) if not prefix and s.name.endswith(f".{key}")), None):
                way = f"; it belongs under [{home.partition('.')[0]}]"
            problems.append(Problem(f"{prefix}{key}", f"unknown key{way}", "unknown_key"))
    return problems


def _table(
    document: Mapping[str, object], name: str, known: Collection[str] | None, problems: list[Problem]
) -> Mapping[str, object]:
    value = document.get(name, {})
    if not isinstance(value, Mapping):
        problems.append(Problem(name, f"must be a table; write [{name}]", "wrong_type"))
        return {}
    if known is not None:
        problems += _unknown(value, known, f"{name}.")
    return value


def _dynamic(
    environ: Mapping[str, str],
    table: Mapping[str, object],
    source: str,
    provenance: dict[str, str],
    problems: list[Problem],
) -> bool:
    in_file = table.get("dynamic_agent_routing")
    if in_file is not None and not isinstance(in_file, bool):
        problems.append(Problem(DYNAMIC.name, f"must be true or false, not {in_file!r}", "wrong_type"))
    written = environ.get(DYNAMIC.environment)
    if written is not None:
        provenance[DYNAMIC.name] = f"environment {DYNAMIC.environment}"
        if written.strip().lower() not in _TRUE | _FALSE:
            problems.append(
                Problem(DYNAMIC.environment, f"must be true or false (or 1 or 0), not {written!r}", "wrong_type")
            )
        return written.strip().lower() in _TRUE
    provenance[DYNAMIC.name] = "default" if in_file is None else f"file {source}"
    return in_file is True


_URL: Final[Callable[[str], object]] = re.compile(r"(sqlite:///|postgresql(\+psycopg)?://).+").fullmatch


def _store_url(
    flag: str | None, environ: Mapping[str, str], in_file: object, source: str
) -> tuple[str, str, list[Problem]]:
    """Return the URL, where it came from, and what is wrong with it."""
    choices: tuple[tuple[object, str, str], ...] = (
        (flag, f"flag {STORE_URL.flag}", str(STORE_URL.flag)),
        (environ.get(STORE_URL.environment), f"environment {STORE_URL.environment}", STORE_URL.environment),
        (in_file, f"file {source}", STORE_URL.name),
    )
    for value, where, path in choices:
        if value is None or value == "":
            continue
        if not isinstance(value, str) or not _URL(value):
            # the value may hold a password, so it is not shown
            return "", where, [Problem(path, "must be sqlite:///FILE or postgresql+psycopg://…", "invalid_url")]
        plain = value.startswith("postgresql://")
        return "postgresql+psycopg" + value.removeprefix("postgresql") if plain else value, where, []
    return f"sqlite:///{user_directory(environ, 'XDG_STATE_HOME', '.local/state') / 'routing.db'}", "default", []
