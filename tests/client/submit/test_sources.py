"""The local path of a job's code."""

from pathlib import Path

import pytest

from windlass.client.errors import InvalidJobError
from windlass.client.submit import sources
from windlass.client.submit.sources import Source
from windlass.model.companions import PasswordFrom
from windlass.model.job import Job, Role
from windlass.render.documents import Contents, Submission


def code_of(folder: Path, written: str) -> Path | None:
    job = Job(name="digits", command="true", roles={"worker": Role()}, code=written)
    return Source(Contents((), (), ()), folder).code_of(Submission(job=job))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `src/train.py` and a symbolic link `link` to `src`."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/train.py").touch()
    (tmp_path / "link").symlink_to("src")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


PLACES = {
    "a-folder": ("src", "src", "src"),
    "a-file": ("src/train.py", "src/train.py", "src"),
    "a-folder-with-a-slash": ("./src/", "src", "src"),
    "home": ("~/src", "src", "src"),
    "a-link-stays-one": ("link/../link", "link", "link"),
}


@pytest.mark.parametrize(("written", "where", "start"), PLACES.values(), ids=PLACES)
def test_code_path_and_working_directory(folder: Path, written: str, where: str, start: str) -> None:
    for base in (folder, Path()):
        found = code_of(base, written)
        assert found == folder / where
        assert sources.in_place(found).path == str(folder / start)


def test_absolute_code_path(folder: Path) -> None:
    assert code_of(Path("/elsewhere"), str(folder / "src")) == folder / "src"


def test_job_without_code(folder: Path) -> None:
    assert code_of(folder, "") is None


def test_missing_code_is_reported(folder: Path) -> None:
    with pytest.raises(InvalidJobError, match=rf"code: {folder}/missing does not exist\. Expected a folder"):
        code_of(folder, "missing")


def test_loaded_job_has_absolute_paths(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be submitted from any directory."""
    (folder / "job.yaml").write_text(
        "name: digits\ncode: src\ncommand: 'true'\nimage: i\nroles: {worker: {}}\n"
        "volumes: {data: {pvc: mnist, at: /data}}\n"
        "loadData: [{to: /data, folder: src}, {to: /data, command: 'true'}]\n"
        "jupyter: {passwordFrom: {file: password}}\n"
        "hub: {passwordFrom: {file: ~/password}}\n"
    )
    job = sources.load("job.yaml")
    assert job.code == str(folder / "src")
    assert [entry.folder for entry in job.load_data] == [str(folder / "src"), ""]
    assert job.jupyter is not None
    assert job.jupyter.password_from == PasswordFrom(file=str(folder / "password"))
    assert job.hub is not None
    assert job.hub.password_from == PasswordFrom(file=str(folder / "password"))
