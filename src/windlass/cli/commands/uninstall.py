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
    help="Where the controller runs.",
)
@click.option(
    "--crds", is_flag=True, help="Also the definitions, and with them ALL Frameworks of the cluster."
)
@click.option("--force", is_flag=True, help="With --crds: even if some Frameworks have not completed.")
@click.option(
    "--restore-reference-crd",
    is_flag=True,
    help=f"Put FrameworkController's definition of {names.CONTROLLER_GROUP} back. Its Frameworks stay.",
)
@click.option("--kubeconfig", default="", metavar="FILE", help="Without it: as kubectl finds it.")
@click.option("--context", default="", metavar="NAME", help="Of the kubeconfig. Without it: the current one.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def uninstall(
    namespace: str,
    crds: bool,
    force: bool,
    restore_reference_crd: bool,
    kubeconfig: str,
    context: str,
    yes: bool,
) -> None:
    """Take away what `windlass install` has made: the controller, its roles, its namespace if nobody else lives there.

    Frameworks and their definitions stay unless --crds is given; nobody runs them then.
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
