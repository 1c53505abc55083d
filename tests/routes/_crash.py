"""Runs one call in this process, and may kill it (SIGKILL) just before or just after its Nth durable write (0: never).

python -m tests.routes._crash WORLD.json N before|after
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from kandev_routing_sdk import CallFailed, Router, Settings
from kandev_routing_sdk.profiles import parse_profiles
from kandev_routing_sdk.store import open_store
from kandev_routing_sdk.testing import ScriptedAdapter

WRITES = ("commit", "mark_attempt", "save_call")


class CrashingStore:
    """Passes everything on to a real store, until the fatal write."""

    def __init__(self, store: Any, fatal: int, moment: str) -> None:
        self._store, self._fatal, self._moment = store, fatal, moment
        self.writes = 0

    def __getattr__(self, name: str) -> Any:  # a stand-in for every method
        method = getattr(self._store, name)
        if name not in WRITES:
            return method

        def write(*args: Any, **kwargs: Any) -> Any:  # as above
            self.writes += 1
            fatal = self.writes == self._fatal
            if fatal and self._moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            answer = method(*args, **kwargs)
            if fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return write


def main() -> None:
    """See the module."""
    world = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    profiles, _ = parse_profiles(world["profiles"], families=None)
    settings = Settings(world["url"], dynamic_agent_routing=True, profiles=profiles)
    store: Any = CrashingStore(open_store(world["url"]), int(sys.argv[2]), sys.argv[3])
    with Router.open(settings, adapters=[ScriptedAdapter()], plugins=False, store=store) as router:
        try:
            result = router.route_once("frontier", "do it", timeout=60, cwd=world["folder"])
        except CallFailed as failed:
            result = failed.result
    done = {"outcome": result.outcome, "by": result.execution_profile_id, "writes": getattr(store, "writes", 0)}
    print(json.dumps(done))


if __name__ == "__main__":
    main()
