"""The progress bar of an upload, with a fake clock."""

from windlass.cli.terminal.progress_bar import ProgressBar

MIB = 1 << 20


class Scene:
    def __init__(self, columns: int | None) -> None:
        self.now = 100.0
        self.written: list[str] = []
        self.bar = ProgressBar(self.written.append, lambda: self.now, columns)

    def move(self, seconds: float, mebibytes: int, name: str = "train.csv") -> None:
        self.now += seconds
        self.bar.sent(name, mebibytes * MIB)


def test_bar_on_a_terminal() -> None:
    scene = Scene(100)
    scene.bar.begin(100 * MIB)
    scene.move(1, 10)
    scene.move(0.01, 1)
    scene.move(4, 14)
    assert [line.strip("\r").removesuffix("\x1b[K") for line in scene.written] == [
        "[##......................]  10%  10 MiB of 100 MiB  10 MiB/s  0:09 left  train.csv",
        "[######..................]  25%  25 MiB of 100 MiB  5 MiB/s  0:15 left  train.csv",
    ]
    scene.bar.end()
    assert scene.written[-1] == "\r\x1b[K"


def test_lines_fit_the_terminal() -> None:
    scene = Scene(30)
    scene.bar.begin(100 * MIB)
    scene.move(1, 10, "a" * 200)
    assert len(scene.written[0].strip("\r").removesuffix("\x1b[K")) == 29


def test_rate_is_measured_over_the_last_seconds() -> None:
    scene = Scene(100)
    scene.bar.begin(1000 * MIB)
    scene.move(1, 500)
    for _ in range(30):
        scene.move(1, 1)
    assert " 1 MiB/s  7:50 left" in scene.written[-1]


def test_lines_without_a_terminal() -> None:
    """A line is printed periodically, without control sequences."""
    scene = Scene(None)
    scene.bar.begin(100 * MIB)
    for _ in range(25):
        scene.move(1, 1)
    scene.bar.end()
    assert scene.written == [
        " 10%  10 MiB of 100 MiB  1 MiB/s  1:30 left  train.csv\n",
        " 20%  20 MiB of 100 MiB  1 MiB/s  1:20 left  train.csv\n",
    ]


def test_note_is_printed_above_the_bar() -> None:
    scene = Scene(100)
    scene.bar.begin(MIB)
    scene.move(1, 1)
    scene.bar.note("windlass: cannot mount the share yet")
    assert scene.written[-2:] == ["\r\x1b[K", "windlass: cannot mount the share yet\n"]


def test_control_characters_in_names_are_removed() -> None:
    scene = Scene(100)
    scene.bar.begin(MIB)
    scene.move(1, 1, "a\x1b[2Jb\nc")
    assert "\x1b[2J" not in scene.written[0]
    assert "\n" not in scene.written[0]
