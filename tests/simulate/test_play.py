"""`python -m windlass.simulate.play` in several processes: it resumes an interrupted run."""

from pathlib import Path

import pytest

from windlass.simulate import play


def run_seeds(monkeypatch: pytest.MonkeyPatch, path: Path, seeds: int) -> int:
    arguments = ["play", "--seeds", str(seeds), "--jobs", "1", "--progress", str(path)]
    monkeypatch.setattr("sys.argv", arguments)
    return play.main()


def test_interrupted_run_continues_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "folder" / "progress.jsonl"
    monkeypatch.setattr(play, "CHUNK", 2)
    assert run_seeds(monkeypatch, path, 4) == 0
    with path.open("ab") as file:
        file.write(b'\n{"first":4,"seeds":2')
    capsys.readouterr()
    assert run_seeds(monkeypatch, path, 6) == 0
    assert capsys.readouterr().out.startswith("4 of 6 scenarios were simulated by an earlier run\n")
    assert run_seeds(monkeypatch, path, 6) == 0
    assert capsys.readouterr().out.startswith("6 of 6 scenarios were simulated by an earlier run\n")


def test_violations_of_the_interrupted_run_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "progress.jsonl"
    monkeypatch.setattr(play, "CHUNK", 2)
    monkeypatch.setattr(play, "report", lambda seed: f"report of seed {seed}")
    play.Progress(path).record(range(2), [(1, "planted")])
    assert run_seeds(monkeypatch, path, 2) == 1
    assert "1 violated an invariant\nreport of seed 1\n" in capsys.readouterr().out


def test_outcomes_of_another_source_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "progress.jsonl"
    play.Progress(path).record(range(2), [])
    assert play.Progress(path).outcome(range(2)) is not None
    monkeypatch.setattr(play, "_fingerprint", lambda: "changed")
    assert play.Progress(path).outcome(range(2)) is None
