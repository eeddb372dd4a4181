#!/usr/bin/env python3
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
"""What scripts/run_paper.sh asks of the paper's numbers and of result files:

  points FIGURE   models of a figure, and for each the case of Ulysses and the share of its step in all-to-all that the
                  link's rate is chosen for
  rate FOLDER     the rate at which a case has that share, from its runs FOLDER/RATE/CASE/round-1.h5, and the rate at
                  which to try again, or nothing
  links FOLDER [RATE]  figures and models, and for each how many times RATE the rate of its link is; without RATE the
                  slowest of the rates
  summary FOLDER  writes FOLDER/summary.csv and prediction.csv (doc/reports.md) from the sweeps FOLDER/figureN/sweep.h5
                  and what the performance model says of them, FOLDER/figureN/MODEL.predicted.csv"""

import argparse
import csv
import dataclasses
import io
import re
import sys
from dataclasses import dataclass
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it was
from paper_figures import COLUMNS
from results import SWEEP_FORMAT, Failure, lacking, load_run, np, open_file, plain, run_script, settings_of, write_whole

PAPER = Path(__file__).resolve().parents[2] / "inputs/paper/paper_figures.csv"
# Where a figure's share is taken: the paper states shares for all models of figure 7, but none for figure 9, which has
# one case with it in common; for figure 3 neither B nor S.
POINTS = {"1": ("1", "2", "8192"), "3": ("3", "", ""), "7": ("7", "2", "16384"), "8": ("8", "2", "8192"),
          "9": ("7", "2", "16384"), "10": ("", "", "")}
MODELS = {"9": "llama3.2-3b"}
FAST = "10gbit"
PART_OF_STEP = 0.05  # phases below that are not counted where the model is judged


# ---------------------------------------------------------------------------------------------------------------
# The paper.


def paper_rows():
    with PAPER.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def figures_of(row):
    return row["fig"].split("/")


def print_points(figure):
    place, batch, length = POINTS[figure]
    if not place:  # figure 10 asks for losses: any link will do
        print(f"llama3.2-3b - {FAST}")
    for row in paper_rows():
        if place not in figures_of(row) or row["metric"] != "a2a_pct" or (row["B"], row["S"]) != (batch, length):
            continue
        if MODELS.get(figure, row["model"]) == row["model"]:
            print(f"{row['model']} {row['model']}_B{batch or 2}_S{length or 16384}_ulysses {row['ulysses']}")


# ---------------------------------------------------------------------------------------------------------------
# The link's rate.


def bits_a_second(text):
    found = re.fullmatch(r"([1-9][0-9]*)(kbit|mbit|gbit)", text)
    return float(found[1]) * {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}[found[2]] if found else None


@dataclass
class Trial:
    """A run of Ulysses over a link: seconds of its step in all-to-all and outside, and what each sends over the link."""
    inverse_rate: float  # seconds a bit
    exchange: float
    other: float
    exchange_bits: float  # one way; the other way as many go at the same time
    other_bits: float

    @property
    def share(self):
        return self.exchange / (self.exchange + self.other)


def trial_of(rate, path):
    run = load_run(path)
    step = float(np.mean(run.step_seconds))
    exchange = sum(float(np.mean(seconds)) for phase, seconds in run.phases.items() if phase.startswith("exchange"))
    exchange /= run.timed_steps
    bits = {True: 0.0, False: 0.0}
    for row in run.traffic:
        bits[row.phase.startswith("exchange")] += 8 * float(np.sum(row.bytes_off_node)) / 2 / run.timed_steps
    return Trial(1 / rate, exchange, step - exchange, bits[True], bits[False])


def fitted(trials, share):
    """Seconds a bit at which the share is that one, from straight lines: exchange = w + x q and other = o + y q. From one
    run the slopes are the bits sent; half of the waiting over a fast link goes by while a slow one is waited for. From
    more they are those between two of them: the nearest shares on either side, or the two nearest ones."""
    near = sorted(trials, key=lambda trial: abs(trial.share - share))
    above = [trial for trial in near if trial.share > share]
    below = [trial for trial in near if trial.share <= share]
    near = [above[0], below[0]] if above and below else near[:2]
    if len(near) == 1:
        fast = near[0]
        x, y, w, o = fast.exchange_bits, fast.other_bits, fast.exchange / 2, fast.other
    else:
        step = near[1].inverse_rate - near[0].inverse_rate
        x, y = (near[1].exchange - near[0].exchange) / step, (near[1].other - near[0].other) / step
        w, o = near[0].exchange - x * near[0].inverse_rate, near[0].other - y * near[0].inverse_rate
    slope = x - share * (x + y)
    return (share * (w + o) - w) / slope if slope > 0 else None


def print_rate(folder, case, percent):
    """The rate of the run that is nearest, or a fitted one; and what to try next, while that may come nearer."""
    paths = {path.name: path / case / "round-1.h5" for path in sorted(folder.iterdir()) if bits_a_second(path.name)}
    trials = {rate: trial_of(bits_a_second(rate), path) for rate, path in paths.items() if path.exists()}
    if not trials:
        raise Failure(folder, f"holds no run of {case}", "Remove the folder and start again")
    for rate, trial in sorted(trials.items(), key=lambda item: item[1].inverse_rate):
        print(f"{case}, link of {rate}: {100 * trial.share:.1f} % of {trial.exchange + trial.other:.4f} s in all-to-all",
              file=sys.stderr)
    share = percent / 100
    best = min(trials, key=lambda rate: abs(trials[rate].share - share))
    close = abs(trials[best].share - share) < 0.015
    inverse = fitted(list(trials.values()), share)
    fast = min(trial.inverse_rate for trial in trials.values())
    slow = max(trial.inverse_rate for trial in trials.values())
    if inverse is None:
        inverse = 4 * slow  # parameters, not activations, fill the link: no rate may do
    # A line through two noisy runs may lead anywhere; one step does not leave their neighbourhood.
    inverse = min(max(inverse, fast), 4 * slow) if len(trials) > 1 else max(inverse, fast)
    text = f"{max(round(1e-3 / inverse), 1)}kbit"
    if close or any(abs(trial.inverse_rate / inverse - 1) < 0.01 for trial in trials.values()):  # tried already
        print(best)
    else:
        print(text, text if len(trials) < 3 else "")


def print_links(folder, rate):
    """Of figures whose times mean something: all but 10."""
    rates = {path: path.read_text(encoding="utf-8").strip() for path in sorted(folder.glob("figure[1-9]/*.rate"))}
    if rate is None:
        print(min(rates.values(), key=bits_a_second, default=""))
        return
    for path, text in rates.items():
        print(f"{path.parent.name} {path.stem} {bits_a_second(text) / bits_a_second(rate):.6g}")


# ---------------------------------------------------------------------------------------------------------------
# What was measured.


@dataclass
class Sweep:
    """A sweep's file, and the rates of the link that its models ran over."""
    cases: dict     # name -> {quantity: one entry a round; "timers": {phase: one entry a round}}
    baselines: dict  # name -> the case that it is compared with
    ratios: dict    # name -> {"step", "exchange": one entry a round that both have}
    losses: dict    # name -> one entry a step
    settings: dict  # name -> {key: text}
    valid: bool
    rates: dict     # model -> text


def load_sweep(path):
    with open_file(path, [SWEEP_FORMAT]) as file:
        try:
            names = [plain(name) for name in file["case_names"][:] if len(file[f"cases/{plain(name)}/round"]) > 0]
            groups = {name: file[f"cases/{name}"] for name in names}
            quantities = ("step_seconds", "exchange_seconds", "exchange_fraction")
            return Sweep(
                {name: {**{quantity: group[quantity][:] for quantity in quantities},
                        "timers": {phase: seconds[:] for phase, seconds in group["timers"].items()}}
                 for name, group in groups.items()},
                {name: plain(group.attrs["baseline"]) for name, group in groups.items() if "baseline" in group.attrs},
                {name: {key: group[key][:] for key in ("step", "exchange") if key in group}
                 for name, group in file.get("ratios", {}).items()},
                {name: group["loss"][:] for name, group in groups.items()},
                {name: settings_of(group["settings"]) for name, group in groups.items()},
                bool(file["verdict"].attrs["valid"]),
                {log.stem: log.read_text(encoding="utf-8").strip() for log in path.parent.glob("*.rate")})
        except (KeyError, ValueError, TypeError) as error:
            raise lacking(path, error) from error


def load_prediction(folder, sweep):
    """What the performance model says of a sweep's cases: {case: {phase, "step" or "all_to_all": seconds}}."""
    seconds = {}
    for path in sorted(folder.glob("*.predicted.csv")):
        model = path.name.removesuffix(".predicted.csv")
        with path.open(encoding="utf-8", newline="") as file:
            try:
                for entry in csv.DictReader(file):
                    if entry["case"].startswith(f"{model}_B") and entry["case"] in sweep.cases:
                        seconds.setdefault(entry["case"], {})[entry["phase"]] = float(entry["seconds"])
            except (KeyError, TypeError, ValueError) as error:
                raise Failure(path, f"is no prediction ({error})", "Remove it; scripts/run_paper.sh makes it again") from error
    return seconds


def as_sweep(prediction, sweep):
    """A prediction in the place of one round's measurement."""
    cases = {name: {"step_seconds": np.array([phases["step"]]), "exchange_seconds": np.array([phases["all_to_all"]]),
                    "exchange_fraction": np.array([phases["all_to_all"] / phases["step"]])}
             for name, phases in prediction.items()}
    ratios = {}
    for name, baseline in sweep.baselines.items():
        if name in cases and baseline in cases:
            a, b = cases[baseline], cases[name]
            ratios[name] = {"step": a["step_seconds"] / b["step_seconds"]}
            if b["exchange_seconds"][0] > 0:
                ratios[name]["exchange"] = a["exchange_seconds"] / b["exchange_seconds"]
    return dataclasses.replace(sweep, cases=cases, ratios=ratios)


def reduction(ratio):
    return 100 * (1 - 1 / ratio)


def measured(sweep, model, batch, length, metric):
    """One value a round of a metric of doc/reports.md; None where nothing was measured, or where there is no
    all-to-all to compare."""
    name = f"{model}_B{batch}_S{length}"
    if metric.startswith("a2a_pct_"):
        case = sweep.cases.get(f"{name}_{metric.removeprefix('a2a_pct_')}")
        return None if case is None else 100 * case["exchange_fraction"]
    ratio = sweep.ratios.get(f"{name}_basp", {})
    if metric == "a2a_speedup":
        return ratio.get("exchange")
    step = ratio.get("step")
    if step is None or metric == "e2e_speedup":
        return step
    return reduction(step) if metric == "step_reduction_pct" else None


def spread_text(values, unit=""):
    if len(values) == 1:
        return "one round"
    return f"median of {len(values)} rounds, {min(values):.4g} to {max(values):.4g}{unit}"


def implied_outside(figure, row):
    """What BASP's time outside all-to-all is to Ulysses' by the paper's shares and speed-up; None where it lacks one."""
    alike = [other for other in paper_rows()
             if figure in figures_of(other) and all(other[key] == row[key] for key in ("model", "B", "S"))]
    shares = next((other for other in alike if other["metric"] == "a2a_pct" and other["basp"]), None)
    speedup = next((float(other["basp"]) for other in alike if other["metric"] == "e2e_speedup"), None) or next(
        (1 / (1 - float(other["basp"]) / 100) for other in alike if other["metric"] == "step_reduction_pct"), None)
    if shares is None or speedup is None:
        return None
    return (1 - float(shares["basp"]) / 100) / (speedup * (1 - float(shares["ulysses"]) / 100))


def reasons(figure, row, metric, sweep):
    """What the difference from the paper's number comes from, as measured."""
    name = f"{row['model']}_B{row['B'] or 2}_S{row['S'] or 16384}"
    ulysses, basp = (sweep.cases.get(f"{name}_{system}") for system in ("ulysses", "basp"))
    if metric in ("e2e_speedup", "step_reduction_pct") and ulysses and basp:
        outside = np.median(basp["step_seconds"] - basp["exchange_seconds"]) / np.median(
            ulysses["step_seconds"] - ulysses["exchange_seconds"])
        implied = implied_outside(figure, row)
        yield f"Ulysses {100 * np.median(ulysses['exchange_fraction']):.1f} % in all-to-all"
        yield f"outside it BASP takes {outside:.2f} of Ulysses' time" + (
            f", by the paper's numbers {implied:.2f}" if implied else "")
    if row["B"] == "1" and metric == "e2e_speedup":
        yield "K = 8 under both: the same work"
    if metric in ("a2a_speedup", "a2a_pct_basp") and basp and np.median(basp["exchange_seconds"]) > 0 and row["B"] != "1":
        yield "BASP's all-to-all stays on the node, here waiting and copies in memory"


def entry_of(figure, row, metric, paper, sweep, predicted):
    """A row of the summary, and its values a round."""
    values, model_values = (one and measured(one, row["model"], row["B"] or 2, row["S"] or 16384, metric)
                            for one in (sweep, predicted))
    notes = []
    if sweep is None:
        notes.append("not run")
    elif values is None:
        notes.append("no all-to-all under BASP" if metric == "a2a_speedup" else "not run")
    else:
        notes.append(spread_text(values))
        if row["model"] in sweep.rates:
            notes.append(f"link {sweep.rates[row['model']]}")
        notes += reasons(figure, row, metric, sweep)
    if row["note"]:
        notes.append(f"paper: {row['note']}")
    numbers = {name: "" if one is None else f"{np.median(one):.4g}"
               for name, one in (("measured", values), ("predicted", model_values))}
    return {**{key: row[key] for key in ("model", "N", "B", "S")}, "fig": figure, "metric": metric, "paper": paper,
            **numbers, "note": "; ".join(notes)}, values


def metrics_of(figure, row):
    """The metrics of a row of the paper's, each with its number."""
    if row["metric"] != "a2a_pct":
        return [(row["metric"], row["basp"])]
    systems = ("ulysses",) if figure in ("1", "3") else ("ulysses", "basp")
    return [(f"a2a_pct_{system}", row[system]) for system in systems if row[system]]


def unstated(figure, sweep, predicted, entries):
    """Speed-ups that were measured and that the paper gives no number for."""
    given = {(entry["fig"], entry["model"], entry["B"], entry["metric"].replace("step_reduction_pct", "e2e_speedup"))
             for entry, _ in entries}
    for name in sweep.ratios if sweep else ():
        model, batch, length, _ = name.split("_")
        row = {"model": model, "N": "8", "B": batch[1:], "S": length[1:], "note": ""}
        for metric in ("e2e_speedup", "a2a_speedup"):
            if (figure, model, row["B"], metric) not in given:
                yield entry_of(figure, row, metric, "", sweep, predicted)



def loss_entries(row, sweeps):
    """Figure 10: the paper's losses can only be looked at; ours are told apart."""
    curves = {}  # (precision, system) -> losses
    for sweep in sweeps:
        for name, loss in sweep.losses.items():
            settings = {key: sweep.settings[name][key].strip('"') for key in ("train.precision", "parallel.system")}
            curves[tuple(settings.values())] = loss
    note = "not run"
    if curves:
        first = next(iter(curves.values()))
        note = f"here from {first[0]:.3f} to {first[-1]:.3f} nat over {len(first)} iterations"
    entry = {**{key: row[key] for key in ("model", "N", "B", "S")}, "fig": "10", "metric": "loss_axis",
             "paper": row["ulysses"], "measured": "", "predicted": "", "note": note}
    entries = [entry]
    pairs = [("fp64", "basp", "fp64", "ulysses"), ("bf16", "basp", "bf16", "ulysses"), ("bf16", "ulysses", "fp32", "ulysses")]
    for pair in pairs:
        a, b = curves.get(pair[:2]), curves.get(pair[2:])
        if a is None or b is None:
            continue
        relative = np.abs(a - b) / np.abs(b)
        name = "loss_difference_" + (pair[0] if pair[0] == pair[2] else f"{pair[0]}_{pair[2]}")
        entries.append({**entry, "metric": name, "paper": "", "measured": f"{np.max(relative):.3g}",
                        "note": f"{pair[1]} {pair[0]} against {pair[3]} {pair[2]}: largest relative difference of "
                                f"{len(a)} iterations, root mean square {np.sqrt(np.mean(relative**2)):.2g}"})
    return entries


def loss_problems(entries):
    """Where Ulysses and BASP are not one training: 1e-12 is what fp64 leaves of 800 iterations (doc/reports.md); in bf16
    they may differ by what rounding to bf16 does to the loss, once for each."""
    found = {entry["metric"].removeprefix("loss_difference_"): float(entry["measured"]) for entry, _ in entries
             if entry["metric"].startswith("loss_difference_")}
    limits = {"fp64": 1e-12, "bf16": 2 * found.get("bf16_fp32", np.inf)}
    return [f"losses in {precision} differ by {found[precision]:.3g}, more than {limit:.3g}"
            for precision, limit in limits.items() if precision in found and not found[precision] <= limit]


def same_order(figure, found):
    """How many pairs of the paper's speed-ups stand in its order here, and which do not. `found`: (name, paper, values)."""
    pairs = [(a, b) for i, a in enumerate(found) for b in found[i + 1:] if a[1] != b[1]]
    other = []
    for pair in pairs:
        low, high = sorted(pair, key=lambda item: item[1])
        if not np.median(low[2]) < np.median(high[2]):
            other.append(f"{low[0]} ({np.median(low[2]):.3f}, {spread_text(low[2])}) and {high[0]} ({np.median(high[2]):.3f}, "
                         f"{spread_text(high[2])})")
    print(f"ORDER: figure {figure}: {len(pairs) - len(other)} of {len(pairs)} pairs of speed-ups in the paper's order"
          + "".join(f"\n       not: {text}" for text in other))


def print_judgement(judged):
    """Speed-ups beside the paper's, and their order within each figure."""
    for figure in dict.fromkeys(figure for figure, *_ in judged):
        found = [(name, paper, values) for number, name, paper, values in judged if number == figure]
        for name, paper, values in found:
            print(f"SPEED-UP: figure {figure}, {name}: {np.median(values):.3f} ({spread_text(values)}); the paper's {paper:.3f}")
        same_order(figure, found)


def write_csv(path, rows):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_whole(path, lambda partial: partial.write_text(text.getvalue(), encoding="utf-8"))


def write_predictions(folder, sweeps, predictions):
    """Every phase of every case, measured and by the model, and how many of them come out."""
    table = [("fig", "case", "phase", "measured", "predicted", "off_pct")]
    steps, phases = [], []
    for name, prediction in predictions.items():
        for case, by_phase in prediction.items():
            found = sweeps[name].cases[case]
            step = float(np.median(found["step_seconds"]))
            for phase in [*found["timers"], "step"]:
                seconds = step if phase == "step" else float(np.median(found["timers"][phase]))
                model = by_phase.get(phase, 0.0)
                off = 100 * (model / seconds - 1) if seconds > 0 else None
                table.append([name.removeprefix("figure"), case, phase, f"{seconds:.6g}", f"{model:.6g}",
                              "" if off is None else f"{off:.1f}"])
                if phase == "step":
                    steps.append(abs(off))
                elif seconds >= PART_OF_STEP * step:
                    phases.append(abs(off))
    if not steps:
        return
    write_csv(folder / "prediction.csv", table)
    for what, errors, limit in (("steps", steps, 10), (f"phases of {100 * PART_OF_STEP:.0f} % of a step or more", phases, 20)):
        print(f"MODEL: {what} within {limit} %: {sum(off <= limit for off in errors)} of {len(errors)}; median off "
              f"{np.median(errors):.1f} %, worst {max(errors):.1f} %")
    print(f"model    {folder / 'prediction.csv'}")


def write_summary(folder):
    """Exit code 0 where all runs are VALID and losses agree."""
    sweeps = {path.parent.name: load_sweep(path) for path in sorted(folder.glob("figure*/sweep.h5"))}
    if not sweeps:
        raise Failure(folder, "holds no figureN/sweep.h5", "scripts/run_paper.sh FOLDER makes them")
    predictions = {name: load_prediction(folder / name, sweep) for name, sweep in sweeps.items()}
    predicted = {name: as_sweep(predictions[name], sweep) for name, sweep in sweeps.items()}
    entries, judged = [], []
    for row in paper_rows():
        for figure in figures_of(row):
            if row["metric"] == "loss_axis":
                entries += [(entry, None) for entry in loss_entries(row, [sweeps[name] for name in sweeps if "figure10" in name])]
                continue
            sweep = sweeps.get(f"figure{figure}")
            for metric, paper in metrics_of(figure, row):
                entry, values = entry_of(figure, row, metric, paper, sweep, predicted.get(f"figure{figure}"))
                entries.append((entry, values))
                if values is not None and metric in ("e2e_speedup", "step_reduction_pct"):
                    convert = (lambda value: 1 / (1 - value / 100)) if metric == "step_reduction_pct" else (lambda value: value)
                    judged.append((figure, f"{row['model']} B={row['B']} S={row['S']}", convert(float(paper)), convert(values)))
    for figure in ("7", "8"):
        entries += unstated(figure, sweeps.get(f"figure{figure}"), predicted.get(f"figure{figure}"), entries)
    write_csv(folder / "summary.csv", [COLUMNS, *([entry[column] for column in COLUMNS] for entry, _ in entries)])
    print_judgement(judged)
    write_predictions(folder, sweeps, predictions)
    print(f"summary  {folder / 'summary.csv'}")
    invalid = [f"{name}/sweep.h5" for name, sweep in sweeps.items() if not sweep.valid] + loss_problems(entries)
    print(f"VALID: {'no, ' + '; '.join(invalid) if invalid else 'yes'}")
    return 1 if invalid else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    points = commands.add_parser("points")
    points.add_argument("figure", choices=sorted(POINTS, key=int))
    rate = commands.add_parser("rate")
    rate.add_argument("folder", type=Path)
    rate.add_argument("--case", required=True)
    rate.add_argument("--share", required=True, type=float, help="percent")
    links = commands.add_parser("links")
    links.add_argument("folder", type=Path)
    links.add_argument("rate", nargs="?")
    commands.add_parser("summary").add_argument("folder", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "points":
        print_points(arguments.figure)
    elif arguments.command == "rate":
        print_rate(arguments.folder, arguments.case, arguments.share)
    elif arguments.command == "links":
        print_links(arguments.folder, arguments.rate)
    else:
        return write_summary(arguments.folder)
    return 0


if __name__ == "__main__":
    sys.exit(run_script("paper_results.py", main))
