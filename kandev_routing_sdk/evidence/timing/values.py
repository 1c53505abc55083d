"""One reset value of a header or a field, in whichever notation it came (R-CLS-5)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Literal

from kandev_routing_sdk.evidence.linear import compile_linear
from kandev_routing_sdk.evidence.timing.model import Source, TimingHint, Zone, absolute, relative
from kandev_routing_sdk.evidence.timing.notation import duration, epoch, iso, span
from kandev_routing_sdk.evidence.timing.wall import zone_named

__all__ = ["iso_instant", "reset_value"]

_DECIMAL: Final = compile_linear(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


def reset_value(
    value: str,
    *,
    source: Source,
    written: str,
    trust: int,
    observed_at: datetime | None,
    bare: Literal["seconds", "milliseconds", "either", "none"],
    local_zone: str | None = None,
) -> list[TimingHint]:
    """The hint of a value that is an epoch, an ISO time, a duration, or a bare number.

    Args:
        value: what was written, without surrounding quotes.
        source: where it stood.
        written: how to quote it in the provenance.
        trust: see :class:`Trust`.
        observed_at: when it was seen, UTC.
        bare: what a bare number is: a wait in a unit, an epoch (``none``), or either an epoch or, if too small for
            one, seconds.
        local_zone: IANA name for an ISO time without a zone; without it such a time is no hint.
    """
    zone: Zone = "utc"
    instant = epoch(value) if bare in {"either", "none"} else None
    if instant is None:
        instant, zone = iso_instant(value, local_zone)
    if instant is not None:
        return absolute(instant, source=source, written=written, zone=zone, trust=trust, observed_at=observed_at)
    wait: timedelta | None = duration(value)
    if _DECIMAL.fullmatch(value) and bare != "none":
        wait = span(float(value) / (1000 if bare == "milliseconds" else 1))
    return relative(wait, source=source, written=written, trust=trust)


def iso_instant(text: str, local_zone: str | None) -> tuple[datetime | None, Zone]:
    """The instant of an ISO time and what its zone rests on; none for a zone-less one without ``local_zone``."""
    found = iso(text)
    if found is None:
        return None, "none"
    moment, zoned = found
    if zoned:
        return moment, "utc" if text.strip()[-1] in "Zz" else "text"
    zone = zone_named(local_zone) if local_zone else None
    if zone is None:
        return None, "none"
    wall = moment.replace(tzinfo=zone)
    # As everywhere: of two readings at a clock change, the later.
    return max(wall.replace(fold=fold).astimezone(moment.tzinfo) for fold in (0, 1)), "adapter"
