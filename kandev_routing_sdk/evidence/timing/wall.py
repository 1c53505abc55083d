"""Wall times in a zone: the next future occurrence, across midnight, year ends and clock changes (R-CLS-5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kandev_routing_sdk.evidence.timing.notation import offset

__all__ = ["WallTime", "instant", "zone_named"]

_LONGEST_NAME: Final = 64


@dataclass(frozen=True, slots=True)
class WallTime:
    """What a text said of a wall time; parts that it did not say are ``None``. ``in_days`` is 0 today, 1 tomorrow."""

    clock: time | None = None
    month: int | None = None
    day: int | None = None
    year: int | None = None
    weekday: int | None = None
    in_days: int | None = None


def zone_named(name: str) -> tzinfo | None:
    """The zone of an IANA name with an area, of UTC or GMT, or of an offset; ``None`` for anything ambiguous.

    Abbreviations such as ``CST`` or ``IST`` mean several zones each, so none but UTC and GMT are taken.
    """
    shift = offset(name.upper())
    if shift is not None:
        return timezone(shift) if shift else UTC
    if "/" not in name or len(name) > _LONGEST_NAME:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def instant(wall: WallTime, zone: tzinfo, observed_at: datetime | None) -> datetime | None:
    """The UTC instant of ``wall``: as dated, else its first occurrence after ``observed_at``; ``None`` without one.

    A time that a clock change skips is shifted forward, one that happens twice is the later of the two: being asked
    too early is what a limit forbids.
    """
    clock = wall.clock or time(0)
    if wall.year is not None and wall.month is not None and wall.day is not None:
        return _utc(_date(wall.year, wall.month, wall.day), clock, zone)
    if observed_at is None:
        return None
    try:
        today = observed_at.astimezone(zone).date()
        days = list(_candidates(wall, today))
    except OverflowError:
        return None
    for day in days:
        found = _utc(day, clock, zone)
        if found is not None and found > observed_at:
            return found
    return None


def _candidates(wall: WallTime, today: date) -> list[date | None]:
    if wall.month is not None and wall.day is not None:
        return [_date(today.year + years, wall.month, wall.day) for years in (-1, 0, 1)]
    if wall.weekday is not None:
        first = (wall.weekday - today.weekday()) % 7
        return [today + timedelta(days=first), today + timedelta(days=first + 7)]
    if wall.in_days is not None:
        return [today + timedelta(days=wall.in_days)]
    return [today + timedelta(days=days) for days in (-1, 0, 1, 2)]


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _utc(day: date | None, clock: time, zone: tzinfo) -> datetime | None:
    if day is None:
        return None
    try:
        first, second = (datetime.combine(day, clock, zone).replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    except (OverflowError, ValueError):
        return None
    return max(first, second)
