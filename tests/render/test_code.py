"""The init container that unpacks the code with tar, or with Python in an image without tar."""

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from windlass.model.job import Job, Role
from windlass.render import code
from windlass.render.framework.builder import framework


def archive(folder: Path) -> None:
    with tarfile.open(folder / code.ARCHIVE, "w:gz") as made:
        entry = tarfile.TarInfo("package/train.py")
        entry.size = 5
        made.addfile(entry, io.BytesIO(b"hello"))


@pytest.mark.parametrize("tools", [("tar", "gzip"), ("python3",)], ids=["tar", "Python"])
def test_init_container_unpacks_code(tools: tuple[str, ...], tmp_path: Path) -> None:
    programs, packed, unpacked = (tmp_path / name for name in ("bin", "archive", "code"))
    for folder in (programs, packed, unpacked):
        folder.mkdir()
    for tool in tools:
        found = sys.executable if tool == "python3" else shutil.which(tool)
        assert found is not None
        (programs / tool).symlink_to(os.path.realpath(found))
    archive(packed)
    made = framework(Job(name="job", command="run", roles={"worker": Role()}), code.Packed("job-code"))
    (container,) = made["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["initContainers"]
    places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    shell, option, script = container["command"]
    script = script.replace(places["windlass-archive"], str(packed)).replace(code.FOLDER, str(unpacked))

    subprocess.run([shell, option, script], env={"PATH": str(programs)}, check=True)  # noqa: S603

    assert (unpacked / "package" / "train.py").read_text() == "hello"
