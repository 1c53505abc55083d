"""A moment as people write it: "3pm (Europe/London)", "Oct 9 at 5am", "16:21 on 19 May", ISO, epoch (R-CLS-5)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, tzinfo
from typing import Final, NamedTuple

from kandev_routing_sdk.evidence.linear import Match, Pattern, compile_linear
from kandev_routing_sdk.evidence.timing.model import Trust, Zone
from kandev_routing_sdk.evidence.timing.notation import MONTHS, epoch
from kandev_routing_sdk.evidence.timing.spans import numbered
from kandev_routing_sdk.evidence.timing.values import iso_instant
from kandev_routing_sdk.evidence.timing.wall import WallTime, instant, zone_named

__all__ = ["Moment", "read_moment"]


class Moment(NamedTuple):
    """An instant read from the start of a text: UTC, how many characters it took, and how far to believe it."""

    instant: datetime
    length: int
    zone: Zone
    trust: int
    dated: bool
    """Whether it named a day in words, and not only a time of day."""


_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKDAY: Final = r"(?:mon|tue(?:s)?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\b"
_DATE: Final = (
    rf"(?:(?:(?P<beside>{_WEEKDAY})(?:,\s*|[ \t]+))?(?:"
    rf"(?P<month>{_MONTH})\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?:(?:,\s+|[ \t]+)(?P<year>\d{{4}})\b)?"
    rf"|(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?[\s-]+(?:of\s+)?(?P<month2>{_MONTH})(?:(?:,\s+|[ \t]+|-)(?P<year2>\d{{4}})\b)?"
    rf"|(?P<year3>\d{{4}})[-/](?P<month3>\d{{2}})[-/](?P<day3>\d{{2}})\b"
    rf"|(?P<slash1>\d{{1,2}})/(?P<slash2>\d{{1,2}})/(?P<year4>\d{{4}})\b"
    rf")|(?P<weekday>{_WEEKDAY}),?|(?P<near>today|tomorrow)\b)"
)
_CLOCK: Final = (
    r"(?:(?P<hour>\d{1,2})(?::(?P<minute>\d{2})(?::(?P<second>\d{2}))?)?\s*(?P<half>a\.?m\b\.?|p\.?m\b\.?)"
    r"|(?P<hour24>\d{1,2}):(?P<minute24>\d{2})(?::(?P<second24>\d{2}))?"
    r"|(?P<named>noon|midnight)\b)"
)
_DATE_AT: Final = numbered(_DATE)
_CLOCK_AT: Final = numbered(_CLOCK)
_DATE_FORM: Final = compile_linear(rf"(?i)^(?:the\s+)?{_DATE}")
_CLOCK_FORM: Final = compile_linear(rf"(?i)^{_CLOCK}")
# The next line may go on with "at 5am" or "on 19 May"; a bare time there is a log's own.
_TO_CLOCK: Final = compile_linear(r"(?i)^,?(?:\s*(?:at|by|around)\b\s*|\s*@\s*|[ \t]*)")
_TO_DATE: Final = compile_linear(r"(?i)^,?(?:\s*[(\[]?on\s+|[ \t]*[(\[]?)")
_SHIFT: Final = r"[+-]\d{1,2}(?::?\d\d)?"
_ZONE: Final = compile_linear(
    rf"^\s*(?:[(\[]\s*([A-Za-z_]+/[A-Za-z0-9_+/-]{{1,63}}|(?i:UTC|GMT)(?: ?{_SHIFT})?|Z|[+-]\d\d(?::?\d\d)?)\s*[)\]]"
    rf"|([A-Z][A-Za-z]+(?:/[A-Za-z0-9_+-]*[A-Za-z0-9]){{1,2}}|(?i:UTC|GMT)(?: ?{_SHIFT})?\b))"
    r"|^[ \t]*(Z\b|[+-]\d\d:?\d\d\b)|^([+-]\d\d\b)"
)
_LOCAL: Final = compile_linear(
    r"(?i)^\s*[(\[]?\s*(?:in\s+)?(?:(?:your\s+)?local(?:\s+time(?:\s?zone)?)?|your\s+time\s?zone)\b(?:[ \t]*[)\]])?"
)
# What follows a time and is no zone that everybody reads alike: an abbreviation (CST, IST, MSK), "Pacific time", one
# word in brackets, an odd offset, the other end of a range. To read the time as local would be a guess.
_VAGUE: Final = compile_linear(
    r"^(?:\s*\(\s*[A-Za-z]|[ \t]*[(\[]\s*[^\s)\]])(?:[^\s)\]]{0,63}|[A-Za-z ]{1,48}\b(?i:time))\s*[)\]]"
    r"|^\s*(?:in\s+|[(\[]\s*)?(?i:(?:[ceapm][sd]t|ak[sd]t|h[sk]t|c?est|[cew]e[st]t|bst|[ijk]st|msk|sgt|ae[sd]t|nz[sd]t"
    r"|pacific|eastern|central|mountain|atlantic)\b|(?:[a-z]+ ){1,4}time\b)"
    r"|^[ \t]*[(\[]?[A-Z]{2,5}\b|^[ \t]+in\s+(?:the\s+)?[A-Z]|^[ \t]*\+\d|^-\d|^[ \t]*[ap]\b"
    r"|^[ \t]*(?:\x{2013}|-|to\b)[ \t]*\d|^[:.]\d|^[A-Za-z\d_%/]"
)
_DAY_IN_BRACKETS: Final = compile_linear(r"(?i)^\s*[(\[](?:today|tomorrow)[)\]]")
_ISO: Final = compile_linear(
    r"(?i)^\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,18})?)?"
    r"(?:[+-]\d\d(?::?\d\d)?\b|[ \t]*(?:Z\b|UTC\b|GMT\b|[+-]\d\d:?\d\d\b))?"
)
_HALF_OF_DAY: Final = compile_linear(r"(?i)^\s*[ap]\.?m\b")
_EPOCH: Final = compile_linear(r"^[0-9]{10}(?:[0-9]{3})?(?:\.\d{1,9})?\b")
# Digits that go on are an id, a port or an address, not an instant.
_GOES_ON: Final = compile_linear(r"^[-_:/@+%]|^\.\w|^\s+(?i:bytes|tokens|chars|characters|requests|items|files)\b")
_NOON: Final = 12


def read_moment(text: str, *, observed_at: datetime | None, local_zone: str | None) -> Moment | None:
    """The moment that ``text`` starts with; ``None`` where there is none, or its zone is not known."""
    if found := _EPOCH.match(text):
        moment = None if _GOES_ON.match(text[found.end() :]) else epoch(found.group() or "")
        return Moment(moment, found.end(), "utc", Trust.LIMIT_TEXT, dated=False) if moment else None
    if (found := _ISO.match(text)) and not _HALF_OF_DAY.match(text[found.end() :]):
        return _iso_moment(text, found, observed_at, local_zone)
    parts = _read(text)
    if parts is None:
        return None
    wall, zone_name, length = parts
    zone, kind = _zone(zone_name, local_zone)
    trust = Trust.LIMIT_TEXT if kind == "text" else Trust.LOCAL_TEXT
    if wall.clock is None:
        trust = Trust.DATE_TEXT
        if zone is None and zone_name == "" and wall.month is not None:
            # A calendar day without zone is right to a day whatever the zone, and believed least of all.
            zone, kind = UTC, "none"
    when = instant(wall, zone, observed_at) if zone is not None else None
    dated = (wall.month, wall.weekday, wall.in_days) != (None, None, None)
    return Moment(when, length, kind, trust, dated) if when is not None else None


def _iso_moment(text: str, found: Match, observed_at: datetime | None, local_zone: str | None) -> Moment | None:
    written = found.group() or ""
    moment, kind = iso_instant(written)
    if moment is not None:
        return Moment(moment, found.end(), kind, Trust.LIMIT_TEXT, dated=False)
    moment, _ = iso_instant(written + "Z")
    name, length = _zone_name(text, found.end())
    zone, kind = _zone(name, local_zone)
    if zone is None or moment is None:
        return None
    wall = WallTime(moment.time(), moment.month, moment.day, moment.year)
    when = instant(wall, zone, observed_at)
    trust = Trust.LIMIT_TEXT if kind == "text" else Trust.LOCAL_TEXT
    return Moment(when, length, kind, trust, dated=False) if when else None


def _read(text: str) -> tuple[WallTime, str, int] | None:
    """A date, a clock time, or both in either order, then a zone; with how much of ``text`` they took."""
    if found := _DATE_FORM.match(text):
        wall, end = _date(found), found.end()
        after = end + _length(_TO_CLOCK, text[end:])
        if wall is not None and (hands := _CLOCK_FORM.match(text[after:])):
            clock = _clock(hands)
            if clock is None:
                return None
            wall, end = replace(wall, clock=clock), after + hands.end()
        return (wall, *_zone_name(text, end)) if wall is not None else None
    found = _CLOCK_FORM.match(text)
    clock = _clock(found) if found else None
    if found is None or clock is None:
        return None
    name, end = _zone_name(text, found.end())
    after = end + _length(_TO_DATE, text[end:])
    if name != "?" and (day := _DATE_FORM.match(text[after:])):
        wall = _date(day)
        if wall is None:
            return None
        end = after + day.end()
        if not name:
            name, end = _zone_name(text, end)
        return replace(wall, clock=clock), name, end
    return WallTime(clock), name, end


def _length(pattern: Pattern, text: str) -> int:
    found = pattern.match(text)
    return found.end() if found else 0


def _zone_name(text: str, start: int) -> tuple[str, int]:
    """The zone written at ``start`` ("" for none or local, "?" for one that is no single zone), and where it ends."""
    rest = text[start:]
    if found := _LOCAL.match(rest):
        return "", start + found.end()
    found = _ZONE.match(rest)
    if found is not None:
        name = next((name for number in range(1, 5) if (name := found.group(number))), "").replace(" ", "")
        if zone_named(name) is not None or "/" in name:
            return name, start + found.end()
    if _DAY_IN_BRACKETS.match(rest):
        return "", start
    return ("?" if _VAGUE.match(rest) else ""), start


def _zone(name: str, local_zone: str | None) -> tuple[tzinfo | None, Zone]:
    if name:
        return zone_named(name), "text"
    return (zone_named(local_zone) if local_zone else None), "adapter"


def _clock(found: Match) -> time | None:
    named = (found.group(_CLOCK_AT["named"]) or "").lower()
    if named:
        return time(_NOON if named == "noon" else 0)
    half = (found.group(_CLOCK_AT["half"]) or "").lower()
    names = ("hour", "minute", "second") if half else ("hour24", "minute24", "second24")
    hour, minute, second = (int(found.group(_CLOCK_AT[name]) or 0) for name in names)
    if half:
        if not 1 <= hour <= _NOON:
            return None
        hour = hour % _NOON + (_NOON if half.startswith("p") else 0)
    try:
        return time(hour, minute, second)
    except ValueError:
        return None


def _date(found: Match) -> WallTime | None:
    """The date of a match; ``None`` for 11/12/2025, which is two days depending on who wrote it."""
    if near := found.group(_DATE_AT["near"]):
        return WallTime(in_days=0 if near.lower() == "today" else 1)
    if name := found.group(_DATE_AT["weekday"]):
        return WallTime(weekday=_WEEKDAYS.index(name[:3].lower()))
    if found.group(_DATE_AT["slash1"]):
        first, second = int(found.group(_DATE_AT["slash1"]) or 0), int(found.group(_DATE_AT["slash2"]) or 0)
        if first <= _NOON and second <= _NOON and first != second:
            return None
        month, day = (second, first) if first > _NOON else (first, second)
        return WallTime(month=month, day=day, year=int(found.group(_DATE_AT["year4"]) or 0))
    beside = found.group(_DATE_AT["beside"])
    weekday = _WEEKDAYS.index(beside[:3].lower()) if beside else None
    if found.group(_DATE_AT["year3"]):
        year3, month3, day3 = (int(found.group(_DATE_AT[name]) or 0) for name in ("year3", "month3", "day3"))
        return WallTime(month=month3, day=day3, year=year3, weekday=weekday)
    name = found.group(_DATE_AT["month"]) or found.group(_DATE_AT["month2"]) or ""
    year = found.group(_DATE_AT["year"]) or found.group(_DATE_AT["year2"])
    return WallTime(
        month=MONTHS[name[:3].lower()],
        day=int(found.group(_DATE_AT["day"]) or found.group(_DATE_AT["day2"]) or 0),
        year=int(year) if year else None,
        weekday=weekday,
    )
