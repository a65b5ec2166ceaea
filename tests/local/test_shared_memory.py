"""A process that overruns its /dev/shm, in a job file and in a Framework, and the explanation of `windlass why`."""

import pytest
from pods import commands
from pods.commands import Home, framework, role

OVERRUN = """\
import mmap, os
file = os.open("/dev/shm/data", os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 2**27)
memory = mmap.mmap(file, 2**27)
for at in range(0, 2**27, mmap.PAGESIZE):
    memory[at] = 1
"""


def test_why_explains_a_bus_error(home: Home) -> None:
    if not commands.best().has_mounts:
        pytest.skip("pods have no /dev/shm of their own on this machine")
    job = {
        "name": "small",
        "command": ["python3", "-c", OVERRUN],
        "shmSize": "64Mi",
        "roles": {"fits": {"shmSize": "256Mi"}, "worker": {"shmSize": "8Mi"}},
    }
    default = framework(role(home.container(["python3", "-c", OVERRUN])), name="default")
    with commands.local(home) as local:
        kubeconfig = ("--kubeconfig", local.status()["kubeconfig"])
        home.windlass("submit", *kubeconfig, home.written(job, default)).expect(0)
        for name, size in (("small", "(8Mi) was full"), ("default", "was full (64Mi unless")):
            home.windlass("wait", *kubeconfig, name).expect(135)
            found = home.windlass("why", *kubeconfig, name).expect(0).stdout
            assert f"{name} failed: worker-0 exited with code 135" in found
            assert f"a bus error (SIGBUS), usually because /dev/shm {size}" in found
            assert "`shmSize`" in found
        assert "fits-0" not in home.windlass("why", *kubeconfig, "small").stdout
