"""One reset value of a header or a field, in whichever notation it came (R-CLS-5)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Literal

from kandev_routing_sdk.evidence.linear import compile_linear
from kandev_routing_sdk.evidence.timing.model import Source, TimingHint, Trust, Zone, absolute, relative
from kandev_routing_sdk.evidence.timing.notation import epoch, iso
from kandev_routing_sdk.evidence.timing.spans import duration, span

__all__ = ["iso_instant", "reset_value"]

_DECIMAL: Final = compile_linear(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")
_DAY: Final = compile_linear(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def reset_value(
    value: str,
    *,
    source: Source,
    written: str,
    trust: int,
    observed_at: datetime | None,
    bare: Literal["seconds", "milliseconds", "either", "none"],
) -> list[TimingHint]:
    """The hint of a value that is an epoch, an ISO time, a date, a duration, or a bare number.

    A date alone is right to a day whatever the zone, and believed last.

    Args:
        value: what was written, without surrounding quotes.
        source: where it stood.
        written: how to quote it in the provenance.
        trust: see :class:`Trust`.
        observed_at: when it was seen, UTC.
        bare: what a bare number is: a wait in a unit, an epoch (``none``), or either an epoch or, if too small for
            one, seconds.
    """
    zone: Zone = "utc"
    instant = epoch(value) if bare in {"either", "none"} else None
    if instant is None:
        instant, zone = iso_instant(value)
    if instant is None and _DAY.fullmatch(value):
        instant, _ = iso_instant(value + "T00:00Z")
        zone, trust = "none", Trust.DATE_TEXT
    if instant is not None:
        return absolute(instant, source=source, written=written, zone=zone, trust=trust, observed_at=observed_at)
    wait: timedelta | None = duration(value)
    if _DECIMAL.fullmatch(value) and bare != "none":
        wait = span(float(value) / (1000 if bare == "milliseconds" else 1))
    return relative(wait, source=source, written=written, trust=trust)


def iso_instant(text: str) -> tuple[datetime | None, Zone]:
    """The instant of an ISO time and what its zone rests on; none for one without a zone: whose clock nobody says."""
    found = iso(text)
    if found is None or not found[1]:
        return None, "none"
    return found[0], "utc" if text.strip()[-1] in "Zz" else "text"
