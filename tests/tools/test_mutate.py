"""`make mutate`: the mutations fit the source, and the tool distinguishes detected mutations from survivors."""

from pathlib import Path

import mutate
import pytest
from mutate import Mutation, MutationError

SOURCE = """\
def limit():
    if True:
        return 1
    return 2
"""


def test_every_mutation_applies_exactly_once() -> None:
    for mutation in mutate.read_mutations():
        source = (mutate.ROOT / "src" / "windlass" / mutation.file).read_text()
        assert mutate.mutated(source, mutation) != source


def test_every_named_test_exists() -> None:
    for mutation in mutate.read_mutations():
        for test in mutation.tests:
            path, _, name = test.partition("::")
            file = mutate.ROOT / "tests" / path
            assert file.exists(), f"{mutation.name}: there is no tests/{path}"
            assert f"def {name}" in file.read_text(), f"{mutation.name}: there is no tests/{test}"


def test_every_area_has_mutations() -> None:
    areas = {mutation.file.partition("/")[0] for mutation in mutate.read_mutations()}
    expected = "cli client controller convert decide k8s kubeapi localcluster objects render runner"
    assert areas == set(expected.split())


def test_edit_is_found_at_any_indentation() -> None:
    mutation = Mutation("limit", "limits.py", "return 1", "value = 3\nreturn value")
    assert mutate.mutated(SOURCE, mutation) == SOURCE.replace("return 1", "value = 3\n        return value")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "return 3",
            "return 4",
            "the mutation 'limit' no longer applies: its old text occurs 0 times in src/windlass/limits.py; update it",
        ),
        (
            "import os",
            "pass",
            "the mutation 'limit' no longer applies: its old text occurs 2 times in src/windlass/limits.py; update it",
        ),
        ("return 1", "return (", "the mutation 'limit' is not valid Python"),
    ],
    ids=["absent", "ambiguous", "invalid"],
)
def test_edit_that_does_not_fit_is_reported(old: str, new: str, message: str) -> None:
    source = SOURCE + "import os\nimport os\n"
    with pytest.raises(MutationError) as error:
        mutate.mutated(source, Mutation("limit", "limits.py", old, new))
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([("a", True), ("a", True)], "two mutations have the same name: a"),
        ([("a", False)], "no check is named for: a"),
    ],
)
def test_invalid_list_is_reported(entries: list[tuple[str, bool]], message: str, tmp_path: Path) -> None:
    text = "".join(
        f"- {{name: {name}, file: f, old: o, new: n, seeds: {str(seeds).lower()}}}\n"
        for name, seeds in entries
    )
    (tmp_path / "list.yaml").write_text(text)
    with pytest.raises(MutationError, match=message):
        mutate.read_mutations(tmp_path / "list.yaml")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A package with one function, and a test that covers half of it."""
    package, tests = tmp_path / "src" / "windlass", tmp_path / "tests"
    package.mkdir(parents=True)
    tests.mkdir()
    (package / "__init__.py").touch()
    (package / "sums.py").write_text("def total(a, b):\n    return a + b\n\n\ndef unused():\n    return 1\n")
    (tests / "test_sums.py").write_text(
        "from windlass import sums\n\n\ndef test_total():\n    assert sums.total(2, 3) == 5\n"
    )
    return tmp_path


def test_survivor_is_reported(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mutations = [
        Mutation("wrong sum", "sums.py", "return a + b", "return a - b", ("test_sums.py",), seeds=False),
        Mutation("wrong constant", "sums.py", "return 1", "return 2", ("test_sums.py",), seeds=False),
    ]
    assert mutate.run(project, mutations) == 1
    _, caught, survived = capsys.readouterr().out.splitlines()
    assert caught.startswith("wrong sum")
    assert caught.endswith("test_sums.py::test_total")
    assert survived.startswith("wrong constant")
    assert survived.endswith("SURVIVED")
    assert "a + b" in (project / "src" / "windlass" / "sums.py").read_text(), "the source is left alone"


def test_failing_baseline_is_reported(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutate, "noticed_by", lambda *_, **__: "simulation seed 7")
    mutation = Mutation("wrong sum", "sums.py", "return a + b", "return a - b")
    with pytest.raises(MutationError, match="the unmutated source fails: simulation seed 7; fix that first"):
        mutate.run(project, [mutation])
