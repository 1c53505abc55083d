"""What the racing processes do."""

from __future__ import annotations

import os
import time
from datetime import datetime
from typing import Any

from kandev_routing_sdk.binding import new_installation_key
from kandev_routing_sdk.errors import NotAdmitted, StaleRevision
from kandev_routing_sdk.ports import Admit
from kandev_routing_sdk.store import open_store, routes
from tests.store._values import ACCOUNT, MODEL, advance, attempt, create, event, route, selection


def opens(number: int, url: str) -> str:
    """Open an empty database, and use it."""
    with open_store(url, timeout_s=60) as store:
        return store.commit(create(f"s{number}")).route.session_id


def climbs(number: int, url: str, target: int) -> list[int]:
    """Advance one session until it is at ``target``; return the revisions that were won."""
    won: list[int] = []
    with open_store(url, timeout_s=60) as store:
        while True:
            before = store.load("s1")
            assert before is not None
            if before.revision >= target:
                return won
            generation = before.generation + 1
            step = advance(
                before,
                to={"generation": generation},
                selection=selection(generation),
                new_attempt=attempt(f"{number}-{generation}", generation=generation, ordinal=generation),
                events=(event(number=number),),
            )
            try:
                won.append(store.commit(step).route.revision)
            except StaleRevision:
                continue


def probes(number: int, url: str, now: datetime) -> tuple[str, ...] | None:
    """Ask for the expired circuit; return the leased keys, or None when refused."""
    admit = Admit(keys=(MODEL, ACCOUNT), token=f"token-{number}", owner=f"owner-{number}", lease_s=60)
    with open_store(url, timeout_s=60) as store:
        try:
            leased = store.commit(create(f"probe-{number}", admit=admit, now=now)).leased
        except NotAdmitted:
            return None
        return tuple(key.key for key in leased)


def keeps_a_key(number: int, url: str) -> bytes:
    """Ask for the installation key with one of its own."""
    with open_store(url, timeout_s=60) as store:
        return store.installation_key(new_installation_key(bytes([number]) * 32)).material.get_secret_value()


def dies_in_mid_transaction(url: str, told: Any) -> None:
    """Do all of a commit but its end, say so, and wait to be killed."""

    def never_ends(*arguments: Any) -> Any:
        told.send("everything written, nothing committed")
        time.sleep(600)

    store = open_store(url)
    before = store.load("s1")
    assert before is not None
    setattr(routes, "add_events", never_ends)  # noqa: B010  # a function of the module is replaced
    store.commit(advance(before, selection=selection(), new_attempt=attempt(), events=(event(),)))


def leaves_a_log(url: str) -> None:
    """Write, and die without closing: the write-ahead log stays beside the file."""
    store = open_store(url)
    store.commit(create("s1", after=route("s1", parked_prompt="x" * 5000)))
    os._exit(0)
