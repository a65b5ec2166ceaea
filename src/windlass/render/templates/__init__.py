"""Templates of Kubernetes objects that people edit and render: those to begin with, and what is looked for in one."""

import pkgutil
from enum import StrEnum

import msgspec


class Mode(StrEnum):
    SINGLE = "single"
    """One task."""
    CLUSTER = "cluster"
    """Parameter servers and workers."""

    @property
    def file(self) -> str:
        """By the name that people know."""
        return f"tf_{self}_template.yaml.jinja"


def starting(mode: Mode) -> bytes:
    """The template to begin with."""
    data = pkgutil.get_data(__name__, mode.file)
    assert data is not None  # noqa: S101 — it is installed with this file
    return data


class Wishes(msgspec.Struct, frozen=True):
    """What a template wants to be given."""

    variables: frozenset[str]
    """Names that it uses and does not set itself, always."""
    templates: tuple[str, ...]
    """Those that it includes, imports and extends, as far as their names are written down in it."""


def wishes_of(source: str) -> Wishes | None:
    """Nothing of a template that is no Jinja: whoever renders it is told why."""
    import jinja2
    from jinja2 import meta, sandbox

    # One that works out nothing by itself, such as 10 ** 10 ** 10.
    environment = sandbox.SandboxedEnvironment(extensions=("jinja2.ext.do", "jinja2.ext.loopcontrols"))
    environment.intercepted_binops = frozenset(environment.binop_table)
    environment.filters["yaml"] = str
    try:
        parsed = environment.parse(source)
        named = (name for name in meta.find_referenced_templates(parsed) if name is not None)
        return Wishes(frozenset(meta.find_undeclared_variables(parsed)), tuple(dict.fromkeys(named)))
    except (jinja2.TemplateSyntaxError, RecursionError, MemoryError):
        return None
