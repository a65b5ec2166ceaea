"""How much later training begins under `windlass run` than when a shell script starts the same four processes.

Pairs, one after the other, so that both meet the same machine. Run by a Python that has TensorFlow.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples" / "digits-ps"
STEPS = 20
AIM_SECONDS = 1.0
LONGEST = 300.0


def first_step(command: list[str], folder: Path) -> float:
    """Seconds from the start of the command to the end of the first step that any worker takes."""
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    pairs = parser.parse_args().pairs
    measured(by_hand)  # what is read from the disk for the first time is read now
    differences = []
    print("digits-ps, from the command to the first step, by hand and by windlass run:")
    for _ in range(pairs):
        hand, windlass = measured(by_hand), measured(by_windlass)
        differences.append(windlass - hand)
        print(f"  {hand:.2f} s and {windlass:.2f} s")
    print(f"  overhead {statistics.median(differences):+.2f} s, aim ≤ {AIM_SECONDS:.1f} s")


if __name__ == "__main__":
    main()
