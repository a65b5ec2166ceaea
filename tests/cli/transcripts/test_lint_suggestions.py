"""Suggestions of `windlass lint` for fields and values of other tools."""

import subprocess
import sys
from pathlib import Path

JOB = """\
name: my_job
cmd: python train.py
script: train.py
args: [--lr, 0.1]
instances: 2
resources: {memory: 8GB}
retry: 3
speed: 9
roles:
  ps:
  tasks: 1
  worker:
    replicas: 2
    gpus: 1
    pod: {spec: {speed: 9}}
  chief: {tasks: "1"}
  evaluator: {nodes: 1}
"""

PRINTED = """\
job.yaml:1:7: error: name: found the string "my_job", expected a DNS label: 1 to 63 lower-case letters, digits and \
hyphens, with a letter or digit at both ends. Did you mean "my-job"?
job.yaml:2:1: error: cmd: unknown field "cmd". Did you mean "command"?
job.yaml:3:1: error: script: unknown field "script". Did you mean command: python train.py --lr 0.1?
job.yaml:4:1: error: args: unknown field "args". Did you mean command: python train.py --lr 0.1?
job.yaml:5:1: error: instances: unknown field "instances". Did you mean roles: {worker: {tasks: 2}}?
job.yaml:6:21: error: resources.memory: found the string "8GB", expected a quantity above 0, such as 2, 0.5, 500m or \
4Gi. Did you mean 8G?
job.yaml:8:1: error: speed: unknown field "speed". No similar name is known.
job.yaml:10:6: error: roles.ps: the role is empty: indent tasks below ps, by two more spaces
job.yaml:13:5: error: roles.worker.replicas: unknown field "replicas". Did you mean "tasks"?
job.yaml:14:5: error: roles.worker.gpus: unknown field "gpus". Did you mean resources: {gpus: 1}?
job.yaml:15:18: error: roles.worker.pod.spec.speed: unknown field "speed" of PodSpec. No similar name is known.
job.yaml:16:18: error: roles.chief.tasks: found the string "1", expected an integer from 0 to 10000: remove the quotes
job.yaml:17:15: error: roles.evaluator.nodes: unknown field "nodes". Did you mean "tasks"?
1 file, 13 errors, 0 warnings
"""

FIXABLE = """\
name: my_job
cmd: echo ok
resources: {memory: 8GB}
roles:
  worker: {replicas: "2"}
"""

FIXED = """\
name: my-job
command: echo ok
resources: {memory: 8G}
roles:
  worker: {tasks: 2}
"""


def lint(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "windlass.cli.main", "lint", *options, "job.yaml"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603


def test_fields_of_other_tools_get_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)

    done = lint(tmp_path)

    assert (done.stdout, done.returncode) == (PRINTED, 1)


def test_fix_renames_fields_of_other_tools_with_one_meaning(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(FIXABLE)

    done = lint(tmp_path, "--fix")

    assert (tmp_path / "job.yaml").read_text() == FIXED
    assert (done.stdout.splitlines()[-1], done.returncode) == ("1 file, 0 errors, 0 warnings, 5 fixed", 0)
