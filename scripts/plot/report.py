#!/usr/bin/env python3
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
"""A page about one run or several side by side, from the HDF5 files that `minisp run DECK output.file=...` leaves, or
about a sweep, from its sweep.h5: verdict, figure of merit, step by phase, who waits for whom, traffic, memory,
provenance. One HTML file without anything from elsewhere; every number carries the place in the HDF5 file that it was
read from (data-path)."""

import argparse
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it was
import drawing
from drawing import bytes_text, seconds_text, significant
import sweep_page
from html_page import decks, document, escaped, number, origins, table, words
from results import (SWEEP_FORMAT, Failure, check_output, format_of, in_order, labels_of, load_run, load_sweep, np, run_script,
                     write_whole)


def several(labels, label, columns):
    """Titles of one run's columns; the first names the run where there are several."""
    return [f"{label}: {columns[0]}" if len(labels) > 1 else columns[0]] + columns[1:]


# ---------------------------------------------------------------------------------------------------------------
# Sections of the page. Each takes the runs and their labels.


def verdicts(runs, labels):
    boxes = []
    for place, (run, label) in enumerate(zip(runs, labels)):
        failed = sum(not passed for *_, passed in run.checks)
        reasons = "".join(f"<li>{escaped(reason)}</li>" for reason in run.reasons)
        mark = "✔ VALID" if run.valid else "✘ INVALID"
        found = f"{len(run.checks)} checks, {failed or 'none'} failed"
        fom = run.figure_of_merit["tokens_per_s"]
        boxes.append(
            f'<div class="verdict {"valid" if run.valid else "invalid"}"><div>{escaped(label)}</div><b>{mark}</b> '
            f'<span class="note">{found}</span><div class="big" data-run="{place}" '
            f'data-path="/figure_of_merit@tokens_per_s" data-value="{fom!r}">{significant(fom)} tokens/s</div>'
            f'<div class="note">{escaped(headline(run))}</div>{f"<ul>{reasons}</ul>" if reasons else ""}</div>')
    return f'<div class="verdicts">{"".join(boxes)}</div>'


def headline(run):
    s = run.settings
    ranks, nodes = run.provenance["ranks"], run.provenance["nodes"]
    return (f"{run.system}, {ranks} rank{'s' * (ranks != 1)} on {nodes} node{'s' * (nodes != 1)}, "
            f"{run.root['precision']}, {run.root['optimizer']}, sharding {s.get('parallel.sharding', '?').strip(chr(34))}; "
            f"{s.get('train.batch')} sequences of {s.get('train.sequence_length')} tokens a step")


def figure_of_merit(runs, labels):
    def row(title, show, path, value, divisor=lambda run: 1):
        cells = [number(show(value(run) / divisor(run)), value(run), path, place, divisor(run))
                 for place, run in enumerate(runs)]
        return [words(title)] + cells

    def fom(key):
        return f"/figure_of_merit@{key}", lambda run: run.figure_of_merit[key]

    def flops(value):
        return f"{significant(value / 1e9)} GFLOP/s"

    def percent(value):
        return f"{significant(100 * value)} %"

    rows = [row("tokens/s (all ranks, median step)", significant, *fom("tokens_per_s")),
            row("model FLOP/s (all ranks)", flops, *fom("model_flops_per_s")),
            row("matrix-product rate, same run", flops, *fom("gemm_flops_per_s")),
            row("model over matrix-product rate", percent, *fom("gemm_fraction")),
            row("seconds a step, median", seconds_text, *fom("median_step_seconds")),
            row("fastest timed step", seconds_text, "min:/metrics/seconds", lambda run: float(np.min(run.step_seconds))),
            row("slowest timed step", seconds_text, "max:/metrics/seconds", lambda run: float(np.max(run.step_seconds))),
            row("loss before the last step, nat", significant, "last:/metrics/loss",
                lambda run: float(run.metrics["loss"][-1]))]
    if all(np.isfinite(run.floor) for run in runs):
        rows.append(row("entropy rate of the tokens, nat: no loss is less", significant, "/metrics@entropy_rate",
                        lambda run: run.floor))
    rows.append([words("exchange around attention, of the step")]
                + [words(percent(exchange_share(run)), "n") for run in runs])
    if len(runs) > 1:
        base = runs[0].figure_of_merit["tokens_per_s"]
        rows.append([words(f"speed-up over {labels[0]}")] + [
            words(significant(run.figure_of_merit["tokens_per_s"] / base) if base > 0 else "none", "n") for run in runs])
    same = len({(run.settings.get("train.batch"), run.settings.get("train.sequence_length"), run.ranks,
                 run.root["precision"]) for run in runs}) == 1
    note = "" if same else ('<p class="note">These runs differ in batch, sequence length, ranks or precision: their '
                            "tokens/s are not comparable under doc/run_rules.md.</p>")
    return ("<h2>Figure of merit</h2>" + table([""] + labels, rows) + note +
            "<h3>Every step, slowest rank</h3>" + drawing.steps_picture(runs, labels))


def exchange_share(run):
    seconds = sum(float(np.mean(s)) for phase, s in run.phases.items() if phase.startswith("exchange"))
    return seconds / float(np.sum(run.step_seconds))


def checks(runs, labels):
    rows = []
    names = list(dict.fromkeys(name for run in runs for name, *_ in run.checks))
    for name in names:
        cells = [words(name)]
        for place, run in enumerate(runs):
            at = next((i for i, check in enumerate(run.checks) if check[0] == name), None)
            if at is None:
                cells += [words("not made", "n"), words(""), words("")]
                continue
            _, value, limit, passed = run.checks[at]
            cells += [number(f"{value:.3g}", value, f"/verdict/checks/value[{at}]", place),
                      number(f"{limit:.3g}", limit, f"/verdict/checks/limit[{at}]", place),
                      words("✔ ok" if passed else "✘ FAILED", "short")]
        rows.append(cells)
    head = [title for label in labels for title in several(labels, label, ["found", "at most", ""])]
    return f'<h2>What was checked</h2><div class="wide">{table(["check"] + head, rows)}</div>'


def phases(runs, labels):
    rows = []
    found = {name for run in runs for name in run.phases}
    brief = len(runs) > 2  # the width of a page
    for phase in in_order(found):
        cells = [words(phase, "short"), words(drawing.kind_of(phase), "short")][:1 if brief else 2]
        for place, run in enumerate(runs):
            cells += phase_cells(run, place, phase)[:1 if brief else 3]
        rows.append(cells)
    columns = ["mean rank"] if brief else ["mean rank", "slowest", "share"]
    head = [title for label in labels for title in several(labels, label, columns)]
    return ("<h2>Where the step goes</h2>" + drawing.step_picture(runs, labels) +
            '<details open><summary>Phases, seconds a step</summary><div class="wide">'
            + table(["phase", "kind"][:1 if brief else 2] + head, rows) + "</div></details>")


def phase_cells(run, place, phase):
    if phase not in run.phases:
        return [words("–", "n")] * 3
    seconds, steps = run.phases[phase], run.timed_steps
    mean, most = float(np.mean(seconds)), float(np.max(seconds))
    return [number(seconds_text(mean / steps), mean, f"/timers/{phase}/mean", place, steps),
            number(seconds_text(most / steps), most, f"/timers/{phase}/max", place, steps),
            words(f"{100 * mean / float(np.sum(run.step_seconds)):.1f} %", "n")]


def waiting_sentence(run):
    """Who keeps the others, in words."""
    if run.ranks == 1:
        return "One rank waits for nobody."
    step, hosts = float(np.mean(run.step_seconds)), drawing.hosts_of(run)
    parts = drawing.divided(run)

    def named(rank):
        return f"rank {rank}" + (f" ({hosts[rank]})" if hosts[rank] else "")

    latest = int(np.argmax(parts["computing"]))
    more = float(parts["computing"][latest] - np.mean(parts["computing"])) / step
    computing = f"{named(latest)} computes longest, by {100 * more:.1f} % of the step more than the mean rank."
    if "waiting" not in parts:
        beyond = 100 * float(np.mean(parts["beyond the quickest rank"])) / step
        return (f"The mean rank is {beyond:.1f} % of the step longer in collectives than the quickest rank in each; {computing} "
                "Where one rank computes longer and the others are longer in collectives, they wait for it.")
    wait, wire = (100 * float(np.mean(parts[name])) / step for name in ("waiting", "moving bytes"))
    text = f"The mean rank waits {wait:.1f} % of the step and has bytes on the wire for {wire:.1f} %; {computing}"
    if run.waited_for is not None and np.sum(run.waited_for) > 0:
        most = int(np.argmax(run.waited_for))
        share = 100 * run.waited_for[most] / np.sum(run.waited_for)
        text += f" {share:.0f} % of all waiting is for {named(most)} (◂: the share of it that a rank is the cause of)."
    text += drawing.slow_wire(parts["moving bytes"] / step)
    if run.clock_error is not None and len(run.clock_error):
        text += f" Clocks agree within {seconds_text(float(np.max(np.abs(run.clock_error))))}."
    return text


def ranks(runs, labels):
    boxes = "".join(f"<div><h3>{escaped(label)}</h3><p>{escaped(waiting_sentence(run))}</p>{drawing.rank_picture(run)}"
                    f"{drawing.matrix_picture(run)}</div>" for run, label in zip(runs, labels))
    note = ("Bars: seconds a step of every rank. Below: every rank in every phase (⇄: with a collective in it); ▲ and "
            "orange: more than 1 % of the step above the mean rank, ▽ and blue: below.")
    grouped = [run for run in runs if run.ranks > drawing.MOST_ROWS]
    if grouped:
        note += (f" Where there are more than {drawing.MOST_ROWS} ranks, neighbours share a row: bars show their mean, "
                 "numbers the rank that differs most.")
    return f'<h2>Who waits for whom</h2><p class="note">{note}</p><div class="ranks">{boxes}</div>'


def traffic(runs, labels):
    text = "<h2>Traffic, all ranks, a step</h2>" + drawing.traffic_picture(runs, labels)
    for place, (run, label) in enumerate(zip(runs, labels)):
        rows = []
        for row in run.traffic:
            counted, expected = row.bytes_on_node + row.bytes_off_node, row.expected_bytes
            cells = [words(f"{row.collective}, {row.phase}")]
            for name, values in (("calls", row.calls), ("bytes_on_node", row.bytes_on_node),
                                 ("bytes_off_node", row.bytes_off_node), ("expected_bytes", expected)):
                total = float(np.sum(values))
                show = significant(total / run.timed_steps) if name == "calls" else bytes_text(total / run.timed_steps)
                cells.append(number(show, total, f"sum:{row.path}/{name}", place, run.timed_steps))
            differ = int(np.count_nonzero(counted != expected))
            cells.append(words("✔ equal" if differ == 0 else f"✘ {differ} ranks differ", "short"))
            for name, values in (("seconds", row.seconds), ("own_seconds", row.own), ("wait_seconds", row.wait),
                                 ("wire_seconds", row.wire)):
                if values is not None:
                    mean = float(np.mean(values))
                    cells.append(number(seconds_text(mean / run.timed_steps), mean, f"mean:{row.path}/{name}", place,
                                        run.timed_steps))
            rows.append(cells)
        if not rows:
            text += f"<p>{escaped(label)}: nothing is sent.</p>"
            continue
        split = ["own", "wait", "wire"] if run.traffic[0].wait is not None else []
        head = ["collective, phase", "calls", "on node", "off node", "by the formula", "", "mean rank"] + split
        text += f"<h3>{escaped(label)}</h3>" + table(head, rows)
    return text


def memory(runs, labels):
    rows = []
    for place, (run, label) in enumerate(zip(runs, labels)):
        measured, predicted = run.memory["measured"], run.memory["predicted"]
        off = np.max(np.abs(measured / np.maximum(predicted, 1) - 1))
        rows.append([words(label),
                     number(bytes_text(float(np.max(measured))), np.max(measured), "max:/memory/measured", place),
                     number(bytes_text(float(np.max(predicted))), np.max(predicted), "max:/memory/predicted", place),
                     words(f"{100 * off:.1f} %", "n")])
    head = ["", "measured, fullest rank", "by the formula", "largest difference of any rank"]
    return "<h2>Memory</h2>" + drawing.memory_picture(runs, labels) + table(head, rows)


def settings(runs, labels):
    """The settings in which the runs differ; their files' names say nothing."""
    if len(runs) == 1:
        return ""
    keys = [key for key in runs[0].settings if not key.startswith("output.")]
    rows = [[words(key)] + [words(run.settings.get(key, "")) for run in runs] for key in keys
            if len({run.settings.get(key) for run in runs}) > 1]
    return "<h3>Settings that differ</h3>" + (table(["key"] + labels, rows, False) if rows else "<p>None.</p>")


def provenance(runs, labels):
    return origins(runs, labels) + settings(runs, labels) + decks(runs, labels)


def run_page(runs):
    labels = labels_of(runs)
    sections = [verdicts, figure_of_merit, phases, ranks, traffic, memory, checks, provenance]
    return document(f"miniSP: {', '.join(labels)} – {Path(runs[0].texts['deck_file'][0]).stem}",
                    [section(runs, labels) for section in sections])


def page_of(paths):
    sweeps = [path for path in paths if format_of(path) == SWEEP_FORMAT]
    if not sweeps:
        return run_page([load_run(path) for path in paths])
    if len(paths) > 1:
        raise Failure(sweeps[0], "is a sweep, and stands on a page of its own", "Give it alone, or give results of runs")
    return sweep_page.page(load_sweep(sweeps[0]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="+", metavar="FILE.h5",
                        help="result files, of which the first is the one compared with; or one sweep.h5")
    parser.add_argument("--output", required=True, metavar="FILE.html", help="the page")
    parser.add_argument("--overwrite", action="store_true", help="replace the page that is there")
    arguments = parser.parse_args()
    check_output(arguments.output, arguments.overwrite)
    text = page_of(arguments.results)
    write_whole(arguments.output, lambda partial: partial.write_text(text, encoding="utf-8"))
    print(f"report   {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script("report.py", main))
