"""Whether other users could have changed or replaced a file."""

import grp
import os
import pwd
import stat

ROOT = 0
_ROOT_GROUP = 0


def trusted() -> set[int]:
    """Return the owners whose files are trusted: this user, root, and the user who called sudo."""
    caller = os.environ.get("SUDO_UID", "")
    return {ROOT, os.geteuid(), *([int(caller)] if os.geteuid() == ROOT and caller.isdecimal() else ())}


def others_can_write(status: os.stat_result) -> bool:
    """Return whether other users can write a file or a folder, themselves or as members of its group."""
    is_shared = bool(status.st_mode & stat.S_IWGRP) and not _is_private_group(status)
    return is_shared or bool(status.st_mode & stat.S_IWOTH)


def others_can_replace_files(folder: os.stat_result) -> bool:
    """Return whether other users can replace files of a folder. In a sticky folder, only owners can."""
    return others_can_write(folder) and not folder.st_mode & stat.S_ISVTX


def _is_private_group(status: os.stat_result) -> bool:
    """Return whether the group is that of root or, as on systems with a group for each user, only of the owner."""
    if status.st_gid == _ROOT_GROUP:
        return True
    try:
        user, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
