"""The dates LoadGen logs, and the time that passed between two of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from compliance.logs.detail import Detail


def log_date(text: Any) -> datetime | None:
    """`2026-11-21T03:46:56Z`, and the build date, which is UTC without saying so."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def power_date(text: Any) -> datetime | None:
    """`MM-DD-YYYY HH:MM:SS.mmm`, UTC (loadgen/utils.cc, DateTimeStringForPower)."""
    try:
        return datetime.strptime(text, "%m-%d-%Y %H:%M:%S.%f")
    except (TypeError, ValueError):
        return None


def wall_seconds(detail: Detail) -> float | None:
    begin, end = power_date(detail.get("power_begin")), power_date(detail.get("power_end"))
    return None if begin is None or end is None else (end - begin).total_seconds()
