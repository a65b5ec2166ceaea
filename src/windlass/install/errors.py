"""Errors of `windlass install` and `windlass uninstall`: what failed, why, and what to do."""

from windlass.kubeapi import errors


class InstallError(Exception):
    """The message says what failed, why, and what to do."""


class NoAnswerError(InstallError):
    """The API server gave no valid answer."""


def explain(error: errors.ApiError, subject: str) -> InstallError:
    """Return an error for the user, from the error of a request about `subject`."""
    error_type = NoAnswerError if isinstance(error, errors.NoValidResponseError) else InstallError
    return error_type(f"{subject}: {_explanation(error)}")


def _explanation(error: errors.ApiError) -> str:
    match error:
        case errors.UnauthorizedError():
            return f"authentication failed ({error}). Check --kubeconfig and --context."
        case errors.NamespaceTerminatingError():
            return f"its namespace is being deleted ({error}). Run the command again when it is deleted."
        case errors.ForbiddenError():
            return (
                f"permission denied ({error}). Granting a role requires its permissions: ask a cluster administrator "
                "to run the command. `windlass install` without --apply prints the manifests for them."
            )
        case errors.InvalidError() if "immutable" in str(error) or "cannot change roleRef" in str(error):
            return (
                f"a field cannot be changed in place ({error}). Run `windlass uninstall` and install again. "
                "Frameworks and their definitions are kept."
            )
        case errors.NoValidResponseError():
            return f"no valid answer from the server ({error}). Run the command again: it continues where it stopped."
    return f"the server rejected the request: {error}"
