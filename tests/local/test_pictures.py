"""The README's picture of the live table shows what a terminal shows.

`WINDLASS_REGENERATE=1` writes the picture.
"""

import os
import platform
import signal
from pathlib import Path
from typing import Final

import pages
import screen_pictures
import terminals
from pages import Screen, Shown

from conformance.waiting import wait_for

PICTURE: Final = pages.TOP / "docs/images/live-table.svg"
COMMAND: Final = "windlass run --workers 4 -- python3 train.py"
TITLE: Final = f"{COMMAND}: a row for each task with its state, node, usage, progress and last line"
MAX_BYTES: Final = 150_000
NODE: Final = "laptop"
"""Name of the machine in the picture."""
ROWS: Final = 6
"""The state of the job, the heading, and the tasks."""


def test_picture_shows_the_live_table(tmp_path: Path) -> None:
    tutorial = pages.steps((pages.TOP / "docs/tutorial.md").read_text())
    (script,) = [step for step in tutorial if isinstance(step, Shown) and step.name == "train.py"]
    # The tasks stop after 17 of 30 steps, so that the table stays as it is.
    paused = script.text.replace("time.sleep(0.2)", "time.sleep(0.2 if step < 18 else 3600)")
    assert paused != script.text
    (tmp_path / script.name).write_text(paused)
    command = ["/bin/sh", "-c", f"exec {COMMAND}"]
    with terminals.running(command, pages._environment(tmp_path), tmp_path, 110, 30) as shown:
        top = wait_for("a table with progress", lambda: _top_of_the_table(shown.terminal.lines))
        table = shown.terminal.cells[top : top + ROWS]
        shown.process.send_signal(signal.SIGINT)
        shown.done()
    if os.environ.get("WINDLASS_REGENERATE"):
        drawn = screen_pictures.picture(table, TITLE)
        PICTURE.write_text(drawn.replace(f" {platform.node():<{len(NODE)}} ", f" {NODE} "))
    seen = ["".join(each.data for each in line).rstrip() for line in table]
    pictured = screen_pictures.lines_of(PICTURE.read_text())
    assert len(pictured) == ROWS
    assert pages.shows(Screen(COMMAND, tuple(pictured)), seen), "\n".join((*pictured, "", *seen))


def _top_of_the_table(lines: list[str]) -> int:
    """Return the first line of the table when all tasks have done half of their steps; 0 before that."""
    top = next((at for at, line in enumerate(lines) if line.startswith("train  running")), 0)
    tasks = [line for line in lines if line.startswith("worker-")]
    return top if sum("█████" in line and "Mi" in line for line in tasks) == ROWS - 2 else 0


def test_pictures_are_small() -> None:
    pictures = [path for path in PICTURE.parent.iterdir() if path.is_file()]
    assert PICTURE in pictures
    assert [path.name for path in pictures if path.stat().st_size > MAX_BYTES] == []
