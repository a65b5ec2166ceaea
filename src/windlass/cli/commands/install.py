"""The command `windlass install`."""

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import click

from windlass.cli import cluster_options, parameters
from windlass.cli.errors import CommandError
from windlass.install import apply, manifests, uninstall
from windlass.install.errors import InstallError, NoAnswerError
from windlass.install.options import DEFAULT_IMAGE, DEFAULT_NAMESPACE, InstallOptions
from windlass.model.base import Json
from windlass.model.settings import Settings
from windlass.runner import exit_codes
from windlass.wire.diagnostics import InvalidFileError
from windlass.wire.settings import file as settings_file

namespace_option = click.option(
    "--namespace",
    "-n",
    metavar="NAME",
    default=DEFAULT_NAMESPACE,
    show_default=True,
    callback=parameters.namespace,
    help="Namespace of the controller.",
)


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run the coroutine. Raises CommandError instead of InstallError."""
    try:
        asyncio.run(work)
    except InstallError as error:
        code = exit_codes.TIMED_OUT if isinstance(error, NoAnswerError) else exit_codes.FAILED
        raise CommandError(str(error), code) from error


@click.command()
@namespace_option
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
    callback=parameters.namespace,
    help="Namespace to which the controller and its permissions are limited (default: all). Repeatable.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration file of the controller, in the format of FrameworkController.",
)
@click.option("--manage-crds", is_flag=True, help="Let the controller update the CustomResourceDefinitions.")
@click.option("--history", is_flag=True, help="Keep a record of each finished attempt (AttemptRecord).")
@click.option(
    "--read-logs",
    is_flag=True,
    help="With --history: let the controller add the last lines of failed containers to records, in namespaces with "
    "the annotation windlass.dev/read-logs=true. Grants permission to read logs.",
)
@click.option("--pod-monitor", is_flag=True, help="Add a PodMonitor for the Prometheus operator.")
@click.option(
    "--service-monitor", is_flag=True, help="Add a Service and a ServiceMonitor for the Prometheus operator."
)
@click.option(
    "--network-policy",
    is_flag=True,
    help="Add NetworkPolicies that allow connections only to the metrics and the dashboard.",
)
@click.option(
    "--priority-class",
    default="",
    metavar="NAME",
    help="PriorityClass of the controller's pods, e.g. system-cluster-critical.",
)
@click.option("--ui", "has_ui", is_flag=True, help="Deploy the dashboard. It has no permissions of its own.")
@click.option(
    "--token-header",
    default="",
    metavar="NAME",
    help="With --ui: header in which a proxy forwards each viewer's token, e.g. Authorization (default: viewers log in "
    "with tokens).",
)
@click.option(
    "--ui-host",
    "ui_hosts",
    metavar="HOST[:PORT]",
    multiple=True,
    help="With --ui: host name at which browsers reach the dashboard (default: any). Repeatable.",
)
@click.option("--crds-only", is_flag=True, help="Print or apply only the CustomResourceDefinitions.")
@click.option("--apply", "applies", is_flag=True, help="Apply the manifests instead of printing them.")
@cluster_options.kubeconfig_option
@cluster_options.context_option
@cluster_options.local_option
def install(
    namespace: str,
    image: str,
    replicas: int,
    watched: tuple[str, ...],
    config_file: Path | None,
    manage_crds: bool,
    history: bool,
    read_logs: bool,
    pod_monitor: bool,
    service_monitor: bool,
    network_policy: bool,
    priority_class: str,
    has_ui: bool,
    token_header: str,
    ui_hosts: tuple[str, ...],
    crds_only: bool,
    applies: bool,
    kubeconfig: str,
    context: str,
    is_local: bool,
) -> None:
    """Print the manifests of the controller: CustomResourceDefinitions, roles and a Deployment. --apply applies them.

    --apply also updates an existing installation. It does not change Frameworks.

    \b
        windlass install | less
        windlass install --image registry.example/windlass --apply
        windlass install --ui --apply            # with the dashboard
    """
    if (token_header or ui_hosts) and not has_ui:
        raise click.UsageError(f"{'--token-header' if token_header else '--ui-host'} requires --ui")
    data = config_file.read_bytes() if config_file else b""
    options = InstallOptions(
        namespace=namespace,
        image=image,
        replicas=replicas,
        settings=_settings(
            data, str(config_file), watched, manage_crds=manage_crds, history=history, read_logs=read_logs
        ),
        configuration=data.decode(),
        has_pod_monitor=pod_monitor,
        has_service_monitor=service_monitor,
        has_network_policy=network_policy,
        priority_class=priority_class,
        has_ui=has_ui,
        ui_token_header=token_header,
        ui_hosts=ui_hosts,
    )
    if replicas > 1 and not options.settings.leader_election:
        raise click.ClickException("the configuration disables leaderElection: use --replicas 1")
    objects = manifests.definitions(options) if crds_only else manifests.all_of(options)
    if applies:
        kubeconfig = cluster_options.selected_kubeconfig(kubeconfig, context, is_local=is_local)
        run(_apply(objects, "" if crds_only else namespace, kubeconfig, context))
    else:
        click.echo(manifests.dump(objects), nl=False)


def _settings(
    data: bytes, file: str, watched: Sequence[str], *, manage_crds: bool, history: bool, read_logs: bool
) -> Settings:
    """Return the settings of the controller. Raises ClickException if they are invalid."""
    flags = {
        "namespaces": tuple(dict.fromkeys(watched)),
        "manage_crds": manage_crds or None,
        "history_enabled": history or None,
        "history_read_logs": read_logs or None,
    }
    try:
        settings = settings_file.load((data, file), {}, flags).settings
    except InvalidFileError as error:
        raise click.ClickException(f"the configuration is invalid:\n{error}") from error
    if read_logs and not settings.history.enabled:
        raise click.UsageError("--read-logs requires --history")
    return settings


async def _apply(objects: Sequence[Json], namespace: str, kubeconfig: str, context: str) -> None:
    """Apply the objects. Then, unless `namespace` is "", delete obsolete objects of an earlier installation there."""
    # Imported here: the import is slow and not needed for printing.
    from windlass.install.connection import connect

    async with connect(kubeconfig, context, cluster_options.announcer()) as send:
        async for applied in apply.apply_all(send, objects, asyncio.sleep):
            click.echo(str(applied))
        if namespace:
            async for line in uninstall.remove_obsolete(send, namespace, objects):
                click.echo(line)
