"""Import modules of bench/ without keeping it on the path: its pods.py would hide tests/support/pods."""

import importlib
import sys
from pathlib import Path

BENCH = str(Path(__file__).parents[2] / "bench")

sys.path.insert(0, BENCH)
for name in ("cluster_load", "figures"):
    importlib.import_module(name)
sys.path.remove(BENCH)
