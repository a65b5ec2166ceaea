"""The command `windlass controller`: read the settings, connect, and run the operator until a signal."""

import asyncio
import os
import secrets
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from windlass.model.settings import Settings
from windlass.runner import interrupts
from windlass.wire.diagnostics import Diagnostic, InvalidFileError
from windlass.wire.settings import environment
from windlass.wire.settings import file as settings_file

FAILED, INVALID, NO_ACCESS = 1, 2, 3

F = TypeVar("F", bound=Callable[..., Any])

SHORT_FORMS = {
    "kube_config_file_path": ("--kubeconfig",),
    "kube_context": ("--context",),
    "namespaces": ("--namespace", "-n"),
}
HELP = {
    "kube_config_file_path": "Kubeconfig (default: $KUBECONFIG, the pod's service account, or ~/.kube/config).",
    "kube_context": "Context of the kubeconfig (default: the current context).",
    "kube_api_server_address": "Address of the API server (default: $KUBE_APISERVER_ADDRESS or the kubeconfig).",
    "kube_client_qps": "Maximum requests per second; 0 for no limit on the client side.",
    "namespaces": "Namespace whose Frameworks to run (default: all). Repeatable.",
    "manage_crds": "Whether to create and update the CustomResourceDefinitions.",
    "leader_election": "Whether only the controller that holds the lease is active.",
    "lease_namespace": "Namespace of the lease.",
    "lease_name": "Name of the lease.",
    "lease_duration_sec": "Seconds until a lease that was not renewed expires.",
    "lease_renew_deadline_sec": "Seconds in which the leader must renew the lease or stop.",
    "lease_retry_period_sec": "Seconds between attempts to acquire or renew the lease.",
    "request_timeout_sec": "Timeout of a request in seconds.",
    "worker_number": "Number of Frameworks processed concurrently.",
    "barrier_image": "Image of the barrier container.",
    "metrics_address": "Address of /metrics, /healthz and /readyz: host:port, or off.",
    "log_format": "Log format: json or text.",
    "log_level": "Log level: debug, info, warning or error.",
    "events": "Whether to write Kubernetes events about Frameworks.",
}
"""Help texts of the settings that `--help` shows. docs/configuration.md documents the other settings; their flags are
hidden."""


def with_settings(command: F) -> F:
    """Add a flag for each setting. Values are validated later, together with those of the other sources."""
    for setting in reversed(environment.SETTINGS):
        command = click.option(
            *SHORT_FORMS.get(setting.attribute, ()),
            setting.flag_declaration,
            setting.attribute,
            help=HELP.get(setting.attribute),
            hidden=setting.attribute not in HELP,
            default=None,
            multiple=setting.is_list,
            type=bool if setting.is_boolean else str,
        )(command)
    return command


@click.command(
    epilog="Every setting in docs/configuration.md is a key of the file and, except podFailureSpec, also a flag and a "
    "WINDLASS_… variable."
)
@click.option(
    "--config", "config", metavar="FILE", help="Configuration file, in the format of FrameworkController."
)
@with_settings
def controller(config: str | None, **flags: Any) -> None:
    """Run the controller: watch Frameworks and their pods, and reconcile them.

    The controller can run in the cluster or on any machine with a kubeconfig.
    """
    settings, warnings = _read_settings(config, flags)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        code = runner.run(_run(settings, warnings))
    sys.exit(code)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the loop factory of uvloop if it is installed, since it is faster; otherwise None, for the default."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _read_settings(config: str | None, flags: dict[str, Any]) -> settings_file.LoadedSettings:
    path = config or os.environ.get(environment.CONFIGURATION_FILE, "")
    try:
        file = (Path(path).read_bytes(), path) if path else None
        return settings_file.load(file, os.environ, flags)
    except OSError as error:
        click.echo(f"cannot read {path}: {error.strerror or error}", err=True)
    except InvalidFileError as error:
        for diagnostic in error.diagnostics:
            click.echo(str(diagnostic), err=True)
    sys.exit(INVALID)


async def _run(settings: Settings, warnings: tuple[Diagnostic, ...]) -> int:
    """Run the operator. Slow imports are here, so that `windlass --help` stays fast."""
    from windlass.controller.definitions import NotEstablishedError
    from windlass.controller.engine.system_clock import SystemClock
    from windlass.controller.leader import election
    from windlass.controller.observe import logs
    from windlass.controller.observe.endpoints import ListenError
    from windlass.controller.operator import Operator
    from windlass.kubeapi import access
    from windlass.kubeapi.errors import AccessError, ApiError

    logs.configure(settings.log_format, settings.log_level.upper(), sys.stderr)
    for warning in warnings:
        logs.logger.warning("%s", warning)
    try:
        cluster_access = await access.load(
            settings.kube_config_file_path, settings.kube_context, settings.kube_api_server_address
        )
    except AccessError as error:
        click.echo(str(error), err=True)
        return NO_ACCESS
    identity = election.identity(socket.gethostname(), secrets.token_hex(8))
    operator = Operator(
        settings, cluster_access, SystemClock(), identity=identity, snapshot_stream=sys.stderr
    )
    try:
        stop = asyncio.Event()
        for signal_number in interrupts.stop_signals():
            asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
        await operator.run(stop)
    except (ApiError, ListenError, NotEstablishedError) as error:
        click.echo(str(error), err=True)
        return FAILED
    except Exception:
        logs.logger.exception("the controller failed")
        return FAILED
    return 0
