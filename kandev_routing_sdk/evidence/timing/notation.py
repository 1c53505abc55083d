"""The notations of one value: Retry-After, HTTP dates, ISO times, zone offsets, epochs (R-CLS-5)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from kandev_routing_sdk.evidence.linear import compile_linear
from kandev_routing_sdk.evidence.timing.spans import span

__all__ = ["MONTHS", "epoch", "http_date", "iso", "offset", "retry_after_seconds"]

_DIGITS: Final = compile_linear(r"[0-9]{1,9}")
_EPOCH: Final = compile_linear(r"([0-9]{10}|[0-9]{13})(?:\.[0-9]{1,9})?")
_ISO: Final = compile_linear(
    r"(?i)(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,18}))?)?\s*(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?"
)
_OFFSET: Final = compile_linear(r"(?i)(?:Z|(?:UTC|GMT)?(?:([+-])(\d{1,2})(?::?(\d\d))?)?)")
_FIXDATE: Final = compile_linear(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT"
)
_RFC850: Final = compile_linear(
    r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (\d\d)-([A-Z][a-z]{2})-(\d\d) (\d\d):(\d\d):(\d\d) GMT"
)
_ASCTIME: Final = compile_linear(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d) (\d{4})"
)
MONTHS: Final[Mapping[str, int]] = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}
_EPOCH_RANGE: Final = (946_684_800, 4_102_444_800)  # the years 2000 to 2099: other numbers are no instants
_MILLISECONDS_FROM: Final = 100_000_000_000
_LEAP_SECOND: Final = 60


def retry_after_seconds(value: str) -> timedelta | None:
    """The delta-seconds form of ``Retry-After``: digits only. ``-3``, ``+3``, ``1.5``, ``1e9`` are not."""
    text = value.strip(" \t")
    return span(int(text)) if _DIGITS.fullmatch(text) else None


def epoch(value: float | str) -> datetime | None:
    """An instant from epoch seconds or milliseconds, as number or digits; ``None`` outside the years 2000 to 2099."""
    if isinstance(value, str):
        if _EPOCH.fullmatch(value.strip()) is None:
            return None
        value = float(value)
    if isinstance(value, bool) or value != value:  # noqa: PLR0124 - NaN
        return None
    seconds = value / 1000 if value >= _MILLISECONDS_FROM else value
    if not _EPOCH_RANGE[0] <= seconds <= _EPOCH_RANGE[1]:
        return None
    return datetime.fromtimestamp(round(seconds, 6), UTC)


def offset(text: str) -> timedelta | None:
    """A zone written as ``Z``, ``UTC``, ``GMT``, ``+02:00``, ``UTC+2``; ``None`` for anything else."""
    found = _OFFSET.fullmatch(text) if text else None
    if found is None:
        return None
    sign, hours, minutes = found.group(1), int(found.group(2) or 0), int(found.group(3) or 0)
    if hours > 14 or minutes > 59:  # noqa: PLR2004 - the widest offset in use is +14:00
        return None
    wide = timedelta(hours=hours, minutes=minutes)
    return -wide if sign == "-" else wide


def iso(text: str) -> tuple[datetime, bool] | None:
    """An ISO date and time, and whether it said its zone; without one the answer is the wall time, marked UTC."""
    found = _ISO.fullmatch(text.strip())
    if found is None:
        return None
    zone = found.group(8)
    shift = offset(zone.upper()) if zone else timedelta(0)
    year, month, day, hour, minute, second = (int(found.group(n) or 0) for n in range(1, 7))
    micro = int(((found.group(7) or "") + "000000")[:6])
    if shift is None:
        return None
    try:
        return datetime(year, month, day, hour, minute, second, micro, UTC) - shift, zone is not None
    except (ValueError, OverflowError):
        return None


def http_date(value: str, *, observed_at: datetime | None) -> datetime | None:
    """An HTTP date: IMF-fixdate, or the obsolete RFC 850 and asctime forms. Nothing else, and always GMT."""
    text = value.strip(" \t")
    if found := _FIXDATE.fullmatch(text):
        day, month, year, *clock = (found.group(n) or "" for n in range(1, 7))
    elif found := _RFC850.fullmatch(text):
        day, month, year, *clock = (found.group(n) or "" for n in range(1, 7))
        year = str(_full_year(int(year), observed_at))
    elif found := _ASCTIME.fullmatch(text):
        month, day, *clock, year = (found.group(n) or "" for n in range(1, 7))
    else:
        return None
    hour, minute, second = (int(part) for part in clock)
    leap = second == _LEAP_SECOND  # in the grammar, and the start of the next minute
    try:
        at = datetime(int(year), MONTHS.get(month.lower(), 0), int(day), hour, minute, second - leap, tzinfo=UTC)
        return at + timedelta(seconds=leap)
    except (ValueError, OverflowError):
        return None


def _full_year(two_digits: int, observed_at: datetime | None) -> int:
    """RFC 9110: a two-digit year more than 50 years ahead is the most recent past year with these digits."""
    now = observed_at.year if observed_at is not None else 2000
    year = now - now % 100 + two_digits
    return year - 100 if observed_at is not None and year > now + 50 else year
