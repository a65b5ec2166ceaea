"""The command `windlass uninstall`."""

import asyncio

import click

from windlass.cli import cluster_options
from windlass.cli.commands import install
from windlass.install.errors import InstallError
from windlass.install.uninstall import UninstallOptions, describe_live_frameworks, live_frameworks, remove
from windlass.model import names


@click.command()
@install.namespace_option
@click.option(
    "--crds",
    is_flag=True,
    help="Also delete the CustomResourceDefinitions and with them ALL Frameworks and attempt records of the cluster.",
)
@click.option("--force", is_flag=True, help="With --crds, also delete Frameworks that have not completed.")
@click.option(
    "--restore-reference-crd",
    is_flag=True,
    help=f"Restore FrameworkController's CRD of the group {names.CONTROLLER_GROUP}. Its Frameworks are kept.",
)
@cluster_options.kubeconfig_option
@cluster_options.context_option
@cluster_options.local_option
@click.option("--yes", "-y", is_flag=True, help="Do not prompt for confirmation.")
def uninstall(
    namespace: str,
    crds: bool,
    force: bool,
    restore_reference_crd: bool,
    kubeconfig: str,
    context: str,
    is_local: bool,
    yes: bool,
) -> None:
    """Remove the controller and its roles, and its namespace if `windlass install` created it and it contains nothing
    else.

    Frameworks and CustomResourceDefinitions are kept unless --crds is set. Without a controller, nothing manages the
    kept Frameworks.
    """
    deleted_groups = tuple(
        group
        for group in names.GROUPS
        if crds and not (restore_reference_crd and group == names.CONTROLLER_GROUP)
    )
    options = UninstallOptions(namespace, deleted_groups, restore_reference_crd)
    kubeconfig = cluster_options.selected_kubeconfig(kubeconfig, context, is_local=is_local)
    install.run(_uninstall(options, kubeconfig, context, is_forced=force, is_confirmed=yes))


async def _uninstall(
    options: UninstallOptions, kubeconfig: str, context: str, *, is_forced: bool, is_confirmed: bool
) -> None:
    # Imported here: the import is slow and not needed for --help.
    from windlass.install.connection import connect

    async with connect(kubeconfig, context, cluster_options.announcer()) as send:
        live = await live_frameworks(send, options.deleted_groups or names.GROUPS)
        if options.deleted_groups and live and not is_forced:
            raise InstallError(
                f"{describe_live_frameworks(live)}. Nothing was deleted: deleting the definitions would delete these "
                "Frameworks. Wait for them, delete them, omit --crds, or use --force."
            )
        if not is_confirmed:
            groups = " and ".join(options.deleted_groups)
            definitions = f", the definitions of {groups} and ALL their Frameworks" if groups else ""
            question = f"Remove the controller in {options.namespace} and its roles{definitions}?"
            click.confirm(question, abort=True)
        has_printed = False
        async for line in remove(send, options, asyncio.sleep):
            click.echo(line)
            has_printed = True
    if not has_printed:
        click.echo(f"Windlass is not installed in the namespace {options.namespace}: nothing was deleted")
    if live and not options.deleted_groups:
        click.echo(
            f"{describe_live_frameworks(live)}. They are kept and continue when a controller is installed again."
        )
