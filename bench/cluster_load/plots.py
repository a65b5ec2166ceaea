"""Plot the results as SVG files for the documentation."""

import io
from collections.abc import Sequence
from pathlib import Path

from cluster_load.contenders import WINDLASS
from cluster_load.results import Result
from cluster_load.workloads import Pods

COLOURS = {"windlass": "#2a6f97", "floor": "#a9a9a9", "Job controller": "#e09f3e"}
OTHERS = "#9e2a2b"


def draw(results: Sequence[Result], folder: Path) -> list[Path]:
    """Plot the results of all contenders, if there are enough."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "windlass"
    folder.mkdir(parents=True, exist_ok=True)
    bursts = [each for each in results if each.scenario.startswith("burst")]
    large = [each for each in results if each.scenario.startswith("one of")]
    written = []
    for pods in Pods:
        chosen = [each for each in bursts if each.pods == pods]
        if chosen:
            title = f"Bursts of two-task jobs, pods {pods}"
            written.append(
                _bars(chosen, "jobs_per_second", title, "jobs per second", folder / f"bursts-{pods}.svg")
            )
    if large:
        written.append(_bars(large, "seconds", "One job", "seconds until it is done", folder / "large.svg"))
    return written


def _bars(results: Sequence[Result], field: str, title: str, unit: str, path: Path) -> Path:
    from matplotlib import pyplot

    scenarios = list(dict.fromkeys(each.scenario for each in results))
    contenders = list(dict.fromkeys(each.contender for each in results))
    figure, axes = pyplot.subplots(figsize=(7, 3.2), layout="constrained")
    width = 0.8 / len(contenders)
    for number, contender in enumerate(contenders):
        values = {each.scenario: getattr(each, field) for each in results if each.contender == contender}
        places = [index + number * width for index, name in enumerate(scenarios) if name in values]
        bars = axes.bar(
            places,
            [values[name] for name in scenarios if name in values],
            width * 0.92,
            label=contender,
            color=COLOURS.get(contender, OTHERS),
            zorder=3 if contender == WINDLASS.name else 2,
        )
        axes.bar_label(bars, fmt="%.3g", fontsize=8)
    middle = width * (len(contenders) - 1) / 2
    axes.set_xticks([index + middle for index in range(len(scenarios))], scenarios)
    axes.set_ylabel(unit)
    axes.set_title(title, fontsize=10)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=8)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    path.write_text("\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n")
    return path
