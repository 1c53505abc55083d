"""A process of the nursery's that makes one call, and may be killed (SIGKILL) just before or after its Nth durable write."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from kandev_routing_sdk import CallFailed, Router, Settings
from kandev_routing_sdk.profiles import parse_profiles
from kandev_routing_sdk.store import open_store
from kandev_routing_sdk.testing import ScriptedAdapter
from tests.routes._stores import StoreAtWrites


class CrashingStore(StoreAtWrites):
    """Kills its process at the fatal write."""

    def __init__(self, store: Any, fatal: int, moment: str) -> None:
        super().__init__(store)
        self._fatal = fatal, moment

    def before(self, number: int) -> None:
        if self._fatal == (number, "before"):
            os.kill(os.getpid(), signal.SIGKILL)

    def after(self, number: int) -> None:
        if self._fatal == (number, "after"):
            os.kill(os.getpid(), signal.SIGKILL)


def run_call(job: dict[str, Any]) -> None:
    """Make the call of a job's ``world`` in this process and write down its ``result``; ``fatal``: which write, and when."""
    world = json.loads(Path(job["world"]).read_text("utf-8"))
    profiles, _ = parse_profiles(world["profiles"], families=None)
    settings = Settings(world["url"], dynamic_agent_routing=True, profiles=profiles)
    store: Any = CrashingStore(open_store(world["url"]), *job.get("fatal", (0, "")))
    with Router.open(settings=settings, adapters=[ScriptedAdapter()], plugins=False, store=store) as router:
        try:
            result = router.route_once("frontier", "do it", timeout=60, cwd=world["folder"])
        except CallFailed as failed:
            result = failed.result
    done = {"outcome": result.outcome, "by": result.execution_profile_id, "writes": store.writes}
    Path(job["result"]).write_text(json.dumps(done), "utf-8")
