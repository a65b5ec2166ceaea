"""What a job file leaves open of its companions, and whoever starts them has decided. Values only."""

from collections.abc import Mapping

import msgspec

from windlass.model.companions import Companion

ALL_USERS = ""
"""In place of a user's name: the password of whoever has none of its own."""

ByUser = Mapping[str, str]


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    hashes: Mapping[Companion, ByUser] = {}
    """Of their passwords, as `password_files.hashed` makes them: by user, which is `ALL_USERS` for Jupyter. There are
    none where a Secret of the user's own has them."""
    shown: Mapping[Companion, ByUser] = {}
    """Passwords that were made up, to be shown once."""
    tensorboard_service: str = ""
    """The name of its Service, where the one that the job file asks for is another job's."""
    is_one_machine: bool = False
    """Pods run on this machine: the users of a hub get processes, not pods."""
    is_plain: bool = False
    """The job becomes plain objects, whose tasks are called otherwise than those of a Framework."""
    prefix: str | None = None
    """With what the names of these tasks begin, if not with that of the job."""
