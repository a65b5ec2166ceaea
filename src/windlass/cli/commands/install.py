"""`windlass install`: print what a cluster needs to run the controller, or put it there. `windlass.install` does it."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import click

from windlass.cli.errors import CommandError
from windlass.install import applying, manifests, plan, removing
from windlass.install.plan import Plan
from windlass.install.refusals import InstallError, NoAnswerError
from windlass.model import names
from windlass.model.base import Json
from windlass.model.settings import Settings
from windlass.runner import exit_codes
from windlass.wire.diagnostics import InvalidFileError
from windlass.wire.settings import file as settings_file


def namespace_name(
    _: click.Context, parameter: click.Parameter, value: str | tuple[str, ...]
) -> str | tuple[str, ...]:
    """For click: one name, or several."""
    for name in (value,) if isinstance(value, str) else value:
        if not re.fullmatch(names.DNS_LABEL_PATTERN, name):
            raise click.BadParameter(
                f'found "{name}", expected lower-case letters, digits and hyphens, at most 63',
                param=parameter,
            )
    return value


@click.command()
@click.option(
    "--namespace",
    "-n",
    metavar="NAME",
    default=plan.DEFAULT_NAMESPACE,
    show_default=True,
    callback=namespace_name,
    help="Where the controller runs.",
)
@click.option(
    "--image", default=plan.DEFAULT_IMAGE, show_default=True, metavar="IMAGE", help="Of the controller."
)
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    metavar="N",
    default=2,
    show_default=True,
    help="One acts, the others wait for their turn.",
)
@click.option(
    "--watch-namespace",
    "watched",
    metavar="NAMESPACE",
    multiple=True,
    callback=namespace_name,
    help="Run the Frameworks of this namespace only, with rights in it only. May be repeated. [default: all]",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The controller's configuration, in FrameworkController's format.",
)
@click.option(
    "--manage-crds", is_flag=True, help="Let the controller keep the definitions up to date itself."
)
@click.option("--pod-monitor", is_flag=True, help="Have the Prometheus operator collect the metrics.")
@click.option(
    "--priority-class",
    default="",
    metavar="NAME",
    help="Of the controller's pods, such as system-cluster-critical.",
)
@click.option("--crds-only", is_flag=True, help="Only the definitions of Frameworks.")
@click.option("--apply", "is_applied", is_flag=True, help="Do it, instead of printing it.")
@click.option("--kubeconfig", default="", metavar="FILE", help="Without it: as kubectl finds it.")
@click.option("--context", default="", metavar="NAME", help="Of the kubeconfig. Without it: the current one.")
def install(
    namespace: str,
    image: str,
    replicas: int,
    watched: tuple[str, ...],
    config_file: Path | None,
    manage_crds: bool,
    pod_monitor: bool,
    priority_class: str,
    crds_only: bool,
    is_applied: bool,
    kubeconfig: str,
    context: str,
) -> None:
    """Print what a cluster needs to run Windlass: definitions, roles, a Deployment. With --apply, put it there.

    What is there already is brought up to date; the Frameworks of the cluster stay.

    \b
        windlass install | less
        windlass install --image registry.example/windlass --apply
    """
    data = config_file.read_bytes() if config_file else b""
    wanted = Plan(
        namespace=namespace,
        image=image,
        replicas=replicas,
        settings=_settings(data, str(config_file), watched, manage_crds=manage_crds),
        configuration=data.decode(),
        has_pod_monitor=pod_monitor,
        priority_class=priority_class,
    )
    if replicas > 1 and not wanted.settings.leader_election:
        raise click.ClickException("the configuration turns leaderElection off: that takes --replicas 1")
    made = manifests.definitions() if crds_only else manifests.all_of(wanted)
    if not is_applied:
        click.echo(manifests.printed(made), nl=False)
        return
    try:
        asyncio.run(_apply(made, "" if crds_only else namespace, kubeconfig, context))
    except NoAnswerError as failure:
        raise CommandError(str(failure), exit_codes.NO_ANSWER) from failure
    except InstallError as failure:
        raise click.ClickException(str(failure)) from failure


def _settings(data: bytes, file: str, watched: Sequence[str], *, manage_crds: bool) -> Settings:
    """Those of the controller, if all is right: a fault would keep every replica from starting."""
    flags = {"namespaces": tuple(dict.fromkeys(watched)), "manage_crds": manage_crds or None}
    try:
        return settings_file.gather((data, file), {}, flags).settings
    except InvalidFileError as faulty:
        raise click.ClickException(f"the configuration cannot be used:\n{faulty}") from faulty


async def _apply(made: Sequence[Json], namespace: str, kubeconfig: str, context: str) -> None:
    from windlass.install.connecting import (
        connected,
    )  # brings an HTTP client with it, which printing does not need

    async with connected(kubeconfig, context) as send:
        async for applied in applying.apply_all(send, made, asyncio.sleep):
            click.echo(str(applied))
        if namespace:
            async for line in removing.remove_unwanted(send, namespace, made):
                click.echo(line)
