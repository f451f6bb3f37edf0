"""`python -m bench.plot throughput.json throughput.svg`: bars of the marginal cost, with their spread."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

MEASURE = "marginal CPU us/record"


def draw(document: dict, path: Path) -> None:
    found = {name: figures[MEASURE] for name, figures in document["summary"].items()}
    names = sorted(found, key=lambda name: -found[name][1])
    middle = [found[name][1] for name in names]
    spread = [[found[n][1] - found[n][0] for n in names], [found[n][2] - found[n][1] for n in names]]
    figure, axes = pyplot.subplots(figsize=(9, 0.55 * len(names) + 1.2))
    bars = axes.barh(names, middle, xerr=spread, color="#8aa2b8", ecolor="#333333", capsize=3)
    for bar, name in zip(bars, names, strict=True):
        if name == "tidegate":
            bar.set_color("#1f6f5c")
    axes.bar_label(bars, [f"{value:.1f}" for value in middle], padding=14)
    axes.set_xlabel(f"CPU microseconds a record, without start-up ({document['records']:,} records; min, median, max)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(0, max(h + 0.12 * max(middle) for h in middle) + max(spread[1]))
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
