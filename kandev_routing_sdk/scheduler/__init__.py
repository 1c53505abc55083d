"""What happens without anybody asking: deadlines that pass, owners that died, resources that come back (R-DUR-4)."""

from __future__ import annotations

from kandev_routing_sdk.scheduler.worker import Worker, WorkerOptions, WorkerReport

__all__ = ["Worker", "WorkerOptions", "WorkerReport"]
