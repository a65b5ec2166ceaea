"""The init container that unpacks the code with tar, or with Python in an image without tar."""

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from windlass.client.submit import code_archive
from windlass.model.job import Job, Role
from windlass.render import code
from windlass.render.framework.builder import framework


def archive(folder: Path) -> None:
    with tarfile.open(folder / code.ARCHIVE, "w:gz") as made:
        entry = tarfile.TarInfo("package/train.py")
        entry.size = 5
        made.addfile(entry, io.BytesIO(b"hello"))


@pytest.mark.parametrize("parts", [1, 3], ids=["one ConfigMap", "three ConfigMaps"])
@pytest.mark.parametrize("tools", [("tar", "gzip"), ("python3",)], ids=["tar", "Python"])
def test_init_container_unpacks_code(tools: tuple[str, ...], parts: int, tmp_path: Path) -> None:
    programs, packed, unpacked = (tmp_path / name for name in ("bin", "archive", "code"))
    for folder in (programs, packed, unpacked):
        folder.mkdir()
    for tool in (*tools, "cat", "rm"):
        found = sys.executable if tool == "python3" else shutil.which(tool)
        assert found is not None
        (programs / tool).symlink_to(os.path.realpath(found))
    archive(packed)
    if parts > 1:
        data = (packed / code.ARCHIVE).read_bytes()
        (packed / code.ARCHIVE).unlink()
        for part, start in enumerate(range(0, len(data), -(-len(data) // parts))):
            (packed / f"{code.ARCHIVE}.{part:02}").write_bytes(data[start : start + -(-len(data) // parts)])
    made = framework(Job(name="job", command="run", roles={"worker": Role()}), code.Packed("job-code", parts))
    (container,) = made["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["initContainers"]
    places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    shell, option, script = container["command"]
    script = script.replace(places["windlass-archive"], str(packed)).replace(code.FOLDER, str(unpacked))

    subprocess.run([shell, option, script], env={"PATH": str(programs)}, check=True)  # noqa: S603

    assert (unpacked / "package" / "train.py").read_text() == "hello"
    assert [path.name for path in unpacked.iterdir()] == ["package"]


def test_each_config_map_is_below_the_limit_of_objects() -> None:
    archive = bytes(code_archive.MAX_BYTES)

    parts = list(code.parts_of("digits", archive))

    assert [name for name, _, _ in parts[:3]] == ["digits-code", "digits-code-1", "digits-code-2"]
    assert tuple(name for name, _, _ in parts) == code.packed("digits", archive).config_maps
    assert sorted(key for _, key, _ in parts) == [key for _, key, _ in parts]
    assert b"".join(data for _, _, data in parts) == archive
    assert all(len(data) < 1024 * 1024 for _, _, data in parts)
