"""R-CLS-5 for all inputs: what is rendered is read back, in every zone; what is read is a valid hint, on any machine.

The renderers here know nothing of the grammar: they print as the programs do that the notations come from.
"""

from __future__ import annotations

import json
import locale
import time as clock
import zoneinfo
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import re2
from hypothesis import assume, example, given
from hypothesis import strategies as st

from kandev_routing_sdk.catalogue.matcher import Mark
from kandev_routing_sdk.catalogue.patterns import to_re2
from kandev_routing_sdk.evidence.timing import (
    MAX_HORIZON,
    TimingHint,
    best_hint,
    hints_from_data,
    hints_from_headers,
    hints_from_text,
    is_valid,
)

pytestmark = pytest.mark.exhaustive

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
# Those of a machine's own clock and of a single word are no zone of a text: "EST" is several, "localtime" is nobody's.
ZONES = sorted(
    name for name in zoneinfo.available_timezones() if "/" in name and not name.startswith(("posix/", "right/"))
)
SHORT = {"day": "days", "hour": "hrs", "minute": "mins", "second": "secs"}
UNITS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))

instants = st.integers(min_value=1_704_067_200, max_value=1_893_456_000).map(lambda s: datetime.fromtimestamp(s, UTC))
waits = st.integers(min_value=1, max_value=31 * 86400).map(lambda seconds: timedelta(seconds=seconds))
zones = st.sampled_from(ZONES)


def best(hints: list[TimingHint], now: datetime | None) -> timedelta | datetime | None:
    hint = best_hint(hints, observed_at=now)
    return None if hint is None else hint.retry_after or hint.reset_at


def text(written: str, now: datetime | None = None, zone: str | None = None) -> timedelta | datetime | None:
    return best(hints_from_text(written, observed_at=now, local_zone=zone), now)


def header(headers: dict[str, str], now: datetime | None = None) -> timedelta | datetime | None:
    return best(hints_from_headers(headers, observed_at=now), now)


def field(data: Any, now: datetime | None = None) -> timedelta | datetime | None:
    return best(hints_from_data(data, observed_at=now), now)


# --- waits ------------------------------------------------------------------------------------------------------------


def parts(wait: timedelta) -> list[tuple[int, str]]:
    seconds, found = int(wait.total_seconds()), []
    for unit, size in UNITS:
        count, seconds = divmod(seconds, size)
        if count:
            found.append((count, unit))
    return found


def go(wait: timedelta) -> str:
    """As Go prints a duration: no unit above the hour, and zeros below the first."""
    minutes, seconds = divmod(int(wait.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{seconds}s"


def words(wait: timedelta, glue: str = " ", last: str = " ") -> str:
    shown = [f"{count} {unit}{'s' if count > 1 else ''}" for count, unit in parts(wait)]
    return glue.join(shown[:-1]) + (last if len(shown) > 1 else "") + shown[-1]


def countdown(wait: timedelta) -> str:
    minutes, seconds = divmod(int(wait.total_seconds()), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


SPANS: dict[str, Callable[[timedelta], str]] = {
    "go": go,
    "letters": lambda w: "".join(f"{n}{unit[0]}" for n, unit in parts(w)),
    "spaced letters": lambda w: " ".join(f"{n}{unit[0]}" for n, unit in parts(w)),
    "short words": lambda w: " ".join(f"{n} {SHORT[u]}" for n, u in parts(w)),
    "words": words,
    "commas": lambda w: words(w, ", ", ", "),
    "and": lambda w: words(w, ", ", " and "),
    "capitals": lambda w: words(w).upper(),
    "maybe plural": lambda w: " ".join(f"{n} {unit}(s)" for n, unit in parts(w)),
    "wrapped": lambda w: words(w, "\n", "\n  "),
    "seconds": lambda w: f"{int(w.total_seconds())} seconds",
    "grouped": lambda w: f"{int(w.total_seconds()):,} seconds",
    "fraction": lambda w: f"{w.total_seconds():.9f}s",
}
SENTENCES = [
    "try again in {}.", "It will reset in {}", "Your quota will reset after {}. (HTTP 429)", "Please wait {} before",
    "Please retry in {}.", "Retrying in {}", "Resets in: {}", "rate limited for {}", "available again in about {}, or",
]  # fmt: skip


@given(waits, st.sampled_from(sorted(SPANS)), st.sampled_from(SENTENCES))
def test_a_wait_in_a_sentence_is_read_back(wait: timedelta, notation: str, sentence: str) -> None:
    """R-CLS-5: to the second, in each notation, in each kind of sentence."""
    assert wait == text(sentence.format(SPANS[notation](wait)))


@given(waits)
def test_a_countdown_is_read_back(wait: timedelta) -> None:
    assert wait == text(f"Resets in {countdown(wait)}")


@given(st.integers(min_value=1, max_value=31 * 86_400_000))
def test_milliseconds_are_read_back(milliseconds: int) -> None:
    wait = timedelta(milliseconds=milliseconds)
    assert wait == text(f"try again in {milliseconds}ms")
    assert wait == text(f"Please retry in {milliseconds / 1000:.3f}s.")
    assert wait == header({"retry-after-ms": str(milliseconds)})
    assert wait == field({"retry_after_ms": milliseconds})


FIELDS_OF_WAITS: dict[str, Callable[[timedelta], Any]] = {
    "retry-after": lambda w: header({"Retry-After": str(int(w.total_seconds()))}),
    "dimension, go": lambda w: header({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": go(w)}),
    "dimension, bare": lambda w: header({"x-ratelimit-reset-tokens": str(int(w.total_seconds()))}),
    "plan window": lambda w: header(
        {"x-codex-primary-used-percent": "100", "x-codex-primary-reset-after-seconds": str(int(w.total_seconds()))}
    ),
    "resets_in_seconds": lambda w: field({"error": {"resets_in_seconds": int(w.total_seconds())}}),
    "retry_after": lambda w: field({"retry_after": int(w.total_seconds())}),
    "duration, JSON": lambda w: field({"details": [{"retryDelay": f"{int(w.total_seconds())}s"}]}),
    "duration, object": lambda w: field({"retryDelay": {"seconds": str(int(w.total_seconds())), "nanos": 0}}),
    "duration, text form": lambda w: text(f"[retry_delay {{\n  seconds: {int(w.total_seconds())}\n}}\n]"),
    "quota delay": lambda w: field({"quotaResetDelay": go(w)}),
    "printed JSON": lambda w: text("429 " + json.dumps({"error": {"resets_in_seconds": int(w.total_seconds())}})),
    "JSON in JSON": lambda w: text(
        json.dumps({"message": json.dumps({"error": {"resets_in_seconds": int(w.total_seconds())}})})
    ),
}


@given(waits, st.sampled_from(sorted(FIELDS_OF_WAITS)))
def test_a_wait_in_a_field_is_read_back(wait: timedelta, notation: str) -> None:
    assert wait == FIELDS_OF_WAITS[notation](wait)


# --- instants ---------------------------------------------------------------------------------------------------------


def http_date(due: datetime, form: str) -> str:
    day, month = DAYS[due.weekday()], MONTHS[due.month - 1][:3]
    return {
        "fixdate": f"{day[:3]}, {due.day:02} {month} {due.year} {due:%H:%M:%S} GMT",
        "rfc850": f"{day}, {due.day:02}-{month}-{due.year % 100:02} {due:%H:%M:%S} GMT",
        "asctime": f"{day[:3]} {month} {due.day:2} {due:%H:%M:%S} {due.year}",
    }[form]


def unified(due: datetime) -> dict[str, str]:
    return {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-representative-claim": "seven_day",
        "anthropic-ratelimit-unified-5h-status": "allowed",
        "anthropic-ratelimit-unified-5h-reset": str(int(due.timestamp()) + 60),
        "anthropic-ratelimit-unified-7d-reset": str(int(due.timestamp())),
    }


def dimension(value: str) -> dict[str, str]:
    return {"x-ratelimit-remaining": "0", "x-ratelimit-reset": value}


INSTANTS: dict[str, Callable[[datetime, datetime, ZoneInfo], Any]] = {
    "fixdate": lambda d, now, _: header({"retry-after": http_date(d, "fixdate")}, now),
    "rfc850": lambda d, now, _: header({"retry-after": http_date(d, "rfc850")}, now),
    "asctime": lambda d, now, _: header({"retry-after": http_date(d, "asctime")}, now),
    "printed header": lambda d, now, _: text(f"HTTP/2 429\r\nretry-after: {http_date(d, 'fixdate')}\r\n\r\n", now),
    "epoch header": lambda d, now, _: header(dimension(str(int(d.timestamp()))), now),
    "millisecond header": lambda d, now, _: header(dimension(str(int(d.timestamp() * 1000))), now),
    "ISO header": lambda d, now, z: header(dimension(d.astimezone(z).isoformat()), now),
    "unified": lambda d, now, _: header(unified(d), now),
    "ISO dimension": lambda d, now, _: header(
        {"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": f"{d:%Y-%m-%dT%H:%M:%SZ}"},
        now,
    ),
    "plan window": lambda d, now, _: header({"x-codex-primary-reset-at": str(int(d.timestamp()))}, now),
    "epoch field": lambda d, now, _: field({"error": {"resets_at": int(d.timestamp())}}, now),
    "millisecond field": lambda d, now, _: field([{"resetsAt": int(d.timestamp() * 1000)}], now),
    "ISO field": lambda d, now, z: field({"quotaResetTimeStamp": d.astimezone(z).isoformat()}, now),
    "suffix": lambda d, now, _: text(f"Claude AI usage limit reached|{int(d.timestamp())}", now),
    "millisecond suffix": lambda d, now, _: text(f"usage limit reached|{int(d.timestamp() * 1000)}", now),
    "epoch in a sentence": lambda d, now, _: text(f"limit resets at {int(d.timestamp())}.", now),
    "ISO in a sentence": lambda d, now, z: text(f"Resets at {d.astimezone(z).isoformat()}.", now),
    "ISO Z": lambda d, now, _: text(f"try again at {d:%Y-%m-%dT%H:%M:%S}.000Z", now),
    "ISO UTC": lambda d, now, _: text(f"resets at {d:%Y-%m-%d %H:%M:%S} UTC", now),
    "HTTP date in a sentence": lambda d, now, _: text(f"try again at {http_date(d, 'fixdate')}", now),
}


@given(instants, waits, zones, st.sampled_from(sorted(INSTANTS)))
def test_an_instant_is_read_back(now: datetime, wait: timedelta, zone: str, notation: str) -> None:
    """R-CLS-5: what names its zone by notation or offset is that instant, to the second, whatever the offset."""
    due = now + wait
    place = ZoneInfo(zone)
    offset = due.astimezone(place).utcoffset()
    assume("ISO" not in notation or (offset is not None and not offset.total_seconds() % 60))
    assert due == INSTANTS[notation](due, now, place)


# --- wall times -------------------------------------------------------------------------------------------------------


def half(local: datetime) -> str:
    return "am" if local.hour < 12 else "pm"


def twelve(local: datetime) -> str:
    return f"{local.hour % 12 or 12}:{local.minute:02}"


def ordinal(day: int) -> str:
    return "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def short(local: datetime) -> str:
    """As JavaScript agents print a time: 3pm, 3:05pm."""
    return f"{local.hour % 12 or 12}{half(local)}" if not local.minute else f"{twelve(local)}{half(local)}"


CLOCKS: dict[str, Callable[[datetime], str]] = {
    "short": lambda d: f"resets {short(d)}",
    "upper": lambda d: f"try again at {twelve(d)} {half(d).upper()}",
    "narrow space": lambda d: f"resets at {twelve(d)}\u202f{half(d).upper()}",
    "dotted": lambda d: f"try again at {twelve(d)} {half(d)[0]}.m.",
    "24 h": lambda d: f"resets {d.hour:02}:{d.minute:02}",
    "24 h, seconds": lambda d: f"resets at {d.hour:02}:{d.minute:02}:00",
}
DATED: dict[str, Callable[[datetime], str]] = {
    "month, day at": lambda d: f"resets {MONTHS[d.month - 1][:3]} {d.day} at {short(d)}",
    "month, day,": lambda d: f"resets {MONTHS[d.month - 1]} {d.day}, {short(d)}",
    "on day": lambda d: f"resets {d.hour:02}:{d.minute:02} on {d.day} {MONTHS[d.month - 1][:3]}",
    "ordinal with year": lambda d: (
        f"try again at {MONTHS[d.month - 1][:3]} {d.day}{ordinal(d.day)}, {d.year} {twelve(d)} {half(d).upper()}"
    ),
    "commas with year": lambda d: (
        f"try again at {MONTHS[d.month - 1][:3]} {d.day}, {d.year}, {twelve(d)} {half(d).upper()}"
    ),
    "day first": lambda d: f"try again on {d.day} {MONTHS[d.month - 1]} {d.year} at {d.hour:02}:{d.minute:02}",
    "weekday and date": lambda d: (
        f"Reset date: {DAYS[d.weekday()]}, {MONTHS[d.month - 1]} {d.day}, {d.year} at {twelve(d)} {half(d)}"
    ),
    "ISO": lambda d: f"Your limit will reset at {d.year}-{d.month:02}-{d.day:02} {d.hour:02}:{d.minute:02}:00",
}
PLACES: dict[str, Callable[[str, str], tuple[str, str | None]]] = {
    "brackets": lambda written, zone: (f"{written} ({zone}).", None),
    "bare": lambda written, zone: (f"{written} {zone}", "UTC"),
    "adapter": lambda written, zone: (f"{written}.", zone),
    "adapter, named": lambda written, zone: (f"{written} (local time)", zone),
}


def is_read(due: datetime, now: datetime, zone: str, written: str, where: str) -> None:
    """It is the instant; where the zone's clocks show that time twice, it may be none, and is never the other one."""
    wall = due.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    twice = len({wall.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC) for fold in (0, 1)}) > 1
    sentence, local = PLACES[where](written, zone)
    found = text(sentence, now, local)
    assert found == due or (twice and found is None)


def minute_of(now: datetime, minutes: int) -> datetime:
    return (now + timedelta(minutes=minutes)).replace(second=0)


@given(
    instants,
    st.integers(min_value=1, max_value=21 * 60),
    zones,
    st.sampled_from(sorted(CLOCKS)),
    st.sampled_from(sorted(PLACES)),
)
@example(datetime(2026, 10, 25, 0, 45, tzinfo=UTC), 30, "Europe/Berlin", "24 h", "brackets")
@example(datetime(2026, 3, 28, 23, 0, tzinfo=UTC), 180, "Europe/Berlin", "short", "brackets")
@example(datetime(2026, 12, 31, 23, 59, tzinfo=UTC), 2, "Pacific/Kiritimati", "upper", "adapter")
@example(datetime(2026, 4, 4, 12, 0, tzinfo=UTC), 200, "Australia/Lord_Howe", "upper", "adapter")
def test_a_time_of_day_is_read_back(now: datetime, minutes: int, zone: str, notation: str, where: str) -> None:
    """R-CLS-5: the next occurrence, across midnight and clock changes, in every zone there is."""
    due = minute_of(now, minutes)
    offset = due.astimezone(ZoneInfo(zone)).utcoffset()
    assume(due > now and offset is not None and not offset.total_seconds() % 60)
    is_read(due, now, zone, CLOCKS[notation](due.astimezone(ZoneInfo(zone))), where)


@given(
    instants,
    st.integers(min_value=1, max_value=31 * 1440),
    zones,
    st.sampled_from(sorted(DATED)),
    st.sampled_from(sorted(PLACES)),
)
@example(datetime(2027, 12, 31, 23, 0, tzinfo=UTC), 90, "America/New_York", "month, day at", "adapter")
@example(datetime(2028, 2, 20, 0, 0, tzinfo=UTC), 9 * 1440 + 7, "Asia/Tokyo", "on day", "brackets")
def test_a_dated_time_is_read_back(now: datetime, minutes: int, zone: str, notation: str, where: str) -> None:
    """R-CLS-5: with and without a year, across year ends and leap days."""
    due = minute_of(now, minutes)
    assume(due > now)
    is_read(due, now, zone, DATED[notation](due.astimezone(ZoneInfo(zone))), where)


@given(instants, st.integers(min_value=1, max_value=6 * 1440), zones)
def test_a_weekday_is_read_back(now: datetime, minutes: int, zone: str) -> None:
    due = minute_of(now, minutes)
    local = due.astimezone(ZoneInfo(zone))
    assume(due > now)
    is_read(due, now, zone, f"resets {DAYS[local.weekday()]} at {short(local)}", "brackets")


@given(instants, st.integers(min_value=0, max_value=21 * 60), st.integers(min_value=-12 * 60, max_value=14 * 60))
def test_an_offset_is_read_back(now: datetime, minutes: int, offset: int) -> None:
    """R-CLS-5: as JavaScript names a zone that has no name: GMT-3, GMT+5:30."""
    due = minute_of(now, minutes)
    assume(due > now)
    local = due + timedelta(minutes=offset)
    hours, rest = divmod(abs(offset), 60)
    shown = f"{'-' if offset < 0 else '+'}{hours}" + (f":{rest:02}" if rest else "")
    assert due == text(f"Access resets at {twelve(local)} {half(local).upper()} GMT{shown}.", now)
    assert due == text(f"Access resets at {twelve(local)} {half(local).upper()} (UTC{shown}).", now, "Asia/Tokyo")


@pytest.mark.parametrize("zone", ZONES)
def test_every_zone_of_the_database_is_read(zone: str) -> None:
    """R-CLS-5: none is missing; "Factory" and one-word names have no area and are no zone of a text."""
    now = datetime(2026, 5, 14, 10, tzinfo=UTC)
    due = datetime(2026, 5, 14, 15, 30, tzinfo=UTC)
    assert due == text(f"resets {short(due.astimezone(ZoneInfo(zone)))} ({zone})", now)


# --- whatever there is to read ----------------------------------------------------------------------------------------

STARTS = (
    "",
    "resets at ",
    "try again in ",
    "wait ",
    "limit reached|",
    "Retry-After: ",
    '{"resets_at": ',
    "reset_after=",
    "retry_delay {",
)
PIECES = [
    "try again in", "come back in", "locked until", "cooling down for", "limit restored at", "usage unlocked in", "regain access in",
    "limit ends at", "cool-down ends at", "paused for", "suspended until", "limited for", "lifted", "replenishes in", "be renewed on",
    "will reconnect in", "backing off for", "next attempt in", "check back in", "not yet available until", "resumes in", "resets", "resets at", "wait", "until", "retrying", "3pm", "3:05", "12:00 AM", "(UTC)", "(Europe/London)",
    "Oct 9", "2026-05-14", "T10:00:00", "Z", "+02:00", "1778756400", "|", "6m0s", "5", "hours", "and", ",", "-", "\n", " ", "{", "}",
    '"resets_at":', '"', "\\", "\x00", "\u0663", "\uff13pm", "\u00bd", "9" * 400, "1" * 40 + "s", "\ud800", "\u202f", "tomorrow",
]  # fmt: skip
GATE = re2.compile("(?i)" + to_re2(Mark.TIMED.value))
texts = st.text(max_size=300) | st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=40).map("".join)
moments = st.none() | instants | st.sampled_from([datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])


@given(
    texts,
    st.sampled_from(STARTS),
    moments,
    st.sampled_from([None, "Europe/Berlin", "nowhere", "\x00", "Asia/" + "x" * 300]),
)
def test_no_text_raises_and_no_hint_is_invalid(tail: str, start: str, now: datetime | None, zone: str | None) -> None:
    """R-CLS-5: never in the past, never beyond 31 days, never an exception."""
    for hint in hints_from_text(start + tail, observed_at=now, local_zone=zone):
        assert is_valid(hint, now)
        assert (hint.retry_after is None) != (hint.reset_at is None)
        assert len(hint.written) <= 160
        if now is not None and hint.reset_at is not None:
            assert now < hint.reset_at <= now + MAX_HORIZON


@given(texts, st.sampled_from(STARTS))
def test_the_gate_lets_everything_through_that_is_read(tail: str, start: str) -> None:
    """R-PRF-2: the one pass over a text that decides whether it is read for times is a superset of what gives one."""
    written = (start + tail).encode("utf-8", "replace").decode()
    hints = hints_from_text(written, observed_at=None, local_zone="UTC")
    assert GATE.search(written) or not [hint for hint in hints if hint.source == "text"]


names = st.sampled_from(
    ["resetsAt", "retry_after", "retryDelay", "headers", "seconds", "nanos", "status", "reset", "retry-after"]
)
values = st.none() | st.booleans() | st.floats() | st.integers() | st.integers(min_value=10**300) | texts


@given(
    st.recursive(values, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names | texts, inner, max_size=4)),
    moments,
)
@example({"resets_at": 10**5000, "retryDelay": {"seconds": 10**400}}, None)
@example({"\ud800": "\ud800", "resets_at": "\ud800", "headers": {"\ud800": "1", "retry-after": "\ud800"}}, None)
def test_no_data_raises_and_no_hint_is_invalid(data: Any, now: datetime | None) -> None:
    assert all(is_valid(hint, now) for hint in hints_from_data(data, observed_at=now))


THINGS = [
    "files", "tokens", "requests", "retries", "counters", "times", "attempts", "steps", "MB", "KB", "M", "k tokens", "%", "shards",
    "s3 buckets", "h264 streams", "models", "months", "mount points", "systems", "hosts", "digits", "directories", "words", "watchers",
    "sections", "minorities", "hourglasses", "dayparts", "weeknotes", "msgs", "mds", "x", ".0", ".4.1", "/10", ":8080", "00", "€",
]  # fmt: skip
COUNTING = [
    "try again in {}", "retry after {}", "resets {}", "resets in {}", "reset after {}", "wait {}", "wait for {}", "retrying {}",
    "available in {}", "limited for {}", "blocked for {}", "reset: {}", "cooldown: {}", "try again at {}", "resets at {}",
]  # fmt: skip


@given(
    st.integers(min_value=0, max_value=99_999),
    st.sampled_from(THINGS),
    st.sampled_from(COUNTING),
    st.sampled_from(["", " ", "-"]),
)
def test_a_number_of_things_is_no_time(number: int, thing: str, sentence: str, gap: str) -> None:
    """R-CLS-5: a false hint is worse than none."""
    now = datetime(2026, 5, 14, 10, tzinfo=UTC)
    written = sentence.format(f"{number}{gap}{thing}")
    assert [] == hints_from_text(written, observed_at=now, local_zone="UTC"), written


HEADERS = [
    "retry-after", "retry-after-ms", "x-ratelimit-reset-requests", "x-ratelimit-remaining-requests", "x-codex-primary-reset-at",
    "anthropic-ratelimit-unified-reset", "anthropic-ratelimit-unified-status", "anthropic-ratelimit-unified-representative-claim",
]  # fmt: skip


@given(st.dictionaries(st.sampled_from(HEADERS) | texts, texts | st.integers().map(str)), moments)
def test_no_header_raises_and_no_hint_is_invalid(headers: dict[str, str], now: datetime | None) -> None:
    assert all(is_valid(hint, now) for hint in hints_from_headers(headers, observed_at=now))


ADVERSARIAL = [
    "try again in ", "resets at ", "wait 1 hour ", "1h", "1,000,", "an hour and a half and ", "{", '{"a":', "{\n", '{"resets_at": "\n',
    "limit|1778756400 ", "limit reached ", "retry_delay {", "retry_delay \\n", "x-ratelimit-reset: 5\n", "reset_after=5m ",
    "resets 3pm (", "resets (in ", "attempt 1/", "retry-after: ", "\\\\", "\x1b[", "\u202f", "was reset ", "remaining=", "a" * 61 + ":",
]  # fmt: skip


def seconds_for(written: str) -> float:
    now = datetime(2026, 5, 14, 10, tzinfo=UTC)
    best_of = []
    for _ in range(3):
        start = clock.process_time()
        hints_from_text(written, observed_at=now, local_zone="Europe/Berlin")
        best_of.append(clock.process_time() - start)
    return min(best_of)


@pytest.mark.parametrize("unit", ADVERSARIAL)
def test_time_grows_no_faster_than_the_text(unit: str) -> None:
    """R-CLS-7: eight times the text takes at most about eight times as long; 64 KiB are read within two seconds."""
    small, large = 8 * 1024, 64 * 1024
    base = seconds_for((unit * small)[:small])
    grown = seconds_for((unit * large)[:large])
    assert grown < 2.0
    assert grown < 20 * max(base, 0.002)


# --- wherever it runs -------------------------------------------------------------------------------------------------

SAMPLES = [
    "resets 3pm (Europe/London)", "try again at 3:10 PM", "resets Oct 9 at 5am (UTC)", "resets at 2026-05-15 14:00", "resets May 20",
    "usage limit reached|1778756400", "resets 2:30am (Europe/Berlin)", "resets tomorrow at 9am", "try again in 6m0s", "resets Monday",
    "Retry-After: Thu, 14 May 2026 10:05:00 GMT", "resets at 3:05 PM (local time)", '{"resets_at": "2026-05-14T11:00:00Z"}',
]  # fmt: skip


def everything(zone: str | None) -> list[list[TimingHint]]:
    now = datetime(2026, 5, 14, 10, tzinfo=UTC)
    return [hints_from_text(sample, observed_at=now, local_zone=zone) for sample in SAMPLES]


@pytest.fixture
def machine_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    def move(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        clock.tzset()

    yield move
    monkeypatch.undo()
    clock.tzset()


@pytest.mark.parametrize("local", [None, "Asia/Kolkata"])
def test_no_hint_depends_on_the_machines_zone(local: str | None, machine_zone: Callable[[str], None]) -> None:
    """R-CLS-5: a wall time without a zone is that of the adapter, or nothing: never that of whoever reads it."""
    machine_zone("UTC")
    assert timedelta(0) == datetime(2026, 1, 1).astimezone().utcoffset()
    expected = everything(local)
    for zone in ("America/New_York", "Asia/Kathmandu", "Pacific/Kiritimati", "Antarctica/Troll", "XYZ+3:17"):
        machine_zone(zone)
        assert datetime(2026, 1, 1).astimezone().utcoffset() != timedelta(0) or zone == "Antarctica/Troll"
        assert expected == everything(local)


def test_no_hint_depends_on_the_machines_locale() -> None:
    """R-CLS-5: month names and decimal points are those of the notation."""
    before = locale.setlocale(locale.LC_ALL)
    expected = everything("Asia/Kolkata")
    tried = []
    try:
        for name in ("C", "POSIX", "C.UTF-8", "tr_TR.UTF-8", "de_DE.UTF-8", "ar_SA.UTF-8"):
            try:
                locale.setlocale(locale.LC_ALL, name)
            except locale.Error:
                continue  # not on this machine
            tried.append(name)
            assert expected == everything("Asia/Kolkata")
    finally:
        locale.setlocale(locale.LC_ALL, before)
    assert "C" in tried
