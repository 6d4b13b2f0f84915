"""Renders the HTML page of a report, one file that loads nothing. Its only script, sort.js, sorts
tables, and the page does without it.

page.html is its template.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from compliance.findings.page import templates
from harness import terminal
from harness.comparison import compare
from harness.report import details, exports, figures
from harness.report.content import Content
from harness.report.section import Section
from harness.report.sections import sentences
from results.figure import short

BEGINNING = "\n".join(
    (
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="generator" content="report of runs">',
    )
)
"""The beginning of every page of a report. A file with another beginning is not such a page."""

# These limits keep a page small and quick. Other cells are only in the table and the list of
# folders, other rows and pictures only in report.json.
_MOST_DETAILS = 30
_MOST_ROWS = 200
_MOST_PICTURES = 4
_MOST_SENTENCES = 4
_SCRIPT = (Path(__file__).parent / "sort.js").read_text(encoding="utf-8")
# A browser runs only the script with this digest.
_SHA256 = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()


def render(content: Content, sections: Sequence[Section], when: datetime) -> str:
    """Return the page of a report, as HTML. It contains the JSON document as a file."""
    # Nothing else is known of cells that never started.
    measured = [group for group in content.current if group.last.result.directory]
    cells = measured[:_MOST_DETAILS]
    models = {compare.named(group) for group in measured or content.current}
    of = f" for {models.pop()}" if len(models) == 1 else ""
    colours = {group.sut: figures.colour(group.cell.sut) for group in content.groups}
    drawn = []
    for n, section in enumerate(sections):
        pictures = []
        for m, picture in enumerate(section.pictures[:_MOST_PICTURES]):
            drawing = figures.draw(picture, f"s{n}p{m}", colours)
            pictures.append((picture.name, Markup(drawing)))
        drawn.append((section, pictures))
    document = exports.document(content, sections)
    text = json.dumps(document, ensure_ascii=False).encode(errors="backslashreplace")
    body = (
        _environment()
        .get_template("page.html")
        .render(
            content=content,
            sentences=sentences(sections),
            sections=drawn,
            title=f"Which SUT is fastest{of}?",
            how=list(_how(content)),
            json=_data_uri("application/json", text),
            script=Markup(_SCRIPT),
            script_digest=f"sha256-{_SHA256}",
            when=f"{when:%Y-%m-%d %H:%M %Z}".strip(),
            details=[details.of(group, content.shared) for group in cells],
            colours=colours,
            links={group: f"cell{n}" for n, group in enumerate(cells)},
            rest=measured[_MOST_DETAILS:],
        )
    )
    return f"{BEGINNING}\n{body}"


def _how(content: Content) -> Iterator[str]:
    """How the cells were measured, in sentences."""
    runs = [run for group in content.current for run in group.runs]
    records = [run.record for run in runs if run.record]
    versions = sorted({record.loadgen for record in records if record.loadgen})
    if versions:
        yield f"MLPerf's LoadGen {', '.join(versions)} issued the samples and took the times."
    seconds = [run.result.seconds.get("performance") for run in runs]
    timed = [each for each in seconds if each]
    if timed:
        counts = [len(group.good) for group in content.current if group.good] or [0]
        yield (
            f"{len(runs)} runs, {min(counts)} to {max(counts)} good ones of each cell; a timed test"
            f" took {min(timed):.0f} to {max(timed):.0f} seconds, after warm-up and compilation."
        )
    yield (
        "Answers are compared with those of a float32 reference, and answers given while"
        " measuring with those of the accuracy test. The section of a cell says if its answers"
        " were not judged."
    )
    yield (
        "A ratio compares runs of the same round. Its 95 % interval comes from the noise of"
        " all SUTs, and the intervals of all pairs hold at once."
    )
    packages = {f"{k} {v}" for run in runs for k, v in run.versions.items()}
    if packages:
        yield f"Versions: {', '.join(sorted(packages))}."


@cache
def _environment() -> jinja2.Environment:
    environment = templates(Path(__file__).parent)
    environment.filters["short"] = short
    environment.globals |= {
        "ratio_words": exports.ratio_words,
        "near": terminal.near,
        "data_uri": _data_uri,
        "most_pictures": _MOST_PICTURES,
        "most_rows": _MOST_ROWS,
        "most_sentences": _MOST_SENTENCES,
    }
    return environment


def _data_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
