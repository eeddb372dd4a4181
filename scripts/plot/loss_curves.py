#!/usr/bin/env python3
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
"""Loss over steps of several runs of one training, with the entropy rate of the tokens as a floor, and below how far each
is from the first, relative to it. Takes result files of `minisp run`, and those of `minisp sweep` with all their cases.
Ends with a line "LOSS: largest relative difference NUMBER ..."."""

import argparse
import sys

sys.dont_write_bytecode = True  # the source tree stays as it was
from results import (BLUE, FORMAT, GREEN, ORANGE, PURPLE, SWEEP_FORMAT, VERMILLION, Failure, check_figure,
                     check_output, labels_of, load_losses, np, pyplot_module, run_script, save_figure)

# Colour, dashes and width of each curve: the first is broad, so that those that cover it leave it visible.
STYLES = [(BLUE, "-", 3.0), (VERMILLION, "--", 1.4), (GREEN, ":", 1.6), (PURPLE, "-.", 1.4), (ORANGE, "--", 1.0)]


def check_alike(curves):
    first = curves[0]
    for other in curves[1:]:
        if len(other.loss) != len(first.loss):
            raise Failure(other.file, f"has {len(other.loss)} steps, {first.file} has {len(first.loss)}",
                          "Give runs with equal train.steps and train.warmup_steps")


def difference(curve, base):
    """Relative difference of every step; NaN where either loss is."""
    return np.abs(curve.loss - base.loss) / np.abs(base.loss)


def different_settings(curves):
    """Keys beside the decomposition in which the runs differ: then they are not one training."""
    keys = {key for curve in curves for key in curve.settings}
    return sorted(key for key in keys if not key.startswith(("output.", "export.", "parallel.", "verify."))
                  and len({curve.settings.get(key) for curve in curves}) > 1)


def draw_losses(axes, curves, labels):
    steps = np.arange(len(curves[0].loss))
    for curve, label, (colour, dashes, width) in zip(curves, labels, STYLES):
        axes.plot(steps, curve.loss, dashes, color=colour, linewidth=width, label=label)
    floors = {round(curve.floor, 9) for curve in curves if np.isfinite(curve.floor)}
    for floor in floors:
        axes.axhline(floor, color="black", linestyle=(0, (1, 2)), linewidth=1)
        axes.annotate(f"entropy rate {floor:.4f}", (steps[0], floor), xytext=(0, 3), textcoords="offset points",
                      ha="left", va="bottom", fontsize=8)
    axes.set_ylabel("loss, nat a token")
    axes.legend()


def draw_differences(axes, curves, labels):
    base = curves[0]
    found = []
    for curve, label, (colour, _, _) in list(zip(curves, labels, STYLES))[1:]:
        relative = difference(curve, base)
        steps = np.flatnonzero(relative > 0)  # none at all has no place on a logarithmic axis
        axes.plot(steps, relative[steps], ".", color=colour, markersize=3,
                  label=f"{label} against {labels[0]}, largest {np.max(relative):.1e}")
        found += relative[steps].tolist()
    if found:
        axes.set_yscale("log")
        axes.set_ylim(min(found) / 5, 50 * max(found))  # decades enough for ticks, and room for the legend
    else:
        axes.text(0.5, 0.5, "no difference in any step", transform=axes.transAxes, ha="center")
    axes.set_ylabel("relative difference")
    axes.legend(loc="upper left", fontsize=8)


def draw(curves, labels, path):
    pyplot = pyplot_module()
    figure, axes = pyplot.subplots(2 if len(curves) > 1 else 1, 1, figsize=(6.5, 5 if len(curves) > 1 else 3.2),
                                   sharex=True, squeeze=False, height_ratios=[2, 1] if len(curves) > 1 else [1])
    draw_losses(axes[0][0], curves, labels)
    if len(curves) > 1:
        draw_differences(axes[1][0], curves, labels)
    axes[-1][0].set_xlabel("step")
    figure.align_ylabels()
    save_figure(figure, path)
    pyplot.close(figure)


def print_differences(curves, labels):
    """The largest of all, NaN where a loss is none."""
    worst = (0.0, 0, labels[-1])
    for curve, label in zip(curves[1:], labels[1:]):
        relative = difference(curve, curves[0])
        step = int(np.argmax(relative))  # the first NaN, where there is one
        print(f"{label} against {labels[0]}: largest relative difference {relative[step]:.3e} at step {step}")
        if not relative[step] <= worst[0]:
            worst = (float(relative[step]), step, label)
    print(f"LOSS: largest relative difference {worst[0]:.3e} at step {worst[1]} of {len(curves[0].loss)} "
          f"({worst[2]} against {labels[0]})")
    return worst[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="+", metavar="FILE.h5", help="the first run is the one compared with")
    parser.add_argument("--output", required=True, metavar="FILE", help="figure: .svg, .pdf or .png")
    parser.add_argument("--overwrite", action="store_true", help="replace the figure that is there")
    parser.add_argument("--tolerance", type=float, metavar="T", help="exit code 1 when the difference is larger")
    arguments = parser.parse_args()
    check_figure(arguments.output)
    check_output(arguments.output, arguments.overwrite)
    curves = [curve for path in arguments.results for curve in load_losses(path, [FORMAT, SWEEP_FORMAT])]
    if len(curves) > len(STYLES):
        raise Failure(arguments.results[0], f"{len(curves)} curves are too many to tell apart",
                      f"Give at most {len(STYLES)}")
    check_alike(curves)
    labels = labels_of(curves)
    draw(curves, labels, arguments.output)
    for key in different_settings(curves):
        print(f"note: setting {key}: " + " against ".join(str(curve.settings.get(key)) for curve in curves))
    print(f"figure   {arguments.output}")
    if len(curves) == 1:
        return 0
    worst = print_differences(curves, labels)
    return 0 if arguments.tolerance is None or worst <= arguments.tolerance else 1


if __name__ == "__main__":
    sys.exit(run_script("loss_curves.py", main))
