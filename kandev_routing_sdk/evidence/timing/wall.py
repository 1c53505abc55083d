"""Wall times in a zone: the next future occurrence, across midnight, year ends and clock changes (R-CLS-5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kandev_routing_sdk.evidence.linear import compile_linear
from kandev_routing_sdk.evidence.timing.notation import offset

__all__ = ["WallTime", "instant", "zone_named"]

_AREA: Final = compile_linear(
    r"(?:Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Brazil|Canada|Chile|Etc|Europe|Indian|Mexico|Pacific|US)"
    r"(?:/[A-Za-z0-9_+-]{1,32}){1,2}"
)
"""The areas of the zone database: what else has a slash is a folder of some machine."""


@dataclass(frozen=True, slots=True)
class WallTime:
    """What a text said of a wall time; parts that it did not say are ``None``. ``in_days`` is 0 today, 1 tomorrow.

    A weekday beside a date must be that of the date.
    """

    clock: time | None = None
    month: int | None = None
    day: int | None = None
    year: int | None = None
    weekday: int | None = None
    in_days: int | None = None


def zone_named(name: str) -> tzinfo | None:
    """The zone of an IANA name with an area, of UTC or GMT, or of an offset; ``None`` for anything ambiguous.

    Abbreviations such as ``CST`` or ``IST`` mean several zones each, so none but UTC and GMT are taken. Nor is a name
    that only some machines know (``localtime``), or that counts leap seconds (``right/…``).
    """
    shift = offset(name.upper())
    if shift is not None:
        return timezone(shift) if shift else UTC
    if not _AREA.fullmatch(name):
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def instant(wall: WallTime, zone: tzinfo, observed_at: datetime | None) -> datetime | None:
    """The UTC instant of ``wall``: as dated, else its first occurrence after ``observed_at``; ``None`` without one.

    A time that a clock change skips never comes, and one that it repeats comes twice: neither names an instant, unless
    ``observed_at`` leaves only one of the two.
    """
    if wall.year is not None and wall.month is not None and wall.day is not None:
        days = [_date(wall.year, wall.month, wall.day)]
    elif observed_at is None:
        return None
    else:
        try:
            days = _candidates(wall, observed_at.astimezone(zone).date())
        except OverflowError:
            return None
    for day in days:
        if day is None or (wall.month is not None and wall.weekday not in {None, day.weekday()}):
            continue
        readings = _readings(day, wall.clock or time(0), zone)
        ahead = [at for at in readings if observed_at is None or at > observed_at]
        if ahead:
            return ahead[0] if len(ahead) == 1 and _exists(ahead[0], day, wall.clock or time(0), zone) else None
    return None


def _candidates(wall: WallTime, today: date) -> list[date | None]:
    if wall.month is not None and wall.day is not None:
        return [_date(today.year + years, wall.month, wall.day) for years in (-1, 0, 1)]
    if wall.weekday is not None:
        first = (wall.weekday - today.weekday()) % 7
        if first == 0 and wall.clock is None:
            return []  # today or in a week: nobody can tell
        return [today + timedelta(days=first), today + timedelta(days=first + 7)]
    if wall.in_days is not None:
        return [today + timedelta(days=wall.in_days)]
    return [today + timedelta(days=days) for days in (-1, 0, 1, 2)]


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _readings(day: date, clock: time, zone: tzinfo) -> list[datetime]:
    """The instants that a wall time can mean, in UTC: one, or two at a clock change."""
    try:
        return sorted({datetime.combine(day, clock, zone).replace(fold=fold).astimezone(UTC) for fold in (0, 1)})
    except (OverflowError, ValueError):
        return []


def _exists(at: datetime, day: date, clock: time, zone: tzinfo) -> bool:
    return at.astimezone(zone).replace(tzinfo=None) == datetime.combine(day, clock)
