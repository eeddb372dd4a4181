#!/usr/bin/env python3
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
"""Figures 1, 3, 7, 8, 9 and 10 of the BASP paper (arXiv:2609.03151) with our numbers beside the paper's, from a folder's
summary.csv (columns fig, model, N, B, S, metric, paper, measured, predicted, note; doc/reports.md) and, for figure 10,
from the HDF5 files under a name with "figure10" in that folder; those with "figure10-bf16" make a figure of their own."""

import argparse
import csv
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it was
import loss_curves
from results import (BLUE, FORMAT, SWEEP_FORMAT, VERMILLION, Failure, check_output, labels_of, load_losses, np,
                     pyplot_module, run_script, save_figure)

COLUMNS = ["fig", "model", "N", "B", "S", "metric", "paper", "measured", "predicted", "note"]
SOURCES = ("paper", "measured", "predicted")
SYSTEMS = {"ulysses": ("Ulysses", VERMILLION, "\\\\\\"), "basp": ("BASP", BLUE, "")}


@dataclass(frozen=True)
class Panel:
    """One pair of axes: the quantity, and the text at its axis. `systems`: one bar each, or one for their ratio."""
    quantity: str
    text: str
    systems: tuple = ("",)
    unity: bool = False  # a line at 1: neither is faster


SHARE = Panel("a2a_pct", "all-to-all, % of the step", ("ulysses", "basp"))
SPEEDUP = Panel("e2e_speedup", "speed-up of the step\n(Ulysses over BASP)", unity=True)
# Title, what a group of bars stands for, and panels from the top. Figure 8 has no speed-up of the all-to-all: at B = N
# BASP has none, and its ratio means nothing.
FIGURES = {
    "1": ("Share of Ulysses' step in all-to-all", "B", [Panel("a2a_pct", SHARE.text, ("ulysses",))]),
    "3": ("Profile of Ulysses: share of the step in all-to-all", "model", [Panel("a2a_pct", SHARE.text, ("ulysses",))]),
    "7": ("Six models, S = 16384, B = 2", "model", [
        SHARE, SPEEDUP, Panel("a2a_speedup", "speed-up of the\nall-to-all", unity=True)]),
    "8": ("By batch, S = 8192", "B", [SHARE, SPEEDUP]),
    "9": ("By sequence length, B = 2", "S", [Panel("step_reduction_pct", "step shorter under BASP, %")]),
}
LOSSES = ("10", "10-bf16")  # in fp64, and in mixed precision as the paper trains
UNITS = {"B": "sequences a step (B)", "S": "sequence length (S)", "model": ""}


# ---------------------------------------------------------------------------------------------------------------
# The summary.


@dataclass
class Row:
    figures: list
    keys: dict      # model, N, B, S
    system: str     # "ulysses", "basp" or "" for both together
    quantity: str
    values: dict    # paper, measured, predicted; NaN where there is none


def value_of(text, path, line, column):
    """A number; NaN for nothing, and for what the paper says in words ("18 to 4")."""
    text = (text or "").strip()
    if not text or text.lower() in ("-", "none", "nan"):
        return math.nan
    try:
        return float(text)
    except ValueError:
        if column == "paper":
            return math.nan
        raise Failure(f"{path}:{line}", f"'{text}' in column {column} is no number", "Write one, or leave it empty") from None


def quantity_of(metric):
    """(system, quantity) of "a2a_pct_basp", "basp a2a_pct", "e2e_speedup": the words of a metric in any order."""
    parts = [word for word in re.split(r"[^a-z0-9]+", metric.lower()) if word]
    system = next((word for word in parts if word in SYSTEMS), "")
    rest = [word for word in parts if word not in SYSTEMS]
    return system, "_".join(rest)


def row_of(entry, path, line):
    filled = sum(value is not None for value in entry.values())
    if filled < len(entry):
        raise Failure(f"{path}:{line}", f"has {filled} of {len(entry)} columns", "Write the others, be they empty")
    for column in "NBS":
        value_of(entry[column], path, line, column)
    system, quantity = quantity_of(entry["metric"])
    return Row(re.split(r"[/ ]+", entry["fig"].strip()), {key: entry[key].strip() for key in ("model", *"NBS")}, system,
               quantity, {source: value_of(entry[source], path, line, source) for source in SOURCES})


def read_summary(path):
    if not path.is_file():
        raise Failure(path, "there is no such file", "Name a folder with a summary.csv (doc/reports.md)")
    rows = []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            absent = [column for column in COLUMNS if column not in (reader.fieldnames or [])]
            if absent:
                raise Failure(path, f"has no column {', '.join(absent)}", f"Its first line has to be {','.join(COLUMNS)}")
            for entry in reader:
                rows.append(row_of(entry, path, reader.line_num))
    except (UnicodeDecodeError, csv.Error) as error:
        raise Failure(path, f"is no CSV file ({error})", "Name a folder with a summary.csv (doc/reports.md)") from error
    return rows


def converted(row, quantity):
    """The row's values as `quantity`: a speed-up and a step that is shorter say the same. None where they do not."""
    if row.quantity == quantity:
        return row.values
    if (row.quantity, quantity) == ("step_reduction_pct", "e2e_speedup"):
        return {source: 100 / (100 - value) if value < 100 else math.nan for source, value in row.values.items()}
    if (row.quantity, quantity) == ("e2e_speedup", "step_reduction_pct"):
        return {source: 100 * (1 - 1 / value) if value > 0 else math.nan for source, value in row.values.items()}
    return None


def points(rows, figure, panel, key):
    """{system: {group: {paper, measured, predicted}}}; a source that several rows give is taken from the first."""
    found = {system: {} for system in panel.systems}
    for row in rows:
        values = converted(row, panel.quantity) if figure in row.figures else None
        if values is None or not row.keys[key]:
            continue
        # What is said of no system is of Ulysses where a system is asked for: figures 1 and 3.
        system = row.system or panel.systems[0]
        if system not in found:
            continue
        point = found[system].setdefault(row.keys[key], dict.fromkeys(SOURCES, math.nan))
        for source, value in values.items():
            if math.isnan(point[source]):
                point[source] = value
    return found


# ---------------------------------------------------------------------------------------------------------------
# Drawing.


def groups_of(found, key):
    """Names of all groups, in their order on the axis."""
    names = list(dict.fromkeys(name for values in found for name in values))
    return names if key == "model" else sorted(names, key=float)


def draw_panel(axes, found, panel, groups):
    width = 0.8 / len(panel.systems)
    count = 0
    for place, system in enumerate(panel.systems):
        name, colour, hatch = SYSTEMS.get(system, ("", "#56B4E9", ""))
        at = np.arange(len(groups)) + (place - (len(panel.systems) - 1) / 2) * width
        values = {source: np.array([found[system].get(group, {}).get(source, math.nan) for group in groups])
                  for source in SOURCES}
        axes.bar(at, np.nan_to_num(values["measured"]), width * 0.9, color=colour, hatch=hatch, edgecolor="white",
                 linewidth=0, label=f"{name} measured".strip())
        # Beside each other, so that neither covers the other where they agree.
        axes.plot(at - 0.22 * width, values["paper"], "D", color="white", markeredgecolor="black", markersize=6,
                  label="paper", zorder=5)
        axes.plot(at + 0.22 * width, values["predicted"], "X", color="black", markeredgecolor="white", markersize=7,
                  label="predicted", zorder=5)
        most = max((v for points in found.values() for point in points.values() for v in point.values() if v > 0), default=0)
        for x, value in zip(at, values["measured"]):
            if np.isfinite(value):
                low = 0 <= value < 0.15 * most  # the number stands above a bar that it does not fit into
                axes.annotate(f"{value:.3g}", (x, value if low else 0), xytext=(0, 8 if low else 3), textcoords="offset points", ha="center", fontsize=7,
                              bbox={"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none"})
        count += sum(int(np.sum(np.isfinite(v))) for v in values.values())
    if panel.unity:
        axes.axhline(1, color="black", linewidth=0.8, linestyle="--")
    else:
        axes.axhline(0, color="black", linewidth=0.8)
    axes.set_ylabel(panel.text)
    axes.grid(axis="x", visible=False)
    return count


def add_legend(axes_list, sources, title):
    """Above the first axes, of what the figure holds; the title above it."""
    entries = {}
    for axes in axes_list:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            if label.split()[-1] in sources:
                entries.setdefault(label, handle)
    order = sorted(entries, key=lambda label: label in ("paper", "predicted"))
    columns = 3 if axes_list[0].figure.get_figwidth() < 6 else 5
    axes_list[0].legend([entries[label] for label in order], order, loc="lower center", bbox_to_anchor=(0.5, 1), ncol=columns)
    axes_list[0].set_title(title, fontsize=10, pad=10 + 15 * math.ceil(len(order) / columns))


def draw_figure(number, rows, path):
    """Number of points drawn; no file where there are none."""
    title, key, panels = FIGURES[number]
    filled = [(panel, found) for panel in panels if any((found := points(rows, number, panel, key)).values())]
    if not filled:
        return 0
    panels, found = zip(*filled)
    pyplot = pyplot_module()
    groups = groups_of([values for f in found for values in f.values()], key)
    figure, axes = pyplot.subplots(len(panels), 1, figsize=(max(4.2, 1.2 + 1.0 * len(groups)), 0.6 + 2.1 * len(panels)),
                                   sharex=True, squeeze=False)
    count = sum(draw_panel(axes[place][0], f, panel, groups) for place, (f, panel) in enumerate(zip(found, panels)))
    last = axes[-1][0]
    last.set_xticks(range(len(groups)), groups, rotation=20 if key == "model" else 0)
    last.set_xlabel(UNITS[key])
    sources = {source for f in found for values in f.values() for point in values.values()
               for source, value in point.items() if np.isfinite(value)}
    last.set_xlim(-1 if len(groups) == 1 else -0.6, len(groups) - (0 if len(groups) == 1 else 0.4))
    add_legend(axes[:, 0], sources, f"Figure {number}: {title}")
    figure.align_ylabels()
    save_figure(figure, path)
    pyplot.close(figure)
    return count


def draw_losses(folder, number, path):
    """Figure 10: number of curves; no file where there are none. The largest difference as loss_curves.py says it."""
    files = sorted(file for file in folder.rglob("*.h5")
                   if (found := re.search(r"figure(10(?:-bf16)?)", str(file.relative_to(folder)))) and found[1] == number)
    sweeps = [file for file in files if file.name == "sweep.h5"]
    curves = [curve for file in sweeps or files for curve in load_losses(file, [FORMAT, SWEEP_FORMAT])]
    curves.sort(key=lambda curve: curve.system != "Ulysses")  # the one compared with
    if not curves:
        return 0
    if len(curves) > len(loss_curves.STYLES):
        raise Failure(folder, f"holds {len(curves)} curves of figure 10", "Leave a folder figure10 with one sweep in it")
    loss_curves.check_alike(curves)
    labels = labels_of(curves)
    loss_curves.draw(curves, labels, path)
    if len(curves) > 1:
        loss_curves.print_differences(curves, labels)
    return len(curves)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="with summary.csv (doc/reports.md)")
    parser.add_argument("--output", required=True, type=Path, metavar="FOLDER", help="where the figures go")
    parser.add_argument("--format", choices=["svg", "pdf", "png"], default="svg", help="kind of file (default svg)")
    parser.add_argument("--overwrite", action="store_true", help="replace figures that are there")
    arguments = parser.parse_args()
    if arguments.output.exists() and not arguments.output.is_dir():
        raise Failure(arguments.output, "is no folder", "Name one for the figures")
    rows = read_summary(arguments.folder / "summary.csv")
    try:
        arguments.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(arguments.output, f"cannot be made ({error.strerror})", "Name another folder", 3) from error
    paths = {number: arguments.output / f"figure{number}.{arguments.format}" for number in [*FIGURES, *LOSSES]}
    for path in paths.values():
        check_output(path, arguments.overwrite)
    drawn = 0
    for number, path in paths.items():
        losses = number in LOSSES
        count = draw_losses(arguments.folder, number, path) if losses else draw_figure(number, rows, path)
        drawn += count
        what = f"{path}, {count} {'curves' if losses else 'numbers'}" if count else "nothing to draw it from"
        print(f"FIGURE: {number} {what}")
    if drawn == 0:
        raise Failure(arguments.folder, "holds no number of these figures", "Look at its summary.csv")
    return 0


if __name__ == "__main__":
    sys.exit(run_script("paper_figures.py", main))
