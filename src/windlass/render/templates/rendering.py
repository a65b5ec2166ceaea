"""From a template to the text of objects, and from what is wrong with them back to the lines of the template."""

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
    others: Mapping[str, str]
    """Those that it may include, by their names."""

    def text(self, source: str = "") -> str:
        """Raises `TemplateError`."""
        return jinja.render(source or self.source, self.file, self.variables, self.others)


class Rendered(msgspec.Struct, frozen=True):
    text: str
    """The template's own, with its comments."""
    warnings: tuple[str, ...]
    errors: tuple[str, ...]
    """Each is one line, which names the file and, where it is known, the line of the template."""


def rendered(template: Template) -> Rendered:
    """Raises `TemplateError`."""
    text = template.text()
    found = diagnostics.collect(validation.check(text), template.file)
    lines = _lines(template, text) if found else {}
    warnings = tuple(_sentence(diagnostic, lines) for diagnostic in found if not diagnostic.is_error)
    return Rendered(
        text, warnings, tuple(_sentence(diagnostic, lines) for diagnostic in found if diagnostic.is_error)
    )


def _sentence(diagnostic: Diagnostic, lines: Mapping[int, int]) -> str:
    line = lines.get(diagnostic.line)
    subject = f"{diagnostic.path}: " if diagnostic.path else ""
    if line is None:
        place = f"in line {diagnostic.line} of what comes out"
        return f"{diagnostic.file}: {diagnostic.severity}: {place}: {subject}{diagnostic.message}"
    return f"{diagnostic.file}:{line}: {diagnostic.severity}: {subject}{diagnostic.message}"


def _lines(template: Template, text: str) -> dict[int, int]:
    """From the lines that came out to those of the template: every end of a line is marked with where it stands."""
    try:
        marked = template.text(_with_marks(template.source)).split("\n")
    except TemplateError:
        return {}
    if len(marked) != text.count("\n") + 1:
        return {}
    found = ((number, _MARKED.findall(line)) for number, line in enumerate(marked, start=1))
    return {number: int(marks[-1]) for number, marks in found if marks}


def _with_marks(source: str) -> str:
    lexer = jinja2.Environment(keep_trailing_newline=True, extensions=_EXTENSIONS)  # noqa: S701 — it renders nothing
    return "".join(
        _marked(value, line) if token == "data" else value  # noqa: S105
        for line, token, value in lexer.lex(source)
    )


def _marked(data: str, line: int) -> str:
    pieces = data.split("\n")
    ends = (f"{piece}{_MARK}{line + index}{_MARK}" for index, piece in enumerate(pieces[:-1]))
    return "\n".join((*ends, pieces[-1]))
