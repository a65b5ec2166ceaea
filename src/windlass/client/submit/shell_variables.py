"""The variables of the user's shell that tasks of `windlass run` get.

Tasks get the variables that configure training libraries. They get variables for device selection, and those that may
be secrets, only if the job file names them in `env: {inherit: [...]}`; named secrets are stored in the job's Secret.
"""

import os
import re
from collections.abc import Mapping

import msgspec

from windlass.model.job import Job

_PREFIXES = (*("OMP_", "MKL_", "PYTHON", "HF_", "TRANSFORMERS_", "TF_", "XLA_", "NCCL_", "GLOO_"),)
_NAMES = frozenset({"WANDB_MODE"})
_EXCLUDED = re.compile(r"TF_CONFIG|TF_(?:VAR|CLI|TOKEN)_.*|.*VISIBLE_(?:CORES|DEVICES).*")
"""The address of another TensorFlow job, variables of Terraform, and device selection."""
_SECRET_WORDS = frozenset(
    {
        *(
            "KEY",
            "KEYS",
            "APIKEY",
            "TOKEN",
            "TOKENS",
            "SECRET",
            "SECRETS",
            "AUTH",
            "AUTHORIZATION",
            "PRIVATE",
        ),
        *(
            "PASS",
            "PASSWD",
            "PASSWORD",
            "PASSWORDS",
            "PASSPHRASE",
            "PWD",
            "CREDENTIAL",
            "CREDENTIALS",
            "COOKIE",
        ),
    }
)
_SECRET_VALUE = re.compile(r"://[^/\s]*@|\b(?:hf|ghp|gho|github_pat|glpat|sk|xox[abp])[-_][A-Za-z0-9_-]{16,}")
"""A URL with a password, or a token of a known service."""
MASK = "(masked)"
_FOLDER_LISTS = frozenset({"PYTHONPATH"})


def training_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for training libraries, in alphabetical order."""
    return {
        name: _absolute(value) if name in _FOLDER_LISTS else value
        for name, value in sorted(environ.items())
        if (name.startswith(_PREFIXES) or name in _NAMES)
        and _EXCLUDED.fullmatch(name) is None
        and not may_be_secret(name, value)
    }


def may_be_secret(name: str, value: str) -> bool:
    return (
        not _SECRET_WORDS.isdisjoint(re.split("[^A-Z0-9]", name.upper()))
        or _SECRET_VALUE.search(value) is not None
    )


def without_secrets(text: str) -> str:
    """Replace passwords in URLs and tokens of known services."""
    return _SECRET_VALUE.sub(MASK, text)


def applied(
    job: Job,
    environ: Mapping[str, str] | None,
    programs: Mapping[str, str] = {},
) -> Job:
    """Return the job with the variables of the shell (`environ`; None to add none). `env` and `secrets` of the job
    override them. `programs` are variables such as PATH."""
    if environ is None:
        return job
    named = {name: environ[name] for name in job.inherited if name in environ}
    secrets = {name: value for name, value in named.items() if may_be_secret(name, value)}
    others = {name: value for name, value in named.items() if name not in secrets}
    passed = {
        # Kubernetes expands $(NAME) in values.
        name: value.replace("$(", "$$(")
        for name, value in {**programs, **training_variables(environ), **others}.items()
        if name not in job.secrets
    }
    return msgspec.structs.replace(job, env={**passed, **job.variables}, secrets={**secrets, **job.secrets})


def missing(job: Job, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the named variables that the shell does not have."""
    return tuple(name for name in job.inherited if name not in environ)


def _absolute(folders: str) -> str:
    """Return a list of folders that does not depend on the current one."""
    return os.pathsep.join(os.path.abspath(each) if each else "" for each in folders.split(os.pathsep))  # noqa: PTH100
