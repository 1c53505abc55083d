"""Starts processes together and brings home what each one returned or raised."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

LIMIT_S = 120.0

# Forked from one server that has imported everything: eight interpreters would spend most of a race on their imports.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.store._racers", "alembic.command", "psycopg", "tenacity"])


def _runner(number: int, barrier: Any, answer: Any, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    barrier.wait(LIMIT_S)
    try:
        answer.send(work(number, *arguments))
    except Exception as error:  # noqa: BLE001  # it is the result
        answer.send(error)


def race(work: Callable[..., Any], *arguments: Any, count: int = 8) -> list[Any]:
    """Call ``work(number, *arguments)`` in ``count`` processes at once; return results and exceptions in their order.

    ``work`` lives in a module that can be imported.
    """
    barrier = CONTEXT.Barrier(count)
    running = []
    for number in range(count):
        mine, theirs = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=_runner, args=(number, barrier, theirs, work, arguments))
        process.start()
        theirs.close()
        running.append((process, mine))
    try:
        return [
            answer.recv() if answer.poll(LIMIT_S) else TimeoutError(number)
            for number, (_, answer) in enumerate(running)
        ]
    finally:
        for process, answer in running:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
            answer.close()
