"""The command `windlass install`."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import click

from windlass.cli.errors import CommandError
from windlass.install import apply, manifests, uninstall
from windlass.install.errors import InstallError, NoAnswerError
from windlass.install.options import DEFAULT_IMAGE, DEFAULT_NAMESPACE, InstallOptions
from windlass.model import names
from windlass.model.base import Json
from windlass.model.settings import Settings
from windlass.runner import exit_codes
from windlass.wire.diagnostics import InvalidFileError
from windlass.wire.settings import file as settings_file


def namespace_name(
    _: click.Context, parameter: click.Parameter, value: str | tuple[str, ...]
) -> str | tuple[str, ...]:
    """Validate one namespace or several."""
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
    default=DEFAULT_NAMESPACE,
    show_default=True,
    callback=namespace_name,
    help="Namespace of the controller.",
)
@click.option(
    "--image", default=DEFAULT_IMAGE, show_default=True, metavar="IMAGE", help="Image of the controller."
)
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    metavar="N",
    default=2,
    show_default=True,
    help="Number of replicas. One is the leader, the others are on standby.",
)
@click.option(
    "--watch-namespace",
    "watched",
    metavar="NAMESPACE",
    multiple=True,
    callback=namespace_name,
    help="Namespace to which the controller and its permissions are limited (default: all). Repeatable.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration file of the controller, in the format of FrameworkController.",
)
@click.option("--manage-crds", is_flag=True, help="Let the controller update the CustomResourceDefinitions.")
@click.option("--pod-monitor", is_flag=True, help="Add a PodMonitor for the Prometheus operator.")
@click.option(
    "--priority-class",
    default="",
    metavar="NAME",
    help="PriorityClass of the controller's pods, e.g. system-cluster-critical.",
)
@click.option("--crds-only", is_flag=True, help="Print or apply only the CustomResourceDefinitions.")
@click.option("--apply", "is_applied", is_flag=True, help="Apply the manifests instead of printing them.")
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="Path of the kubeconfig (default: the one that kubectl uses).",
)
@click.option(
    "--context", default="", metavar="NAME", help="Context of the kubeconfig (default: the current context)."
)
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
    """Print the manifests of the controller: CustomResourceDefinitions, roles and a Deployment. --apply applies them.

    Applying updates an existing installation. It does not change Frameworks.

    \b
        windlass install | less
        windlass install --image registry.example/windlass --apply
    """
    data = config_file.read_bytes() if config_file else b""
    wanted = InstallOptions(
        namespace=namespace,
        image=image,
        replicas=replicas,
        settings=_settings(data, str(config_file), watched, manage_crds=manage_crds),
        configuration=data.decode(),
        has_pod_monitor=pod_monitor,
        priority_class=priority_class,
    )
    if replicas > 1 and not wanted.settings.leader_election:
        raise click.ClickException("the configuration disables leaderElection: use --replicas 1")
    made = manifests.definitions() if crds_only else manifests.all_of(wanted)
    if not is_applied:
        click.echo(manifests.dump(made), nl=False)
        return
    try:
        asyncio.run(_apply(made, "" if crds_only else namespace, kubeconfig, context))
    except NoAnswerError as failure:
        raise CommandError(str(failure), exit_codes.NO_ANSWER) from failure
    except InstallError as failure:
        raise click.ClickException(str(failure)) from failure


def _settings(data: bytes, file: str, watched: Sequence[str], *, manage_crds: bool) -> Settings:
    """Return the settings of the controller. Raises ClickException if they are invalid."""
    flags = {"namespaces": tuple(dict.fromkeys(watched)), "manage_crds": manage_crds or None}
    try:
        return settings_file.load((data, file), {}, flags).settings
    except InvalidFileError as faulty:
        raise click.ClickException(f"the configuration is invalid:\n{faulty}") from faulty


async def _apply(made: Sequence[Json], namespace: str, kubeconfig: str, context: str) -> None:
    from windlass.install.connection import (
        connect,
    )  # slow to import, and not needed for printing

    async with connect(kubeconfig, context) as send:
        async for applied in apply.apply_all(send, made, asyncio.sleep):
            click.echo(str(applied))
        if namespace:
            async for line in uninstall.remove_obsolete(send, namespace, made):
                click.echo(line)
