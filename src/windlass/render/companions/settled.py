"""What a job file leaves open of its companions, and whoever starts them has decided. Values only."""

from collections.abc import Mapping

import msgspec

ALL_USERS = ""
"""In place of a user's name: the password of whoever has none of its own."""


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    jupyter_hash: str = ""
    """Of its password, as Jupyter writes it. Empty where a Secret of the user's own has it."""
    hub_hashes: Mapping[str, str] = {}
    """Of each user's password, by the user's name or `ALL_USERS`, as `passwords.for_hub` makes them."""
    shown: Mapping[str, Mapping[str, str]] = {}
    """Passwords that were made up, to be shown once: by companion, then by user (`ALL_USERS` where there are none)."""
    tensorboard_service: str = ""
    """The name of its Service, where the one that the job file asks for is another job's."""
    is_one_machine: bool = False
    """Pods run on this machine: the users of a hub get processes, not pods."""
    is_plain: bool = False
    """The job becomes plain objects, whose tasks are called otherwise than those of a Framework."""
    prefix: str | None = None
    """With what the names of these tasks begin, if not with that of the job."""
