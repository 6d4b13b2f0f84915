"""Reads the dates that LoadGen logs, and computes the time between two of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from compliance.logs.detail import Detail


def log_date(text: Any) -> datetime | None:
    """A date such as `2026-11-21T03:46:56Z`; None if the text is no date. The build date has no
    time zone and is read as UTC.
    """
    try:
        date = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def power_date(text: Any) -> datetime | None:
    """A date `MM-DD-YYYY HH:MM:SS.mmm` in UTC (loadgen/utils.cc, DateTimeStringForPower); None if
    the text is no date.
    """
    try:
        return datetime.strptime(text, "%m-%d-%Y %H:%M:%S.%f")
    except (TypeError, ValueError):
        return None


def wall_seconds(detail: Detail) -> float | None:
    """The seconds between power_begin and power_end, by the calendar; None if one of them is no
    date.
    """
    begin = power_date(detail.get("power_begin"))
    end = power_date(detail.get("power_end"))
    return None if begin is None or end is None else (end - begin).total_seconds()
