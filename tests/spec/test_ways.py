"""Which of its ways an agent is driven by (R-PLG-3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kandev_routing_sdk.errors import ExecutableNotFound, LaunchError
from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.spec import LaunchRequest, LaunchWay, Transport, asked_transport, choose_way, discovered

BEST = LaunchWay(Transport.HEADLESS, ("bolt", "run"), "install bolt")
OTHER = LaunchWay(Transport.ACP, ("bolt-acp",), "install bolt-acp")
OWN = LaunchWay(Transport.ACP, ("bolt", "acp"), "install bolt")


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def program(folder: Path, name: str) -> str:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def request(
    folder: Path, *, transport: Transport | None = None, command: tuple[str, ...] | None = None
) -> LaunchRequest:
    profile = ConcreteProfile(id="p", name="P", family="bolt", transport=transport, command=command)
    return LaunchRequest(profile=profile, environ={"PATH": str(folder)}, cwd=folder, executor_namespace="here")


def test_the_best_way_that_is_installed_is_taken(bin_folder: Path) -> None:
    second = program(bin_folder, "bolt-acp")
    chosen = choose_way(request(bin_folder), (BEST, OTHER))
    assert (Transport.ACP, (second,)) == (chosen.transport, chosen.argv)
    first = program(bin_folder, "bolt")
    chosen = choose_way(request(bin_folder), (BEST, OTHER))
    assert (Transport.HEADLESS, (first, "run")) == (chosen.transport, chosen.argv)


def test_without_any_the_best_one_is_what_is_missed(bin_folder: Path) -> None:
    with pytest.raises(ExecutableNotFound, match=r"'bolt' on this machine; install bolt$"):
        choose_way(request(bin_folder), (BEST, OTHER))


def test_the_profiles_transport_decides(bin_folder: Path) -> None:
    program(bin_folder, "bolt")
    with pytest.raises(ExecutableNotFound, match="install bolt-acp"):
        choose_way(request(bin_folder, transport=Transport.ACP), (BEST, OTHER))
    with pytest.raises(ExecutableNotFound, match="'p' wants acp, which this agent does not speak; use headless"):
        choose_way(request(bin_folder, transport=Transport.ACP), (BEST,))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("bolt",), Transport.HEADLESS),
        (("wrapper",), Transport.HEADLESS),
        (("wrapper", "bolt-acp"), Transport.ACP),
        (("wrapper", "@vendor/bolt-acp@2.1.0"), Transport.ACP),
        (("wrapper", "/opt/lib/bolt-acp.js"), Transport.ACP),
        (("bolt", "acp"), Transport.ACP),
        (("bolt", "run"), Transport.HEADLESS),
        (("wrapper", "--", "bolt", "acp"), Transport.ACP),
    ],
)
def test_a_command_that_names_a_way_is_driven_that_way(
    bin_folder: Path, command: tuple[str, ...], expected: Transport
) -> None:
    for name in ("bolt", "wrapper"):
        program(bin_folder, name)
    ways = (BEST, OWN) if "acp" in command or command[0] == "bolt" else (BEST, OTHER)
    assert expected == choose_way(request(bin_folder, command=command), ways).transport


@pytest.mark.parametrize(
    ("transport", "command", "ways"),
    [
        (Transport.ACP, ("bolt",), (BEST, OTHER)),
        (Transport.HEADLESS, ("bolt-acp",), (BEST, OTHER)),
        (Transport.HEADLESS, ("bolt", "acp"), (BEST, OWN)),
    ],
)
def test_a_transport_that_the_command_contradicts_is_refused(
    bin_folder: Path, transport: Transport, command: tuple[str, ...], ways: tuple[LaunchWay, ...]
) -> None:
    for name in ("bolt", "bolt-acp"):
        program(bin_folder, name)
    with pytest.raises(LaunchError, match=r"'p' has transport = .* but its command names what speaks .*; correct one"):
        choose_way(request(bin_folder, transport=transport, command=command), ways)


def test_a_wrapper_is_taken_to_wrap_the_agent_itself(bin_folder: Path) -> None:
    wrapper = program(bin_folder, "wrapper")
    chosen = choose_way(request(bin_folder, command=("wrapper",)), (OTHER, BEST))
    assert (Transport.HEADLESS, (wrapper, "run")) == (chosen.transport, chosen.argv)


@pytest.mark.parametrize(
    ("transport", "command", "expected"),
    [
        (None, None, None),
        (Transport.ACP, None, Transport.ACP),
        (Transport.ACP, ("bolt", "run"), Transport.ACP),
        (None, ("npx", "bolt-acp"), Transport.ACP),
        (None, ("wrapper",), Transport.HEADLESS),
    ],
)
def test_what_a_profile_is_written_for(
    transport: Transport | None, command: tuple[str, ...] | None, expected: Transport | None, tmp_path: Path
) -> None:
    profile = request(tmp_path, transport=transport, command=command).profile
    assert expected is asked_transport(profile, (OTHER, BEST))


def test_what_makes_it_speak_is_added_to_a_command_once(bin_folder: Path) -> None:
    path = program(bin_folder, "bolt")
    for command in (("bolt",), ("bolt", "run")):
        chosen = choose_way(request(bin_folder, transport=Transport.HEADLESS, command=command), (BEST, OTHER))
        assert (path, "run") == chosen.argv
    wrapper = program(bin_folder, "wrapper")
    chosen = choose_way(request(bin_folder, transport=Transport.ACP, command=("wrapper", "x")), (BEST, OTHER))
    assert (wrapper, "x") == chosen.argv


LONG = LaunchWay(Transport.HEADLESS, ("bolt", "run", "--format=json"), "install bolt", aliases=("bolt-ai",))


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        (("bolt", "run"), ("bolt", "run", "--format=json")),
        (("bolt", "--port=0", "run", "--format=json"), ("bolt", "--port=0", "run", "--format=json")),
        (("bolt", "acp", "--port=0"), ("bolt", "acp", "--port=0")),
        (("wrapper", "-y", "bolt-ai", "acp"), ("wrapper", "-y", "bolt-ai", "acp")),
        (("wrapper", "-y", "bolt-ai@latest"), ("wrapper", "-y", "bolt-ai@latest", "run", "--format=json")),
        # these words are the wrapper's
        (("wrapper", "run", "image"), ("wrapper", "run", "image", "run", "--format=json")),
        (("wrapper", "run", "image", "bolt"), ("wrapper", "run", "image", "bolt", "run", "--format=json")),
    ],
)
def test_only_the_words_that_are_missing_are_added(
    bin_folder: Path, command: tuple[str, ...], argv: tuple[str, ...]
) -> None:
    for name in ("bolt", "wrapper"):
        program(bin_folder, name)
    acp = LaunchWay(Transport.ACP, ("bolt", "acp"), "install bolt", aliases=("bolt-ai",))
    chosen = choose_way(request(bin_folder, command=command), (LONG, acp))
    assert argv[1:] == chosen.argv[1:]
    assert ("acp" in command) is (chosen.transport is Transport.ACP)


def test_a_command_that_is_not_there_is_the_profiles_fault(bin_folder: Path) -> None:
    with pytest.raises(ExecutableNotFound, match="correct `command` in the profile, or remove it"):
        choose_way(request(bin_folder, command=("nowhere",)), (BEST,))


def test_what_is_found_is_told_in_the_order_of_preference(bin_folder: Path) -> None:
    path = program(bin_folder, "bolt-acp")
    missing, found = discovered("bolt", (BEST, OTHER), {"PATH": str(bin_folder)})
    assert (None, "install bolt", ()) == (missing.executable, missing.hint, missing.version_argv)
    assert (path, "", (path, "--version"), Transport.ACP) == (
        found.executable,
        found.hint,
        found.version_argv,
        found.transport,
    )
