"""Renders the page of a profile, and its picture. profile.html is the page's template."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from markupsafe import Markup

from compliance.findings.page import templates
from formats.profile import Profile
from harness.report import figures, profile

BEGINNING = "\n".join(
    (
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="generator" content="profile of a step">',
    )
)
"""The beginning of every page of a profile. A file with another beginning is not such a page."""

_FLOPS = "FLOPs"


def render(found: Profile, when: datetime) -> str:
    """Return the page, as HTML."""
    template = templates(Path(__file__).parent).get_template("profile.html")
    tables = (
        profile.by_class(found),
        profile.whole_steps(found),
        profile.starts(found),
        profile.largest(found),
    )
    body = template.render(
        found=found,
        sentences=list(profile.sentences(found)),
        drawing=Markup(_drawing(found)),
        tables=[table for table in tables if table.count],
        when=f"{when:%Y-%m-%d %H:%M %Z}".strip(),
    )
    return f"{BEGINNING}\n{body}"


def picture(found: Profile) -> str:
    """Return the picture as a file of its own. Empty if there is no profile."""
    drawing = _drawing(found)
    return figures.as_file(drawing) if drawing else ""


def _drawing(found: Profile) -> str:
    """Draw the share of each class, in the operations and in the time of each SUT."""
    steps = profile.steps(found)
    if not steps:
        return ""
    rows = {}
    if found.operations:
        rows[_FLOPS] = found.operations.shares
    for label, step in steps.items():
        rows[f"{label}\n{1e3 * step.unprofiled_seconds:,.4g} ms"] = step.shares
    title = f"Share of each class of operation in a step of {found.title}"
    return figures.shares(rows, "p", title)
