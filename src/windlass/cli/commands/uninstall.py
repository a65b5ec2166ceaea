"""The command `windlass uninstall`."""

import asyncio

import click

from windlass.cli.commands.install import namespace_name
from windlass.cli.errors import CommandError
from windlass.install.errors import InstallError, NoAnswerError
from windlass.install.options import DEFAULT_NAMESPACE
from windlass.install.uninstall import UninstallOptions, describe_live_frameworks, live_frameworks, remove
from windlass.model import names
from windlass.runner import exit_codes


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
    "--crds",
    is_flag=True,
    help="Also delete the CustomResourceDefinitions and with them ALL Frameworks of the cluster.",
)
@click.option("--force", is_flag=True, help="With --crds, delete Frameworks that have not completed too.")
@click.option(
    "--restore-reference-crd",
    is_flag=True,
    help=f"Restore FrameworkController's CRD of the group {names.CONTROLLER_GROUP}. Its Frameworks are kept.",
)
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="Path of the kubeconfig (default: the one that kubectl uses).",
)
@click.option(
    "--context", default="", metavar="NAME", help="Context of the kubeconfig (default: the current context)."
)
@click.option("--yes", "-y", is_flag=True, help="Do not prompt for confirmation.")
def uninstall(
    namespace: str,
    crds: bool,
    force: bool,
    restore_reference_crd: bool,
    kubeconfig: str,
    context: str,
    yes: bool,
) -> None:
    """Remove the controller, its roles, and its namespace if that contains nothing else.

    Frameworks and CustomResourceDefinitions are kept, unless --crds is set, but no controller manages the Frameworks.
    """
    deleted_groups = tuple(
        group
        for group in names.GROUPS
        if crds and not (restore_reference_crd and group == names.CONTROLLER_GROUP)
    )
    options = UninstallOptions(namespace, deleted_groups, restore_reference_crd)
    try:
        asyncio.run(_uninstall(options, kubeconfig, context, is_forced=force, is_sure=yes))
    except NoAnswerError as failure:
        raise CommandError(str(failure), exit_codes.NO_ANSWER) from failure
    except InstallError as failure:
        raise click.ClickException(str(failure)) from failure


async def _uninstall(
    options: UninstallOptions, kubeconfig: str, context: str, *, is_forced: bool, is_sure: bool
) -> None:
    from windlass.install.connection import (
        connect,
    )  # slow to import, and not needed for --help

    async with connect(kubeconfig, context) as send:
        live = await live_frameworks(send, options.definitions or names.GROUPS)
        if options.definitions and live and not is_forced:
            raise InstallError(
                f"{describe_live_frameworks(live)}. Nothing was deleted: deleting the definitions would delete them. "
                "Wait for them, delete them, omit --crds, or use --force."
            )
        if not is_sure:
            click.confirm(_question(options), abort=True)
        was_found = False
        async for line in remove(send, options, asyncio.sleep):
            click.echo(line)
            was_found = True
    if not was_found:
        click.echo(f"Windlass is not installed in the namespace {options.namespace}: nothing was deleted")
    if live and not options.definitions:
        click.echo(
            f"{describe_live_frameworks(live)}. They are kept and continue when a controller is installed again."
        )


def _question(options: UninstallOptions) -> str:
    groups = " and ".join(options.definitions)
    also = f", the definitions of {groups} and ALL their Frameworks" if groups else ""
    return f"Remove the controller in {options.namespace} and its roles{also}?"
