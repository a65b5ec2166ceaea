"""Reports as Markdown, e.g. for an issue tracker. Texts of tasks are in code, so that they cannot become markup, links
or mentions. Without logs, except the last lines of the first failed task."""

import re
from collections.abc import Iterable, Iterator

from windlass.client.report import tables
from windlass.client.report.contents import Report
from windlass.client.report.tables import Table
from windlass.model import untrusted_text
from windlass.wire.yaml import dump as yaml_dump

MAX_CHARACTERS = 65_536
"""The limit of GitHub for issues and comments."""
_LIMITS = (200, 100, 50, 20, 10, 5, 2)
"""Maximum numbers of rows of each table. The first one is used with which the report is short enough."""
_MAX_CELL = 300
_MAX_LINE = 500
_HARMLESS = re.compile(r"[A-Za-z0-9 .,:()-]*")


def render(report: Report) -> str:
    """Return the report, with as many rows as fit. Its length is limited."""
    text = ""
    for limit in _LIMITS:
        text = "\n".join(_lines(report, limit)) + "\n"
        if len(text) <= MAX_CHARACTERS:
            return text
    return text[:MAX_CHARACTERS]


def _lines(report: Report, limit: int) -> Iterator[str]:
    explanation, failure = report.explanation, report.explanation.failure
    yield f"# {_cell(explanation.job)}: {explanation.verdict}"
    hint = (failure.hint,) if failure is not None and failure.hint else ()
    yield from ("", *_fenced((explanation.message, *report.notes, *hint)), "")
    yield from _table(Table(("fact", "value"), list(tables.facts(report))), limit)
    if failure is not None and failure.lines:
        yield from ("", f"## Last lines of {failure.task}", "", *_fenced(failure.lines[-limit:]))
    for title, table in (
        ("Attempts of the job", tables.job_attempts(report)),
        ("Failures", tables.failures(report)),
        ("Attempts of tasks", tables.task_attempts(report, len(report.tasks))),
        ("Events", tables.events(report, limit)),
        ("Environment", tables.variables(report)),
    ):
        if table.rows:
            yield from ("", f"## {title}", "", *_table(table, limit))
    spec = yaml_dump.dump(report.framework).decode().splitlines()
    yield from ("", "## Spec", "", *_fenced(spec[: 10 * limit], "yaml"))
    if len(spec) > 10 * limit:
        yield f"… and {len(spec) - 10 * limit} more lines"


def _table(table: Table, limit: int) -> Iterator[str]:
    yield f"| {' | '.join(table.heads)} |"
    yield f"|{' --- |' * len(table.heads)}"
    for row in table.rows[:limit]:
        yield f"| {' | '.join(map(_cell, row))} |"
    if len(table.rows) > limit:
        yield from ("", f"… and {len(table.rows) - limit} more")


def _cell(text: str) -> str:
    """Return a text for a table cell: as code, unless it is harmless."""
    if _HARMLESS.fullmatch(text) and len(text) <= _MAX_CELL:
        return text
    shown = " ".join(untrusted_text.escaped(" ".join(text[:_MAX_CELL].split("\n"))).split())
    shown += "…" if len(text) > _MAX_CELL else ""
    fence = "`" * (_longest_run(shown) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}".replace("|", r"\|") if shown else ""


def _fenced(lines: Iterable[str], language: str = "") -> Iterator[str]:
    shown = [untrusted_text.visible(line[:_MAX_LINE]) for text in lines for line in text.split("\n")]
    fence = "`" * max(3, _longest_run("\n".join(shown)) + 1)
    yield from (fence + language, *shown, fence)


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
