"""Measure how much later training starts under `windlass run` than with a shell script that starts the same four
processes.

Both alternate in pairs, so that noise affects both alike. Run with a Python that has TensorFlow.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from figures import Sheet, argument_parser  # next to this file

EXAMPLE = Path(__file__).parents[1] / "examples" / "digits-ps"
STEPS = 20
AIM_SECONDS = 1.0
LONGEST = 300.0


def first_step(command: list[str], folder: Path) -> float:
    """Return the seconds from the start of the command to the end of the first step of any worker."""
    programs = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "OUTPUT": str(folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.time()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    moments = [float(found) for found in re.findall(r"first step: .* time=([0-9.]+)", done.stdout)]
    assert moments, done.stdout
    return min(moments) - began


def by_windlass(folder: Path) -> float:
    text = (EXAMPLE / "framework.yaml").read_text()
    file = folder / "framework.yaml"
    file.write_text(text.replace("--steps=300", f"--steps={STEPS}").replace("/tmp/digits-ps", str(folder)))  # noqa: S108
    code = f"digits-ps-code={EXAMPLE}"
    return first_step(["windlass", "run", "--config-map", code, str(file)], folder)


def by_hand(folder: Path) -> float:
    return first_step([str(EXAMPLE / "by-hand.sh"), f"--steps={STEPS}"], folder)


def measured(how: object) -> float:
    assert callable(how)
    with tempfile.TemporaryDirectory() as folder:
        seconds: float = how(Path(folder))
        return seconds


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    sheet = Sheet("launch")
    sheet.title("digits-ps, from the command to the first step; of the pairs, the median:")
    measured(by_hand)  # warm up the disk cache
    pairs = [(measured(by_hand), measured(by_windlass)) for _ in range(arguments.pairs)]
    hand, windlass = zip(*pairs, strict=True)
    added = [run - script for script, run in pairs]
    what = f"{arguments.pairs} pairs"
    sheet.add(f"{what}: by hand", statistics.median(hand), "s", note=in_each(hand))
    sheet.add(f"{what}: by `windlass run`", statistics.median(windlass), "s", note=in_each(windlass))
    sheet.add(
        f"{what}: added by `windlass run`",
        statistics.median(added),
        "s",
        aim=AIM_SECONDS,
        note=in_each(added),
    )
    if arguments.save:
        sheet.save()


def in_each(pairs: Sequence[float]) -> str:
    return " ".join(f"{seconds:.2f}" for seconds in pairs)


if __name__ == "__main__":
    main()
