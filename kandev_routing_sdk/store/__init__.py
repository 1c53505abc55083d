"""Durable state on SQLite and PostgreSQL (R-DUR)."""

from __future__ import annotations

from kandev_routing_sdk.store.sql import SqlStore, open_store

__all__ = ["SqlStore", "open_store"]
