"""`windlass controller`: gather the settings, find the cluster, run the operator until a signal ends it."""

import asyncio
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click

from windlass.model.settings import Settings
from windlass.wire.diagnostics import Diagnostic, InvalidFileError
from windlass.wire.settings import environment
from windlass.wire.settings import file as settings_file
from windlass.wire.settings.environment import Setting

FAULTY, NO_ACCESS, FAILED = 2, 3, 1

F = TypeVar("F", bound=Callable[..., Any])

SHORT_FORMS = {
    "kube_config_file_path": ("--kubeconfig",),
    "kube_context": ("--context",),
    "namespaces": ("--namespace", "-n"),
}
HELP = {
    "kube_config_file_path": "The kubeconfig; without one, the pod's service account or ~/.kube/config.",
    "kube_context": "The context of the kubeconfig.",
    "kube_api_server_address": "The API server, in place of the one in the kubeconfig.",
    "kube_client_qps": "Requests per second; 0: no limit but the server's own.",
    "namespaces": "A namespace whose Frameworks are run; may be given several times. Without it: all.",
    "manage_crds": "Create the CustomResourceDefinitions, and bring them up to date.",
    "leader_election": "Of several controllers, only the one that holds the lease works.",
    "lease_namespace": "Where the lease is.",
    "lease_name": "The name of the lease.",
    "lease_duration_sec": "How long a lease that is not renewed is respected.",
    "lease_renew_deadline_sec": "How long the leader tries to renew it before it stops working.",
    "lease_retry_period_sec": "How often the lease is renewed, or tried for.",
    "request_timeout_sec": "How long a request may take.",
    "worker_number": "How many Frameworks are worked on at once.",
    "barrier_image": "The image of the barrier, in pods of Frameworks that ask for one.",
    "metrics_address": "Where /metrics, /healthz and /readyz are served: host:port, or off.",
    "log_format": "json or text.",
    "log_level": "debug, info, warning or error.",
    "events": "Write Kubernetes events about Frameworks.",
}
"""What `--help` shows. All other settings are flags too, and explained where the settings are."""


def with_settings(command: F) -> F:
    """A flag for each setting. Values are checked with those of the other sources, all at once."""
    for setting in reversed(environment.SETTINGS):
        names = (*SHORT_FORMS.get(setting.attribute, ()), setting.flags, setting.attribute)
        command = click.option(*names, **_how(setting))(command)
    return command


def _how(setting: Setting) -> dict[str, Any]:
    text = HELP.get(setting.attribute)
    return {
        "help": text,
        "hidden": text is None,
        "default": None,
        "multiple": setting.is_list,
        "type": bool if setting.is_boolean else str,
    }


@click.command(
    epilog="Every setting of docs/configuration.md is a flag, a WINDLASS_… variable and a key of the file."
)
@click.option("--config", "config", metavar="FILE", help="The configuration file, in the reference's format.")
@with_settings
def controller(config: str | None, **flags: Any) -> None:
    """Run Frameworks: watch them and their pods, decide, store, act.

    In a cluster or from a laptop: whatever the kubeconfig reaches.
    """
    settings, warnings = _gathered(config, flags)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        code = runner.run(_run(settings, warnings))
    sys.exit(code)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """That of uvloop where it is installed, which spends less on connections; None for Python's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _gathered(config: str | None, flags: dict[str, Any]) -> settings_file.Gathered:
    path = config or os.environ.get(environment.CONFIGURATION_FILE, "")
    try:
        file = (Path(path).read_bytes(), path) if path else None
        return settings_file.gather(file, os.environ, flags)
    except OSError as error:
        click.echo(f"{path}: cannot be read: {error.strerror or error}", err=True)
    except InvalidFileError as error:
        for fault in error.diagnostics:
            click.echo(str(fault), err=True)
    sys.exit(FAULTY)


async def _run(settings: Settings, warnings: tuple[Diagnostic, ...]) -> int:
    """What is heavy is imported here: `windlass --help` must not pay for it."""
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
        found = await access.load(
            settings.kube_config_file_path, settings.kube_context, settings.kube_api_server_address
        )
    except AccessError as error:
        click.echo(str(error), err=True)
        return NO_ACCESS
    identity = election.identity(socket.gethostname(), secrets.token_hex(8))
    operator = Operator(settings, found, SystemClock(), identity=identity, stream=sys.stderr)
    try:
        await _until_signalled(operator.run)
    except (ApiError, ListenError, NotEstablishedError) as error:
        click.echo(str(error), err=True)
        return FAILED
    except Exception:
        logs.logger.exception("the controller cannot go on")
        return FAILED
    return 0


async def _until_signalled(run: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await run(stop)
