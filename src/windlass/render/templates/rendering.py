"""Render a template and validate the output. Diagnostics name the lines of the template, if these are known."""

import re
from collections.abc import Mapping
from typing import Any

import jinja2
import msgspec

from windlass.render.templates import jinja, validation
from windlass.render.templates.jinja import TemplateError
from windlass.wire import diagnostics
from windlass.wire.diagnostics import Diagnostic

_MARK = "\ue000"
_MARKED = re.compile(f"{_MARK}([0-9]+){_MARK}")
_EXTENSIONS = ("jinja2.ext.do", "jinja2.ext.loopcontrols")


class Template(msgspec.Struct, frozen=True):
    source: str
    file: str
    variables: Mapping[str, Any]
    included: Mapping[str, str]
    """Templates that it may include, import or extend, by name."""

    def render(self, source: str = "") -> str:
        """Render `source` (default: the source of the template). Raises TemplateError."""
        return jinja.render(source or self.source, self.file, self.variables, self.included)


class Rendered(msgspec.Struct, frozen=True):
    text: str
    """The output, including the YAML comments of the template."""
    warnings: tuple[str, ...]
    """One line each, with the file and, if known, the line of the template."""
    errors: tuple[str, ...]
    """In the same format."""


def rendered(template: Template) -> Rendered:
    """Render and validate a template. Raises TemplateError."""
    text = template.render()
    found = diagnostics.collect(validation.check(text), template.file)
    lines = _lines(template, text) if found else {}
    return Rendered(
        text,
        tuple(_format(diagnostic, lines) for diagnostic in found if not diagnostic.is_error),
        tuple(_format(diagnostic, lines) for diagnostic in found if diagnostic.is_error),
    )


def _format(diagnostic: Diagnostic, lines: Mapping[int, int]) -> str:
    line = lines.get(diagnostic.line)
    subject = f"{diagnostic.path}: " if diagnostic.path else ""
    if line is None:
        subject = f"line {diagnostic.line} of the output: {subject}"
    position = diagnostic.file if line is None else f"{diagnostic.file}:{line}"
    return f"{position}: {diagnostic.severity}: {subject}{diagnostic.message}"


def _lines(template: Template, text: str) -> dict[int, int]:
    """Map lines of the output to lines of the template. To do so, render the template with a mark at each line end."""
    try:
        marked = template.render(_with_marks(template.source)).split("\n")
    except TemplateError:
        return {}
    if len(marked) != text.count("\n") + 1:
        return {}
    found = ((number, _MARKED.findall(line)) for number, line in enumerate(marked, start=1))
    return {number: int(marks[-1]) for number, marks in found if marks}


def _with_marks(source: str) -> str:
    lexer = jinja2.Environment(keep_trailing_newline=True, extensions=_EXTENSIONS)  # noqa: S701 — used only as a lexer
    return "".join(
        _marked(value, line) if token == "data" else value  # noqa: S105
        for line, token, value in lexer.lex(source)
    )


def _marked(data: str, line: int) -> str:
    pieces = data.split("\n")
    ends = (f"{piece}{_MARK}{line + index}{_MARK}" for index, piece in enumerate(pieces[:-1]))
    return "\n".join((*ends, pieces[-1]))
