"""`windlass uninstall`: take away what `windlass install` has made. `windlass.install` does it."""

import asyncio

import click

from windlass.cli.commands.install import namespace_name
from windlass.cli.errors import CommandError
from windlass.install import plan, removing
from windlass.install.refusals import InstallError, NoAnswerError
from windlass.install.removing import Removal
from windlass.model import names
from windlass.runner import exit_codes


@click.command()
@click.option(
    "--namespace",
    "-n",
    metavar="NAME",
    default=plan.DEFAULT_NAMESPACE,
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
    help=f"Restore FrameworkController's definition of {names.CONTROLLER_GROUP}. Its Frameworks are kept.",
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

    Frameworks and their definitions are kept unless --crds is set, but they no longer make progress.
    """
    going = tuple(
        group
        for group in names.GROUPS
        if crds and not (restore_reference_crd and group == names.CONTROLLER_GROUP)
    )
    removal = Removal(namespace, going, restore_reference_crd)
    try:
        asyncio.run(_uninstall(removal, kubeconfig, context, is_forced=force, is_sure=yes))
    except NoAnswerError as failure:
        raise CommandError(str(failure), exit_codes.NO_ANSWER) from failure
    except InstallError as failure:
        raise click.ClickException(str(failure)) from failure


async def _uninstall(
    removal: Removal, kubeconfig: str, context: str, *, is_forced: bool, is_sure: bool
) -> None:
    from windlass.install.connecting import (
        connected,
    )  # brings an HTTP client with it, which --help does not need

    async with connected(kubeconfig, context) as send:
        live = await removing.live_frameworks(send, removal.definitions or names.GROUPS)
        if removal.definitions and live and not is_forced:
            raise InstallError(
                f"{removing.in_words(live)}. Nothing was removed: deleting the definitions would end and delete them. "
                "Wait for them, delete them, leave --crds out, or give --force."
            )
        if not is_sure:
            click.confirm(_question(removal), abort=True)
        is_anything_there = False
        async for line in removing.remove(send, removal, asyncio.sleep):
            click.echo(line)
            is_anything_there = True
    if not is_anything_there:
        click.echo(f"nothing of Windlass was found in {removal.namespace}")
    if live and not removal.definitions:
        click.echo(f"{removing.in_words(live)}. They stay, and run on when a controller is there again.")


def _question(removal: Removal) -> str:
    groups = " and ".join(removal.definitions)
    also = f", the definitions of {groups}, and ALL their Frameworks" if groups else ""
    return f"Remove the controller in {removal.namespace} and its roles{also}?"
