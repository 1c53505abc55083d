"""The entry point: runs the app and turns whatever ends it into one clear line and a documented exit code (R-CLI-3, R-CLI-5)."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TextIO

from kandev_routing_sdk.cli.output import Interrupted, OutputFailed, ReaderGone, error_document, error_line, print_json
from kandev_routing_sdk.errors import RoutingError

EXIT_USAGE: Final = 2
EXIT_INTERNAL: Final = 70
EXIT_READER_GONE: Final = 141
_VALUED: Final = frozenset({"--config", "--store"})
_ASSIGNED: Final = tuple(f"{name}=" for name in sorted(_VALUED))
_PROMPTED: Final = (" run", " start", " prompt")
_PLAIN: Final = frozenset({"--debug"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Never raises, and shows no traceback without ``--debug``."""
    arguments = hoisted(sys.argv[1:] if argv is None else argv)
    options = _options(arguments)
    try:
        with _interruptible(), _logs_on_stderr(debug="--debug" in options):
            return _run(arguments)
    except ReaderGone:
        _forget(sys.stdout)
        return EXIT_READER_GONE
    except (Exception, Interrupted) as problem:  # noqa: BLE001  # the edge: everything becomes one line and a code
        if "--debug" in options:
            traceback.print_exc()
        return _report(problem, as_json="--json" in options)
    finally:
        _flush_or_forget(sys.stderr)


def _forget(stream: TextIO | None) -> None:
    """Nothing may be flushed to a stream that takes nothing when Python ends."""
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _flush_or_forget(stream: TextIO | None) -> None:
    try:
        if stream is not None:
            stream.flush()
    except OSError:
        _forget(stream)


def _run(arguments: Sequence[str]) -> int:
    from kandev_routing_sdk.cli.app import app

    result: object = app(list(arguments), prog_name="kandev-routing", standalone_mode=False)
    return result if isinstance(result, int) else 0


@contextmanager
def _interruptible() -> Iterator[None]:
    """Signals end a command with its line and its code, too; a call that runs takes them over to end its agents first."""

    def end(number: int, _frame: object) -> None:
        raise Interrupted(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) is not signal.SIG_IGN]
    before = [(number, signal.signal(number, end)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


class _Lines(logging.Formatter):
    """A line for each record; what shows its fields is loaded with the first."""

    def format(self, record: logging.LogRecord) -> str:
        from kandev_routing_sdk.telemetry import FieldFormatter

        return FieldFormatter("%(levelname)s %(name)s: %(message)s").format(record)


@contextmanager
def _logs_on_stderr(*, debug: bool) -> Iterator[None]:
    """Logs go to standard error. Other packages' logs go nowhere: they may quote what an agent said."""
    root, ours = logging.getLogger(), logging.getLogger("kandev_routing_sdk")
    before = ours.level, ours.propagate
    nowhere, handler = logging.NullHandler(), logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    root.addHandler(nowhere)
    ours.addHandler(handler)
    ours.setLevel(logging.DEBUG if debug else logging.WARNING)
    ours.propagate = False
    try:
        yield
    finally:
        root.removeHandler(nowhere)
        ours.removeHandler(handler)
        ours.level, ours.propagate = before


def _report(problem: BaseException, *, as_json: bool) -> int:
    problems: Sequence[object] = ()
    if isinstance(problem, RoutingError):
        code, text, exit_code = problem.code, str(problem), problem.exit_code
        problems = getattr(problem, "problems", ())
    elif type(problem).__name__ == "NoArgsIsHelpError":
        problem.show()  # type: ignore[attr-defined]  # the whole help, on standard error
        return EXIT_USAGE
    elif hasattr(problem, "format_message"):  # a usage error, of whichever click typer brings
        code, text, exit_code = "usage", _usage(problem), EXIT_USAGE
    elif isinstance(problem, Interrupted):
        code, text, exit_code = "cancelled", "interrupted", problem.exit_code
    elif isinstance(problem, EOFError) or type(problem).__name__ == "Abort":
        code, text, exit_code = "cancelled", "interrupted", 130
    else:
        code, text, exit_code = "internal", _internal(problem), EXIT_INTERNAL
    if isinstance(problem, OutputFailed):
        _forget(sys.stdout)
        as_json = False
    try:
        if as_json:
            print_json(error_document(code, text, exit_code, problems))
        else:
            error_line(text)
    except ReaderGone:
        return EXIT_READER_GONE
    except OutputFailed:
        _forget(sys.stdout)
        error_line(text)
    return exit_code


def _usage(problem: BaseException) -> str:
    message: str = problem.format_message()  # type: ignore[attr-defined]
    context = getattr(problem, "ctx", None)
    command = getattr(context, "command_path", "kandev-routing")
    if "unexpected extra argument" in message and command.endswith(_PROMPTED):
        return "the prompt must be one argument; put it in quotes, or give it on standard input"
    return f"{' '.join(message.split()).rstrip('.')}; see {command} --help"


def _internal(problem: BaseException) -> str:
    """Where it happened, not what it said: the message of an exception that nobody foresaw may hold a secret."""
    frames = traceback.extract_tb(problem.__traceback__)
    ours = [f for f in frames if "kandev_routing" in f.filename] or frames
    where = f" in {os.path.basename(ours[-1].filename)}:{ours[-1].lineno}" if ours else ""  # noqa: PTH119  # text only
    return (
        f"internal error ({type(problem).__name__}{where}); "
        "this is a fault of kandev-routing: run it again with --debug and report it"
    )


def _options(arguments: Sequence[str]) -> Sequence[str]:
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def hoisted(arguments: Sequence[str]) -> list[str]:
    """Move the global options to the front, so that they may stand after the command as well."""
    front: list[str] = []
    rest: list[str] = []
    before_dashes = list(_options(arguments))
    after = list(arguments)[len(before_dashes) :]
    while before_dashes:
        argument = before_dashes.pop(0)
        if argument in _PLAIN or argument.startswith(_ASSIGNED):
            front.append(argument)
        elif argument in _VALUED and before_dashes:
            front += [argument, before_dashes.pop(0)]
        else:
            rest.append(argument)
    return [*front, *rest, *after]
