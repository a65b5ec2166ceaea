"""Render untrusted Jinja templates. Errors contain the file and the line of the template.

A template can only produce text: it has no access to Python, or to files except the given texts. Import this module
only when there is a template, because Jinja is slow to import.
"""

import copy
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    Sized,
    ValuesView,
)
from functools import wraps
from types import TracebackType
from typing import Any

import jinja2
from jinja2 import filters, nodes, sandbox
from jinja2.runtime import Context
from jinja2.visitor import NodeTransformer

from windlass.render.templates import flow_yaml, python2, sizes, undefined
from windlass.wire import diagnostics
from windlass.wire.yaml.text import MAX_BYTES

MAX_CHARACTERS = MAX_BYTES
"""Maximum size of the output. A larger file could not be read."""
MAX_STEPS = 1_000_000
"""Maximum total length of all ranges of a template. Also the maximum number of its loop iterations and calls."""
_MAX_BITS = 4096
"""Maximum size of a product or power of integers."""
_COUNTED, _JOINED = "windlass counted", "windlass joined"
"""Internal filters. Their names are not valid in templates."""
_GROWING_FILTERS = ("batch", "center", "indent", "replace", "slice")
_GROWING_METHODS = ("center", "expandtabs", "ljust", "replace", "rjust", "translate", "zfill")
"""Filters and methods of strings whose results can be much larger than their arguments."""
_MAX_WRAPPED = 100_000
"""Maximum length of a text for the filter wordwrap, which takes quadratic time."""


class TemplateError(ValueError):
    """A template cannot be rendered: `FILE:LINE: problem`."""

    def __init__(self, file: str, line: int, problem: str) -> None:
        super().__init__(f"{file}:{line}: {problem}")
        self.file = file
        self.line = line
        self.problem = problem


class _LimitExceededError(Exception):
    """A template exceeds a limit."""


class _NoValueError(Exception):
    """An expression has no printable value."""


def render(
    text: str,
    file: str,
    variables: Mapping[str, Any],
    texts: Mapping[str, str] | None = None,
    *,
    trim_blocks: bool = False,
) -> str:
    """Render a template. Raises TemplateError.

    `texts` are the templates it may include, import or extend, by name. `trim_blocks`: whether to remove the white
    space before a block tag in its line, and the line break after it.
    """
    texts = {**(texts or {}), file: text}
    environment = _Environment(texts, tuple(variables), trim_blocks=trim_blocks)
    try:
        template = environment.get_template(file)
        return "".join(_bounded(template.generate(copy.deepcopy(dict(variables)))))
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(error.filename or file, error.lineno, _error_text(error)) from error
    except Exception as error:  # an expression of a template may raise any exception
        file_and_line = _innermost_line(error.__traceback__, texts) or (file, 1)
        raise TemplateError(*file_and_line, _error_text(error)) from error


def _bounded(pieces: Iterator[str]) -> Iterator[str]:
    length = 0
    for piece in pieces:
        length += len(piece)
        if length > MAX_CHARACTERS:
            message = f"the output of the template exceeds {MAX_CHARACTERS} characters. Check its loops"
            raise _LimitExceededError(message)
        yield piece


def _innermost_line(traceback: TracebackType | None, texts: Mapping[str, str]) -> tuple[str, int] | None:
    """Return the file and line of the innermost template frame. Jinja adds template frames to the traceback."""
    found = None
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if name in texts:
            found = name, traceback.tb_lineno
        traceback = traceback.tb_next
    return found


def _error_text(error: Exception) -> str:
    match error:
        case jinja2.TemplateNotFound():
            return f"cannot find the template {diagnostics.quoted(str(error.name))}"
        case jinja2.TemplateSyntaxError():
            return f"invalid Jinja syntax: {error.message}"
        case (
            jinja2.TemplateError()
            | _LimitExceededError()
            | _NoValueError()
            | flow_yaml.NotYamlError()
            | OverflowError()
        ):
            return str(error)
        case RecursionError():
            return "the template calls or includes itself endlessly"
        case MemoryError():
            return "out of memory. Check the loops of the template"
        case _:
            return f"{type(error).__name__}: {error}"


class _Environment(sandbox.SandboxedEnvironment):
    """A sandbox for one rendering, which counts its steps."""

    intercepted_binops = frozenset(("*", "**", "+", "%"))

    def __init__(self, texts: Mapping[str, str], variables: tuple[str, ...], *, trim_blocks: bool) -> None:
        super().__init__(
            trim_blocks=trim_blocks,
            lstrip_blocks=trim_blocks,
            loader=_TextLoader(texts),
            undefined=undefined.class_for(variables),
            keep_trailing_newline=True,
            autoescape=False,
            finalize=_printable,
            extensions=("jinja2.ext.do", "jinja2.ext.loopcontrols"),
        )
        self.filters |= {"yaml": _yaml, _COUNTED: self._counted, _JOINED: _joined}
        self.filters |= {"format": _format, "join": _join, "sum": _sum, "wordwrap": _wordwrap}
        self.filters |= {name: _limited(name, self.filters[name]) for name in _GROWING_FILTERS}
        self.globals["range"] = self.globals["xrange"] = self._range
        self.globals.pop("lipsum", None)
        self._range_length = 0
        self._steps = 0

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template: nodes.Template = _LimitingTransformer().visit(super()._parse(source, name, filename))
        template.set_environment(self)
        return template

    def getattr(self, obj: Any, attribute: str) -> Any:
        method = python2.method(obj, attribute)
        return super().getattr(obj, attribute) if method is None else method

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Limit the size of results: a short expression can exhaust the memory."""
        if _is_too_large(operator, left, right):
            raise _LimitExceededError(f"the result of {operator} is too large")
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, called: Any, /, *args: Any, **kwargs: Any) -> Any:
        self._count()
        if getattr(called, "__name__", "") == "join" and args:
            args = (list(args[0]), *args[1:])  # an iterator can be read only once
        if _grows_too_large(called, args, kwargs):
            raise _LimitExceededError("the result of the call is too large")
        result = super().call(context, called, *args, **kwargs)
        if isinstance(result, KeysView | ValuesView | ItemsView):
            # Templates index, add and print the keys of a mapping, as in Python 2.
            self._count(len(result))
            return list(result)
        if isinstance(result, str):
            _require_small("the call", len(result))
        return result

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Limit the size of the result of `format` and `format_map`."""
        format_text = super().wrap_str_format(value)
        if format_text is None:
            return None

        def limited(*args: Any, **kwargs: Any) -> str:
            _require_small("format", sizes.brace_formatted(value.__self__, (*args, *kwargs.values())))
            return format_text(*args, **kwargs)

        return limited

    def _counted(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            self._count()
            yield value

    def _count(self, steps: int = 1) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            message = f"the template has more than {MAX_STEPS} loop iterations and calls. Check its loops"
            raise _LimitExceededError(message)

    def _range(self, *bounds: int) -> range:
        numbers = range(*bounds)
        self._range_length += len(numbers[: MAX_STEPS + 1])
        if self._range_length > MAX_STEPS:
            message = f"the ranges of the template have more than {MAX_STEPS} numbers. Check its loops"
            raise _LimitExceededError(message)
        return numbers


class _LimitingTransformer(NodeTransformer):
    """Make loops count their iterations, and `~` check the size of its result: Jinja has no hooks for these."""

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
    if sum(map(len, texts)) > MAX_CHARACTERS:
        raise _LimitExceededError("the result of ~ is too large")
    return "".join(texts)


def _require_small(name: str, size: int) -> None:
    if size > MAX_CHARACTERS:
        raise _LimitExceededError(f"the result of {name} is too large")


def _limited(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def limited(*args: Any, **kwargs: Any) -> Any:
        # The first argument may be a context of Jinja, whose size is 0.
        values = (*args, *kwargs.values())
        _require_small(name, max(sizes.product(each, values[at + 1 :]) for at, each in enumerate(values)))
        return function(*args, **kwargs)

    return limited


def _format(text: Any, *args: Any, **kwargs: Any) -> str:
    _require_small("format", sizes.percent_formatted(str(text), kwargs or args))
    return filters.do_format(text, *args, **kwargs)


@jinja2.pass_environment
def _join(
    environment: jinja2.Environment, values: Iterable[Any], d: str = "", attribute: str | int | None = None
) -> str:
    if attribute is not None:
        values = map(filters.make_attrgetter(environment, attribute), values)
    texts = [str(value) for value in values]
    _require_small("join", sizes.joined(texts, str(d)))
    return str(d).join(texts)


@jinja2.pass_environment
def _sum(
    environment: jinja2.Environment,
    values: Iterable[Any],
    attribute: str | int | None = None,
    start: float = 0,
) -> Any:
    """Add numbers only: adding lists would copy the sum for each of them."""
    if not isinstance(start, int | float):
        raise _NoValueError("sum adds numbers, so its start must be a number")
    return filters.sync_do_sum(environment, values, attribute, start)


@jinja2.pass_environment
def _wordwrap(environment: jinja2.Environment, text: str, *args: Any, **kwargs: Any) -> str:
    if len(text) > _MAX_WRAPPED:
        raise _LimitExceededError(f"wordwrap requires a text of at most {_MAX_WRAPPED} characters")
    _require_small("wordwrap", sizes.product(text, (*args[2:], kwargs.get("wrapstring"))))
    return filters.do_wordwrap(environment, text, *args, **kwargs)


class _TextLoader(jinja2.BaseLoader):
    """Loads only the given texts."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, None]:  # noqa: ARG002
        if template not in self._texts:
            raise jinja2.TemplateNotFound(template)
        return self._texts[template], template, None


def _is_too_large(operator: str, left: Any, right: Any) -> bool:
    if operator == "%":
        return isinstance(left, str) and sizes.percent_formatted(left, right) > MAX_CHARACTERS
    if operator == "**":
        return isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > _MAX_BITS
    if operator == "+":
        return (
            isinstance(left, Sized) and isinstance(right, Sized) and len(left) + len(right) > MAX_CHARACTERS
        )
    if isinstance(left, int) and isinstance(right, int):
        return left.bit_length() + right.bit_length() > _MAX_BITS
    repeated, times = (left, right) if isinstance(left, Sized) else (right, left)
    return isinstance(repeated, Sized) and isinstance(times, int) and len(repeated) * times > MAX_CHARACTERS


def _grows_too_large(called: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a method creates a string, or extends a list, beyond the limit."""
    owner = getattr(called, "__self__", None)
    if isinstance(owner, str):
        name = getattr(called, "__name__", "")
        if name == "join":
            return sizes.joined(args[0], owner) > MAX_CHARACTERS
        values = (*args, *kwargs.values())
        return name in _GROWING_METHODS and sizes.product(owner, values) > MAX_CHARACTERS
    if isinstance(owner, list):
        return len(owner) + sum(len(arg) for arg in args if isinstance(arg, Sized)) > MAX_CHARACTERS
    return False


def _printable(value: Any) -> Any:
    """Reject functions: `{{ mapping.items }}` is the method, not the entry."""
    if callable(value) and not isinstance(value, jinja2.Undefined):
        raise _NoValueError(
            f"this is a function, not a value. Write [{getattr(value, '__name__', '...')!r}] for an entry of this name"
        )
    return value


def _yaml(value: Any) -> str:
    if isinstance(value, jinja2.Undefined):
        return str(value)  # raises
    return flow_yaml.dump(value)
