"""Progress of a submission, as values. `str()` gives the line that the command line prints."""

import msgspec

from windlass.client.companions import resolution


class Progress(msgspec.Struct, frozen=True):
    job: str
    """Name of the job. Empty for an object of the file that belongs to no job."""
    message: str

    def __str__(self) -> str:
        return f"{self.job}: {self.message}" if self.job else self.message


class PasswordGenerated(Progress, frozen=True):
    """A generated password, which is shown only in this message."""

    companion: str = ""
    """Name of the companion. Empty for a notebook of a config: `job` is then the name of the notebook."""


def password_generated(job: str, password: str, companion: str = "", user: str = "") -> PasswordGenerated:
    of_user = f" of {user}" if user else ""
    notice = resolution.password_notice(f"generated password{of_user}", password)
    return PasswordGenerated(job, f"{companion}: {notice}" if companion else notice, companion)
