"""Jinja templates of other people: text and variables in, text out, or one message that says where it went wrong.

A template can do no more than put text together: it reaches no files but the texts that are handed in beside it, and
nothing of Python. Import this module only where there is a template: Jinja takes a while to load.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from types import TracebackType
from typing import Any

import jinja2
from jinja2 import nodes, sandbox
from jinja2.runtime import Context
from jinja2.utils import missing
from jinja2.visitor import NodeTransformer

from windlass.render.templates import flow_yaml
from windlass.wire import diagnostics
from windlass.wire.yaml.text import MAX_BYTES

MOST_CHARACTERS = MAX_BYTES
"""Of what comes out: more would not be read again."""
MOST_STEPS = 1_000_000
"""Of all ranges of one template together; and, counted apart, of all rounds of its loops, and of its calls."""
_MOST_BITS = 4096
"""Of a number."""
_COUNTED, _JOINED = "windlass counted", "windlass joined"
"""Filters that no template can name."""


class TemplateError(ValueError):
    """A template that cannot be rendered: `FILE:LINE: what is wrong`."""

    def __init__(self, file: str, line: int, problem: str) -> None:
        super().__init__(f"{file}:{line}: {problem}")
        self.file = file
        self.line = line
        self.problem = problem


class _TooMuchError(Exception):
    """A template that would not end, or not end well."""


class _NoValueError(Exception):
    """An expression that is nothing to print."""


def render(text: str, file: str, variables: Mapping[str, Any], texts: Mapping[str, str] | None = None) -> str:
    """Raises `TemplateError`. `texts` are those that the template may include, import and extend, by their names."""
    texts = {**(texts or {}), file: text}
    environment = _Environment(texts, tuple(variables))
    try:
        template = environment.get_template(file)
        return "".join(_bounded(template.generate(copy.deepcopy(dict(variables)))))
    except jinja2.TemplateSyntaxError as broken:
        raise TemplateError(broken.filename or file, broken.lineno, _sentence(broken)) from broken
    except Exception as failed:  # whatever Python raises over an expression of the template
        at = _innermost(failed.__traceback__, texts) or (file, 1)
        raise TemplateError(*at, _sentence(failed)) from failed


def _bounded(pieces: Iterator[str]) -> Iterator[str]:
    length = 0
    for piece in pieces:
        length += len(piece)
        if length > MOST_CHARACTERS:
            raise _TooMuchError(
                f"more than {MOST_CHARACTERS} characters come out of the template: does a loop end?"
            )
        yield piece


def _innermost(traceback: TracebackType | None, texts: Mapping[str, str]) -> tuple[str, int] | None:
    """The last line of a template that was at work. Jinja puts its own lines into the traceback."""
    found = None
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if name in texts:
            found = name, traceback.tb_lineno
        traceback = traceback.tb_next
    return found


def _sentence(error: Exception) -> str:
    match error:
        case jinja2.TemplateNotFound():
            return f"the template {diagnostics.quoted(str(error.name))} is not among those that it may use"
        case jinja2.TemplateSyntaxError():
            return f"this is no Jinja: {error.message}"
        case (
            jinja2.TemplateError()
            | _TooMuchError()
            | _NoValueError()
            | flow_yaml.NotYamlError()
            | OverflowError()
        ):
            return str(error)
        case RecursionError():
            return "the template calls or includes itself without end"
        case MemoryError():
            return "what the template makes here is larger than the memory: does a loop end?"
        case _:
            return f"{type(error).__name__}: {error}"


class _Environment(sandbox.SandboxedEnvironment):
    """One for each rendering: it counts the steps."""

    intercepted_binops = frozenset(("*", "**", "+"))

    def __init__(self, texts: Mapping[str, str], variables: tuple[str, ...]) -> None:
        super().__init__(
            loader=_Texts(texts),
            undefined=_undefined(variables),
            keep_trailing_newline=True,
            autoescape=False,
            finalize=_printable,
            extensions=("jinja2.ext.do", "jinja2.ext.loopcontrols"),
        )
        self.filters |= {"yaml": _yaml, _COUNTED: self._counted, _JOINED: _joined}
        self.globals["range"] = self._range
        self.globals.pop("lipsum", None)
        self._steps = 0
        self._rounds = 0

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        found: nodes.Template = _Bounding().visit(super()._parse(source, name, filename))
        found.set_environment(self)
        return found

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Three characters are enough to ask for more than a machine has."""
        if _is_too_large(operator, left, right):
            raise _TooMuchError(f"what comes out of the {operator} here is too large")
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, called: Any, /, *args: Any, **kwargs: Any) -> Any:
        self._count()
        if _grows_too_large(called, args):
            raise _TooMuchError("what comes out of the call here is too large")
        return super().call(context, called, *args, **kwargs)

    def _counted(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            self._count()
            yield value

    def _count(self) -> None:
        self._rounds += 1
        if self._rounds > MOST_STEPS:
            raise _TooMuchError(
                f"the loops and calls of the template are more than {MOST_STEPS}: does a loop end?"
            )

    def _range(self, *bounds: int) -> range:
        numbers = range(*bounds)
        self._steps += len(numbers[: MOST_STEPS + 1])
        if self._steps > MOST_STEPS:
            raise _TooMuchError(
                f"the ranges of the template have more than {MOST_STEPS} numbers: does a loop end?"
            )
        return numbers


class _Bounding(NodeTransformer):
    """Has every round of a loop counted, and every `~` measured: Jinja asks nobody about these."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802
        self.generic_visit(node)
        node.iter = _filtered(node.iter, _COUNTED)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes, lineno=node.lineno), _JOINED)


def _filtered(value: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(value, name, [], [], None, None, lineno=value.lineno)


def _joined(values: Sequence[Any]) -> str:
    texts = [str(value) for value in values]
    if sum(map(len, texts)) > MOST_CHARACTERS:
        raise _TooMuchError("what comes out of the ~ here is too large")
    return "".join(texts)


class _Texts(jinja2.BaseLoader):
    """Has nothing but what it was given."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, None]:  # noqa: ARG002
        if template not in self._texts:
            raise jinja2.TemplateNotFound(template)
        return self._texts[template], template, None


def _is_too_large(operator: str, left: Any, right: Any) -> bool:
    if operator == "**":
        return isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > _MOST_BITS
    if operator == "+":
        return (
            isinstance(left, Sized) and isinstance(right, Sized) and len(left) + len(right) > MOST_CHARACTERS
        )
    if isinstance(left, int) and isinstance(right, int):
        return left.bit_length() + right.bit_length() > _MOST_BITS
    repeated, times = (left, right) if isinstance(left, Sized) else (right, left)
    return isinstance(repeated, Sized) and isinstance(times, int) and len(repeated) * times > MOST_CHARACTERS


def _grows_too_large(called: Any, args: tuple[Any, ...]) -> bool:
    """A text that is padded, or a list that takes another one in."""
    owner = getattr(called, "__self__", None)
    if isinstance(owner, str):
        return any(isinstance(each, int) and each > MOST_CHARACTERS for each in args)
    if isinstance(owner, list):
        return len(owner) + sum(len(each) for each in args if isinstance(each, Sized)) > MOST_CHARACTERS
    return False


def _printable(value: Any) -> Any:
    """A method is a name that was taken for an entry, such as `items`: what it prints is of no use."""
    if callable(value) and not isinstance(value, jinja2.Undefined):
        raise _NoValueError(
            f"this is a function, not a value. An entry of this name is had by [{getattr(value, '__name__', '...')!r}]"
        )
    return value


def _yaml(value: Any) -> str:
    if isinstance(value, jinja2.Undefined):
        return str(value)  # raises
    return flow_yaml.line(value)


def _meant(name: str, known: tuple[str, ...]) -> str:
    if not known:
        return "Nothing is known here."
    nearest = diagnostics.nearest(name, known)
    if nearest is not None:
        return f"Did you mean {diagnostics.quoted(nearest)}?"
    return f"Known names: {diagnostics.truncate(', '.join(sorted(known)))}."


def _undefined(variables: tuple[str, ...]) -> type[jinja2.Undefined]:
    """What stands for a name that nobody knows: an error as soon as anything is done with it."""

    class Unknown(jinja2.StrictUndefined):
        def __index__(self) -> int:
            """As of `range(nothing)`."""
            self._fail_with_undefined_error()

        @property
        def _undefined_message(self) -> str:
            name = str(self._undefined_name)
            if self._undefined_hint:
                return self._undefined_hint
            if self._undefined_obj is missing:
                return f"the variable {diagnostics.quoted(name)} is not defined. {_meant(name, variables)}"
            if isinstance(self._undefined_obj, Mapping):
                keys = tuple(key for key in self._undefined_obj if isinstance(key, str))
                return (
                    f"there is no {diagnostics.quoted(name)} in what stands before it. {_meant(name, keys)}"
                )
            return super()._undefined_message

    return Unknown
