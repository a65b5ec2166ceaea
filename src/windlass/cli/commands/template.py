"""The command `windlass template`. Nothing is written if the result has errors."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from windlass.cli import job_files
from windlass.cli.errors import CommandError
from windlass.model import names
from windlass.render.templates import Mode, inputs_of
from windlass.runner import exit_codes
from windlass.wire import diagnostics
from windlass.wire.yaml.text import MAX_BYTES

if TYPE_CHECKING:
    from windlass.render.templates.rendering import Rendered

STDOUT = "-"
_ARGUMENTS = {"project_name": "PROJECT", "ps_replicas": "PS", "worker_replicas": "WORKERS"}
"""Arguments of the command by template variable."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_TEMPLATES = 100


def _project(_: click.Context, parameter: click.Parameter, value: str) -> str:
    if not re.fullmatch(names.DNS_LABEL_PATTERN, value):
        expected = "at most 63 lower-case letters, digits and hyphens, with a letter or digit at both ends"
        message = f"found {diagnostics.quoted(value)}, expected {expected}: jobs are called PROJECT-MODEL"
        raise click.BadParameter(message, param=parameter)
    return value


def _assignments(_: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    """Parse KEY=VALUE pairs. The last value of a key is used."""
    assignments = {}
    for each in pairs:
        key, equals, value = each.partition("=")
        if not equals or not _VARIABLE.fullmatch(key):
            expected = "expected KEY=VALUE, with a KEY of letters, digits and underscores"
            raise click.BadParameter(f"found {diagnostics.quoted(each)}, {expected}", param=parameter)
        if key in _ARGUMENTS:
            raise click.BadParameter(f"{key} is set by the argument {_ARGUMENTS[key]}", param=parameter)
        assignments[key] = value
    return assignments


def _json_assignments(
    context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in _assignments(context, parameter, pairs).items():
        try:
            values[key] = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise click.BadParameter(
                f"{key}: found {diagnostics.quoted(value)}, expected JSON. For a text, use --set.",
                param=parameter,
            ) from error
    return values


@click.command()
@click.argument("mode", type=click.Choice([str(mode) for mode in Mode]), metavar="single|cluster")
@click.argument("template", metavar="TEMPLATE")
@click.argument("project", metavar="PROJECT", callback=_project)
@click.argument("ps", metavar="[PS]", type=click.IntRange(min=0), required=False)
@click.argument("workers", metavar="[WORKERS]", type=click.IntRange(min=1), required=False)
@click.option(
    "--set",
    "texts",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_assignments,
    help="Template variable with a text value. Assignments in the template take precedence. Repeatable.",
)
@click.option(
    "--set-json",
    "values",
    multiple=True,
    metavar="KEY=JSON",
    callback=_json_assignments,
    help="Template variable with a JSON value: number, list, mapping, true or false. Repeatable.",
)
@click.option("--out", default=STDOUT, metavar="FILE", help="Output file (default: standard output).")
def template(
    mode: str,
    template: str,
    project: str,
    ps: int | None,
    workers: int | None,
    texts: dict[str, str],
    values: dict[str, Any],
    out: str,
) -> None:
    """Render a Jinja template of Kubernetes objects for kubectl.

    The template variables are project_name, those of --set and --set-json and, in mode cluster, ps_replicas and
    worker_replicas. `windlass init --template single` writes a first template. If TEMPLATE is -, it is read from
    standard input.

    \b
        windlass template single tf_single_template.yaml.jinja web-predict > job.yaml
        windlass template cluster tf_cluster_template.yaml.jinja web-predict 1 2 > job.yaml
        kubectl create -f job.yaml
    """
    if out != STDOUT:
        job_files.check_output_path(template, out)
    variables = {**texts, **values, "project_name": project, **_replicas(Mode(mode), ps, workers)}
    rendered = _rendered(_source(template, mode), template, variables, {*texts, *values})
    for message in (*rendered.warnings, *rendered.errors):
        click.echo(message, err=True)
    if rendered.errors:
        sys.exit(exit_codes.USAGE)
    _write(rendered.text, out)


def _replicas(mode: Mode, ps: int | None, workers: int | None) -> dict[str, int]:
    if mode is Mode.SINGLE:
        if ps is not None:
            raise click.UsageError(
                "PS and WORKERS are not allowed with single, which has one task: use `windlass template cluster`"
            )
        return {}
    if ps is None or workers is None:
        raise click.UsageError(
            "cluster requires PS and WORKERS, the numbers of parameter servers and workers, e.g. 1 2"
        )
    return {"ps_replicas": ps, "worker_replicas": workers}


def _source(file: str, mode: str) -> str:
    try:
        data = job_files.read(file)
    except FileNotFoundError as error:
        raise CommandError(
            f"{file} does not exist. Write a first template with `windlass init --template {mode}`.",
            exit_codes.USAGE,
        ) from error
    except OSError as error:
        raise CommandError(f"{file}: cannot be read: {error.strerror or error}", exit_codes.USAGE) from error
    return _decoded(data, job_files.display_name(file))


def _decoded(data: bytes, file: str) -> str:
    if len(data) > MAX_BYTES:
        raise CommandError(
            f"{file} is too large for a template: the maximum is {MAX_BYTES // 2**20} MiB", exit_codes.USAGE
        )
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CommandError(f"{file}:{line}: a template must be UTF-8", exit_codes.USAGE) from error


def _rendered(source: str, file: str, variables: Mapping[str, Any], set_by_options: set[str]) -> "Rendered":
    from windlass.render.templates import rendering
    from windlass.render.templates.jinja import TemplateError

    inputs = inputs_of(source)
    included = dict(_included_templates(file, inputs.templates)) if inputs is not None else {}
    unused = set_by_options - inputs.variables if inputs is not None and not inputs.templates else set()
    for key in sorted(unused):
        click.echo(f"the variable {key} has no effect: the template assigns it or does not use it", err=True)
    try:
        return rendering.rendered(
            rendering.Template(source, job_files.display_name(file), variables, included)
        )
    except TemplateError as error:
        raise CommandError(f"{error}{_advice(error.problem)}", exit_codes.USAGE) from error


def _advice(problem: str) -> str:
    name = re.match(r'the variable "(\w+)" is not defined', problem)
    if name is None:
        return ""
    if name[1] in ("ps_replicas", "worker_replicas"):
        return " It is set in mode cluster."
    return f' Set it with --set {name[1]}=VALUE, or write {{% set {name[1]} = "VALUE" %}} into the template.'


def _included_templates(file: str, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield names and sources of the templates that `file` includes, directly or indirectly, from its own folder."""
    folder = Path(file).parent if file != job_files.STDIN else Path()
    seen: set[str] = set()
    pending = list(names)
    while pending and len(seen) < _MAX_TEMPLATES:
        name = pending.pop()
        is_in_folder = ".." not in Path(name).parts and (folder / name).resolve().is_relative_to(
            folder.resolve()
        )
        if name in seen or not is_in_folder or not (folder / name).is_file():
            continue
        seen.add(name)
        source = _decoded((folder / name).read_bytes(), str(folder / name))
        inputs = inputs_of(source)
        pending += inputs.templates if inputs is not None else ()
        yield name, source


def _write(text: str, out: str) -> None:
    if out == STDOUT:
        click.echo(text, nl=False)
        return
    from windlass.cli import atomic_files

    atomic_files.write(Path(out), text, may_replace=True)
