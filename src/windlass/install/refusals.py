"""What the API server's refusals mean for a person who installs or uninstalls, and what can be done."""

from windlass.kubeapi import errors


class InstallError(Exception):
    """One message: what could not be done, why, and what to do."""


class NoAnswerError(InstallError):
    """The API server cannot be reached."""


def explained(refusal: errors.ApiError, what: str) -> InstallError:
    kind = NoAnswerError if isinstance(refusal, errors.UnansweredError) else InstallError
    return kind(f"{what}: {_why(refusal)}")


def _why(refusal: errors.ApiError) -> str:
    match refusal:
        case errors.UnauthorizedError():
            return f"the server does not know who you are ({refusal}). Check --kubeconfig and --context."
        case errors.ForbiddenError():
            return (
                f"you may not do this ({refusal}). Roles can be granted by those only who have their rights: let an "
                "administrator of the cluster run it. `windlass install` without --apply prints everything for them."
            )
        case errors.InvalidError() if "immutable" in str(refusal) or "cannot change roleRef" in str(refusal):
            return (
                f"a field cannot be changed in place ({refusal}). Run `windlass uninstall` and install again: "
                "Frameworks and their definitions stay."
            )
        case errors.UnansweredError():
            return (
                f"the server gave no answer ({refusal}). Run the command again: it goes on where it stopped."
            )
    return f"the server refused: {refusal}"
