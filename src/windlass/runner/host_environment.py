"""The programs and images of this machine that the tasks of a run use: the Python of the user's shell, which may differ
from the one that runs Windlass, and images bound to folders."""

import contextlib
import re
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from windlass.client.submit.plan import SubmitPlan
from windlass.client.submit.sources import Source
from windlass.localcluster.kubelet import images
from windlass.localcluster.kubelet.containers import environment
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.runner.local import data_folders

_PROGRAM_VARIABLES = (
    "PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
)
_PYTHON = re.compile(r"(?<![\w./-])(python[0-9.]*|torchrun|accelerate|deepspeed|horovodrun)(?![\w./-])")


def notes(plan: SubmitPlan, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield which programs the tasks use, if they are not those of Windlass's own environment."""
    own = Path(sys.executable).parent
    path = environment.inherited_environment(environ, environment.virtual_environment_programs())["PATH"]
    for program in dict.fromkeys(_programs(plan)):
        found = shutil.which(program, path=path)
        if found is not None and Path(found).parent.resolve() != own.resolve():
            yield f"tasks use {found}; Windlass itself uses {sys.executable}"


def program_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which tasks find the programs of this shell, on a cluster that another one started."""
    inherited = environment.inherited_environment(environ, environment.virtual_environment_programs())
    return {name: value for name, value in inherited.items() if name in _PROGRAM_VARIABLES}


def bound_images(source: Source, options: Collection[str], environ: Mapping[str, str]) -> frozenset[str]:
    """Return the images of the jobs that are bound to folders of this machine, by `options` (`--image`) or by `windlass
    local image`. Invalid names are reported later."""
    bound = {option.partition("=")[0] for option in options}
    with contextlib.suppress(ValueError, OSError, SetupError):
        bound |= images.Images(data_folders.default_data(environ) / images.FILE).all().keys()
    jobs = [each.job for each in source.contents.submissions if each.job is not None]
    used = {image for job in jobs for image in (job.image, *(role.image for role in job.roles.values()))}
    names = set(map(_normalised, bound)) - {""}
    return frozenset(image for image in used if _normalised(image) in names)


def _normalised(image: str) -> str:
    with contextlib.suppress(ValueError):
        return images.normalised(image)
    return ""


def _programs(plan: SubmitPlan) -> Iterator[str]:
    """Yield the Python programs in the commands of tasks."""
    for job in plan.jobs if not plan.companions_only else ():
        for role in job.framework["spec"].get("taskRoles") or ():
            spec = ((role.get("task") or {}).get("pod") or {}).get("spec") or {}
            for container in spec.get("containers") or ():
                words = (*(container.get("command") or ()), *(container.get("args") or ()))
                match = _PYTHON.search(" ".join(map(str, words)))
                if match is not None:
                    yield match[1]
