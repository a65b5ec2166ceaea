"""Jinja templates of Kubernetes objects: the shipped ones, and the inputs of a template."""

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
        return f"tf_{self}_template.yaml.jinja"


def shipped_template(mode: Mode) -> bytes:
    """Return the template that `windlass init` writes."""
    data = pkgutil.get_data(__name__, mode.file)
    assert data is not None  # noqa: S101 — it is installed with this file
    return data


class TemplateInputs(msgspec.Struct, frozen=True):
    """The variables and templates that a template needs."""

    variables: frozenset[str]
    """Names that it uses and does not always set itself."""
    templates: tuple[str, ...]
    """Templates that it includes, imports or extends by a literal name."""


def inputs_of(source: str) -> TemplateInputs | None:
    """Return the inputs, or None if the template cannot be parsed, which is reported when it is rendered."""
    import jinja2
    from jinja2 import meta, sandbox

    # Intercepted operators are not folded at compile time, e.g. 10 ** 10 ** 10.
    environment = sandbox.SandboxedEnvironment(extensions=("jinja2.ext.do", "jinja2.ext.loopcontrols"))
    environment.intercepted_binops = frozenset(environment.binop_table)
    environment.filters["yaml"] = str
    try:
        parsed = environment.parse(source)
        named = (name for name in meta.find_referenced_templates(parsed) if name is not None)
        return TemplateInputs(frozenset(meta.find_undeclared_variables(parsed)), tuple(dict.fromkeys(named)))
    except (jinja2.TemplateSyntaxError, RecursionError, MemoryError):
        return None
