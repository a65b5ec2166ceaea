"""Progress of a submission, as values. `str()` gives the line that the command line prints."""

from enum import StrEnum

import msgspec

from windlass.client.companions import resolution


class Change(StrEnum):
    """The change of an object."""

    CREATED = "created"
    UPDATED = "updated"
    REUSED = "reused"


class _OfJob(msgspec.Struct, frozen=True):
    job: str
    """Name of the job. Empty for an object of the file that belongs to no job."""

    @property
    def message(self) -> str:
        """The sentence without the name of the job."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{self.job}: {self.message}" if self.job else self.message


class ObjectApplied(_OfJob, frozen=True):
    object: str
    """Kind and name."""
    change: Change

    @property
    def message(self) -> str:
        return f"{self.change} {self.object}"


class PasswordGenerated(_OfJob, frozen=True):
    """A password that is shown here and nowhere else."""

    password: str
    companion: str = ""
    """Empty for a notebook of a config, which has its own name in `job`."""
    user: str = ""

    @property
    def message(self) -> str:
        of_user = f" of {self.user}" if self.user else ""
        notice = resolution.password_notice(f"generated password{of_user}", self.password)
        return f"{self.companion}: {notice}" if self.companion else notice


class Step(_OfJob, frozen=True):
    """Any other step."""

    text: str

    @property
    def message(self) -> str:
        return self.text


Progress = ObjectApplied | PasswordGenerated | Step
