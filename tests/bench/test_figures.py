"""Figures with their targets and last values, and their storage."""

from datetime import datetime
from pathlib import Path

import pytest

import figures
from figures import Figure, Machine, Run, Sheet

HERE = Machine("Fast", 2, "3.11.7", "Linux 6.1")
ELSEWHERE = Machine("Slow", 64, "3.12.0", "Linux 5.4")
MONDAY, TUESDAY = Run(HERE, "2026-01-05", 0.1), Run(HERE, "2026-01-06", 0.2)
ABROAD = Run(ELSEWHERE, "2026-01-07", 0.3)


@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        (Figure("a", 20, "ms"), ""),
        (Figure("a", 12.5, "ms", was=10), ""),
        (Figure("a", 12.6, "ms", was=10), "SLOWER"),
        (Figure("a", 5, "ms", was=10), ""),
        (Figure("a", 12.6, "s", was=10, noise=1.5), ""),
        (Figure("a", 200, "MB", was=100), "WORSE"),
        (Figure("a", 8, "%", better="higher", was=10), ""),
        (Figure("a", 7.9, "%", better="higher", was=10), "WORSE"),
        (Figure("a", 0, "%", better="higher", was=10), "WORSE"),
        (Figure("a", 20, "%", better="higher", was=10), ""),
        (Figure("a", 20, "ms", was=10, was_elsewhere=True), ""),
        (Figure("a", 20, "ms", was=0), ""),
        (Figure("a", -1, "ms", was=-1), ""),
        (Figure("a", 7, "", was=7), ""),
        (Figure("a", 8, "", was=7), "CHANGED"),
        (Figure("a", 6, "", was=7), "CHANGED"),
        (Figure("a", 6, "", was=7, was_elsewhere=True), "CHANGED"),
    ],
)
def test_regression_is_marked(figure: Figure, expected: str) -> None:
    assert figures.verdict(figure) == expected


@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        (Figure("a", 20, "ms"), False),
        (Figure("a", 15, "ms", aim=15), False),
        (Figure("a", 15.1, "ms", aim=15), True),
        (Figure("a", 50, "%", aim=50, better="higher"), False),
        (Figure("a", 49, "%", aim=50, better="higher"), True),
        (Figure("a", 0, "", aim=0), False),
        (Figure("a", 1, "", aim=0), True),
    ],
)
def test_target_is_reached_or_missed(figure: Figure, expected: bool) -> None:
    assert figures.is_missed(figure) == expected


@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        (Figure("a", 1234.5, "ms"), "a 1,234 ms"),
        (Figure("a", 12.345, "ms", aim=1000, note="why"), "a 12.3 ms aim ≤ 1,000 (why)"),
        (Figure("a", 1.5, "s", aim=1), "a 1.50 s aim ≤ 1 MISSED"),
        (
            Figure("a", 41, "%", aim=50, better="higher", was=60),
            "a 41.0 % aim ≥ 50 MISSED was 60.0, ×0.68 WORSE",
        ),
        (Figure("a", 16, "ms", was=12.1), "a 16.0 ms was 12.1, ×1.32 SLOWER"),
        (Figure("a", 6.05, "ms", was=12.1), "a 6.05 ms was 12.1, ×0.50"),
        (Figure("a", 16, "ms", was=12.1, was_elsewhere=True), "a 16.0 ms was 12.1"),
        (Figure("a", 0.3, "s", was=-0.1), "a 0.30 s was -0.10"),
        (Figure("a", 12345, "", was=12345), "a 12,345 was 12,345"),
        (Figure("a", 12, "", was=11), "a 12 was 11, CHANGED"),
    ],
)
def test_line_of_a_figure(figure: Figure, expected: str) -> None:
    assert " ".join(figures.line(figure).split()) == expected


def test_lines_are_aligned() -> None:
    short, long = Figure("a", 1, "s", aim=2, was=1), Figure("a long one", 1000, "KiB/s", aim=2000, was=900)
    for word in ("aim", "was"):
        assert figures.line(short).index(word) == figures.line(long).index(word)


def measure(folder: Path, run: Run, **values: float) -> Sheet:
    sheet = Sheet("some", folder=folder, run=run)
    for what, value in values.items():
        sheet.add(what, value, "ms")
    return sheet


def kept(folder: Path) -> dict[str, Figure]:
    return {figure.what: figure for figure in figures.read(folder / "some.json").figures}


def test_stored_file_is_readable(tmp_path: Path) -> None:
    sheet = Sheet("some", folder=tmp_path / "results", run=MONDAY)
    sheet.add("10 tasks: decide", 12.34567, "ms", aim=15, note="three × as fast")
    sheet.add("10 tasks: requests", 1234567, "", better="higher")
    sheet.save()
    assert [file.name for file in (tmp_path / "results").iterdir()] == ["some.json"]
    assert (
        (tmp_path / "results" / "some.json").read_text()
        == """\
{
 "run": {
  "machine": {
   "cpu": "Fast",
   "cores": 2,
   "python": "3.11.7",
   "kernel": "Linux 6.1"
  },
  "date": "2026-01-05",
  "load": 0.1
 },
 "figures": [
  {
   "what": "10 tasks: decide",
   "value": 12.35,
   "unit": "ms",
   "aim": 15.0,
   "note": "three × as fast"
  },
  {
   "what": "10 tasks: requests",
   "value": 1234567.0,
   "unit": "",
   "better": "higher"
  }
 ]
}
"""
    )


def test_nothing_is_stored_before_save(tmp_path: Path) -> None:
    measure(tmp_path, MONDAY, a=1)
    assert not list(tmp_path.iterdir())


def test_each_figure_shows_its_last_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measure(tmp_path, MONDAY, a=10, b=10).save()
    capsys.readouterr()
    measure(tmp_path, TUESDAY, a=11, b=20, c=30).save()
    words = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert words == [
        "some: Fast, 2 cores, Python 3.11.7, Linux 6.1, load 0.2",
        "a 11.0 ms was 10.0, ×1.10",
        "b 20.0 ms was 10.0, ×2.00 SLOWER",
        "c 30.0 ms",
    ]
    assert {what: figure.was for what, figure in kept(tmp_path).items()} == {"a": 10, "b": 10, "c": None}


def test_unmeasured_figure_keeps_its_date(tmp_path: Path) -> None:
    measure(tmp_path, MONDAY, a=10, b=10, c=10).save()
    measure(tmp_path, TUESDAY, b=11).save()
    found = kept(tmp_path)
    assert list(found) == ["a", "b", "c"]
    assert found["a"] == Figure("a", 10, "ms", date="2026-01-05")
    assert found["b"] == Figure("b", 11, "ms", was=10)


def test_results_of_another_machine_are_shown_but_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(tmp_path, ABROAD, a=10, b=10).save()
    capsys.readouterr()
    measure(tmp_path, MONDAY, a=100, c=1)
    words = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert words[1:] == [
        "the last results come from another machine: Slow, 64 cores, Python 3.12.0, Linux 5.4",
        "a 100 ms was 10.0",
        "c 1.00 ms",
    ]


def test_stored_figure_keeps_its_machine(tmp_path: Path) -> None:
    measure(tmp_path, ABROAD, a=10, b=10).save()
    measure(tmp_path, MONDAY, a=100).save()
    assert kept(tmp_path)["b"].machine == ELSEWHERE
    measure(tmp_path, TUESDAY, a=300, b=100).save()
    assert {what: figures.verdict(figure) for what, figure in kept(tmp_path).items()} == {
        "a": "SLOWER",
        "b": "",
    }


def test_changed_unit_is_a_new_figure(tmp_path: Path) -> None:
    measure(tmp_path, MONDAY, a=10).save()
    sheet = Sheet("some", folder=tmp_path, run=TUESDAY)
    sheet.add("a", 10_000, "MB")
    sheet.save()
    assert kept(tmp_path) == {"a": Figure("a", 10_000, "MB")}


def test_duplicate_name_is_rejected(tmp_path: Path) -> None:
    sheet = measure(tmp_path, MONDAY, a=1)
    with pytest.raises(ValueError, match="two figures are named 'a'"):
        sheet.add("a", 2, "ms")


@pytest.mark.parametrize("text", [b"", b'{"run": ', b"[]", b'{"figures": []}', b'{"run": "\xff"}'])
def test_invalid_results_are_reported_once_and_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: bytes
) -> None:
    (tmp_path / "some.json").write_bytes(text)
    measure(tmp_path, MONDAY, a=1).save()
    said = capsys.readouterr().out
    assert said.count("some.json does not contain figures in the current format: ") == 1
    assert kept(tmp_path) == {"a": Figure("a", 1, "ms")}


def test_summary_lists_marked_figures(tmp_path: Path) -> None:
    measure(tmp_path, MONDAY, fine=10, slow=10).save()
    sheet = measure(tmp_path, TUESDAY, fine=11, slow=20)
    sheet.add("missed", 3, "s", aim=2)
    sheet.save()
    (tmp_path / "damaged.json").write_text("{")
    damaged, *found = [" ".join(line.split()) for line in figures.summary(tmp_path)]
    assert "damaged.json does not contain figures in the current format" in damaged
    assert found == [
        "some, 2026-01-06:",
        "slow 20.0 ms was 10.0, ×2.00 SLOWER",
        "missed 3.00 s aim ≤ 2 MISSED",
        "3 figures are stored; 2 of them regressed, changed or miss their target",
    ]


def test_summary_without_results(tmp_path: Path) -> None:
    assert list(figures.summary(tmp_path)) == [
        "0 figures are stored; 0 of them regressed, changed or miss their target"
    ]


def test_every_benchmark_has_the_option_not_to_store() -> None:
    parser = figures.argument_parser("what it is for")
    assert parser.parse_args([]).save
    assert not parser.parse_args(["--no-save"]).save


def test_this_machine_is_described() -> None:
    run = figures.this_run()
    assert run.machine.cpu
    assert run.machine.cores > 0
    assert datetime.fromisoformat(run.date).tzinfo is not None
