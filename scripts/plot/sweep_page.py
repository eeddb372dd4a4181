# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
"""The page about a sweep: verdict, cases, ratios with their spread, step by phase, the exchange divided, who waits for
whom, traffic, memory, provenance. Numbers are medians over rounds as the sweep's file holds them."""

from pathlib import Path

import drawing
from drawing import Picture, axis_text, bytes_text, legend, seconds_text, significant, stacked_bars
from html_page import decks, document, escaped, folded, number, origins, table, words
from results import BLUE, VERMILLION, np

DIVIDED = {"own copies and sums": "exchange_own_seconds", "waiting": "exchange_wait_seconds",
           "moving bytes": "exchange_wire_seconds"}
ABREAST = 6  # cases in one table of phases: the width of a page


def cell(case, quantity, show, spread="median", divisor=1.0):
    """The number of the case's spread, shown as a share of `divisor` where there is one."""
    key = f"{quantity}_{spread}"
    value = case.spreads[key]
    return number(show(value / divisor), value, f"{case.path}@{key}", 0, divisor)


def percent(value):
    return f"{significant(100 * value)} %"


def factor(value):
    return f"{value:.4f}"


# ---------------------------------------------------------------------------------------------------------------
# Sections of the page.


def verdict(sweep):
    done = sum(len(case.rounds) for case in sweep.cases)
    wanted = sweep.rounds * len(sweep.cases)
    reasons = "".join(f"<li>{escaped(reason)}</li>" for reason in sweep.reasons)
    p = sweep.provenance
    about = (f"{len(sweep.cases)} cases, {done} of {wanted} runs done, {len(sweep.reasons) or 'none'} INVALID; "
             f"{p['ranks']} rank{'s' * (p['ranks'] != 1)} on {p['nodes']} node{'s' * (p['nodes'] != 1)}")
    return (f'<div class="verdicts"><div class="verdict {"valid" if sweep.valid else "invalid"}">'
            f"<b>{'✔ VALID' if sweep.valid else '✘ INVALID'}</b> <span class=\"note\">{escaped(about)}</span>"
            f'<div class="big">{headline(sweep)}</div>{f"<ul>{reasons}</ul>" if reasons else ""}</div></div>')


def headline(sweep):
    """Range of the speed-ups, or of tokens/s where nothing is compared."""
    if sweep.ratios:
        key, what = "step_median", "speed-up of the step over the baseline"
        found = [(ratio.spreads[key], f"/ratios/{ratio.name}@{key}") for ratio in sweep.ratios]
        show = factor
    else:
        key, what = "tokens_per_s_median", "tokens/s"
        found = [(case.spreads[key], f"{case.path}@{key}") for case in sweep.finished]
        show = significant
    ends = sorted({min(found), max(found)})
    return " to ".join(f'<span data-run="0" data-path="{escaped(path)}" data-value="{value!r}">{show(value)}</span>'
                       for value, path in ends) + f' <span class="note">{what}, median over rounds</span>'


def cases(sweep):
    rows = []
    for case in sweep.cases:
        if not len(case.rounds):
            rows.append([words(case.name, "short"), words("0", "n")] + [words("–", "n")] * 9)
            continue
        spread = (case.spreads["step_seconds_most"] - case.spreads["step_seconds_least"]) / case.median("step_seconds")
        rows.append([words(case.name, "short"), words(len(case.rounds), "n"),
                     cell(case, "step_seconds", seconds_text), cell(case, "step_seconds", seconds_text, "least"),
                     cell(case, "step_seconds", seconds_text, "most"), words(f"{100 * spread:.1f} %", "n"),
                     cell(case, "exchange_fraction", percent)]
                    + [cell(case, quantity, percent, divisor=case.step) for quantity in DIVIDED.values()]
                    + [cell(case, "tokens_per_s", significant)])
    head = ["case", "rounds", "step", "least", "most", "spread", "exchange", "its own work", "its wait", "its wire", "tokens/s"]
    note = ("Step: median over rounds of the median timed step, with the least and the most of any round. Exchange: the "
            "all-to-alls around attention, in percent of the step, divided into the ranks' own work, waiting for the last "
            "rank, and moving bytes (mean rank).")
    return f'<h2>Cases</h2><div class="wide">{table(head, rows)}</div><p class="note">{note}</p>'


def ratios(sweep):
    if not sweep.ratios:
        return ""
    rows = []
    for ratio in sweep.ratios:
        at = f"/ratios/{ratio.name}@"
        cells = [words(ratio.name, "short"), words(ratio.baseline, "short"), words(len(ratio.step), "n")]
        for key in ("median", "lower_quartile", "upper_quartile", "least", "most"):
            cells.append(number(factor(ratio.spreads[f"step_{key}"]), ratio.spreads[f"step_{key}"], f"{at}step_{key}", 0))
        exchange = ratio.spreads.get("exchange_median")
        cells.append(words("none", "n") if exchange is None else
                     number(significant(exchange), exchange, f"{at}exchange_median", 0))
        difference = ratio.spreads["loss_difference"]
        cells.append(number(f"{difference:.3e}", difference, f"{at}loss_difference", 0))
        rows.append(cells)
    head = ["case", "over", "rounds", "step", "quarter", "three quarters", "least", "most", "exchange", "loss differs by"]
    note = ("Seconds of the baseline over those of the case, formed within each round: right of 1 the case is faster. Bars: "
            "from the least to the most; boxes: the middle half of the rounds; circles: the median.")
    return (f'<h2>Speed-ups</h2><p class="note">{note}</p>{ratio_picture(sweep.ratios)}'
            f'<div class="wide">{table(head, rows)}</div>')


def ratio_picture(ratios):
    left, right, high = 330, 930, 20
    picture = Picture(1000, 30 + high * len(ratios), "Speed-up of the step")
    least = min(1.0, *(ratio.spreads["step_least"] for ratio in ratios))
    most = max(1.0, *(ratio.spreads["step_most"] for ratio in ratios))
    room = 0.05 * (most - least) or 0.05
    least, most = least - room, most + room
    bottom = 8 + high * len(ratios)
    step = drawing.tick_step(most - least)

    def across(value):
        return left + (value - least) / (most - least) * (right - left)

    for tick in np.arange(np.ceil(least / step), np.floor(most / step) + 1) * step:
        picture.line(across(tick), 4, across(tick), bottom, "#CCCCCC")
        picture.text(across(tick), bottom + 12, f"{tick:.6g}", "middle", 9)
    picture.line(across(1), 4, across(1), bottom, "#000", 1.2, "3 2")
    for place, ratio in enumerate(ratios):
        y, s = 8 + high * (place + 0.5), ratio.spreads
        picture.text(left - 8, y + 4, f"{ratio.name} over {ratio.baseline}", "end", 10)
        picture.line(across(s["step_least"]), y, across(s["step_most"]), y, width=1.2)
        begin, end = across(s["step_lower_quartile"]), across(s["step_upper_quartile"])
        picture.rectangle(begin, y - 4, end - begin, 8, "#CCCCCC")
        picture.marker(across(s["step_median"]), y, "circle", BLUE if s["step_median"] >= 1 else VERMILLION)
        picture.text(right + 8, y + 4, factor(s["step_median"]), size=10)
    return picture.svg()


def kinds(case):
    """Seconds a step by kind of phase, medians over rounds; what no phase covers last."""
    parts = {}
    for phase, seconds in case.phases.items():
        kind = drawing.kind_of(phase)
        parts[kind] = parts.get(kind, 0) + float(np.median(seconds))
    parts["in no phase"] = max(case.step - sum(parts.values()), 0)
    return {kind: parts[kind] for kind in drawing.FILLS if kind in parts}


def case_bars(title, parts_of, sweep):
    """A bar a case of {fill: seconds a step}."""
    found = {case.name: parts_of(case) for case in sweep.finished}
    rows = [(name, [(fill, value, f"{fill}: {seconds_text(value)}") for fill, value in parts.items()],
             seconds_text(sum(parts.values()))) for name, parts in found.items()]
    used = [fill for fill in drawing.FILLS if any(fill in parts for parts in found.values())]
    return stacked_bars(title, rows, 1000, axis_text, 250, 22 if len(rows) <= 12 else 14) + legend(used)


def phases(sweep):
    names = list(dict.fromkeys(phase for case in sweep.finished for phase in case.phases))
    tables = []
    for first in range(0, len(sweep.finished), ABREAST):
        abreast = sweep.finished[first:first + ABREAST]
        rows = []
        for phase in names:
            cells = [words(phase, "short"), words(drawing.kind_of(phase), "short")]
            for case in abreast:
                if phase in case.phases:
                    value = float(np.median(case.phases[phase]))
                    cells.append(number(seconds_text(value), value, f"median:{case.path}/timers/{phase}", 0))
                else:
                    cells.append(words("–", "n"))
            rows.append(cells)
        tables.append(table(["phase", "kind"] + [case.name for case in abreast], rows))
    return ("<h2>Where the step goes</h2>" + case_bars("Seconds a step by kind of phase", kinds, sweep)
            + '<details open><summary>Phases, seconds a step of the mean rank</summary><div class="wide">'
            + "".join(tables) + "</div></details>")


def exchange(sweep):
    if not any(case.median("exchange_seconds") > 0 for case in sweep.finished):
        return ""
    return ("<h2>The exchange around attention, divided</h2>" + case_bars(
        "Seconds a step in the exchange", lambda case: {fill: case.median(key) for fill, key in DIVIDED.items()}, sweep))


def waiting_sentence(case, hosts):
    """Who keeps the others, in words."""
    if case.waited_for is None or not np.sum(case.waited_for) > 0:
        return f"{case.name}: nobody waits."
    most = int(np.argmax(case.waited_for))
    host = f" ({hosts[most]})" if len(hosts) == len(case.waited_for) else ""
    text = (f"{case.name}: the mean rank waits {100 * case.median('wait_seconds') / case.step:.1f} % of the step, "
            f"{100 * case.waited_for[most] / np.sum(case.waited_for):.0f} % of that for rank {most}{host}.")
    return text if case.wire_of_rank is None else text + drawing.slow_wire(case.wire_of_rank / case.step)


def rank_matrix(title, rows):
    """rows: [(case's name, percent of the step of each rank)]; colours are what differs from the row's mean rank."""
    groups = drawing.rows_of_ranks(len(rows[0][1]))
    cell_width, high, left, top = 46 if len(groups) <= 8 else 34, 17, 180, 36
    picture = Picture(left + cell_width * len(groups) + 8, top + high * len(rows) + 6, title)
    picture.text(4, 12, title, size=10.5, bold=True)
    picture.text(left - 6, top - 5, "rank", "end", 9)
    for column, (label, _) in enumerate(groups):
        picture.text(left + (column + 0.5) * cell_width, top - 5, label, "middle", 9)
    for row, (name, shares) in enumerate(rows):
        y, mean = top + row * high, float(np.mean(shares))
        picture.text(left - 6, y + high * 0.72, name, "end", 9.5)
        for column, (_, ranks) in enumerate(groups):
            value = drawing.farthest(shares[ranks], mean)
            x = left + column * cell_width
            picture.rectangle(x, y, cell_width, high, drawing.shade((value - mean) / 100), f"{name}: {value:.2f} %")
            sign = "▲" if value - mean > 1 else "▽" if mean - value > 1 else ""
            picture.text(x + cell_width - 3, y + high * 0.72, f"{sign}{value:.1f}", "end", 9)
    return picture.svg()


def ranks(sweep):
    shown = [case for case in sweep.finished if case.waited_for is not None and case.wire_of_rank is not None]
    if sweep.provenance["ranks"] == 1 or not shown:
        return ""
    late = [(case.name, 100 * case.waited_for / (case.step * len(case.waited_for))) for case in shown]
    wire = [(case.name, 100 * case.wire_of_rank / case.step) for case in shown]
    rows = [[words(case.name, "short"), cell(case, "wait_seconds", percent, divisor=case.step),
             cell(case, "wire_seconds", percent, divisor=case.step)] for case in shown]
    sentences = "".join(f"<p>{escaped(waiting_sentence(case, sweep.texts['hosts']))}</p>" for case in shown)
    note = ("All collectives, mean over rounds. ▲ and orange: more than 1 % of the step above the mean rank, ▽ and blue: "
            "below. A slow rank is the one that is waited for; a slow link shows on the wire of all ranks that share it.")
    return (f'<h2>Who waits for whom</h2><p class="note">{note}</p>{sentences}<div class="ranks">'
            f"<div>{rank_matrix('Percent of the step that the mean rank waits for each', late)}</div>"
            f"<div>{rank_matrix('Percent of the step that bytes are on the wire of each', wire)}</div></div>"
            + table(["all collectives, of the step", "wait", "wire"], rows))


def traffic(sweep):
    tiers = {"on the node": "bytes_on_node", "to other nodes": "bytes_off_node"}
    bars = [(case.name, [(fill, case.median(key) / 2**20, bytes_text(case.median(key))) for fill, key in tiers.items()],
             bytes_text(sum(case.median(key) for key in tiers.values()))) for case in sweep.finished]
    rows = [[words(case.name, "short")] + [cell(case, key, bytes_text) for key in tiers.values()] for case in sweep.finished]
    picture = stacked_bars("Bytes a step of all ranks", bars, 1000, lambda most: lambda tick: f"{tick:.6g} MiB", 250,
                           22 if len(bars) <= 12 else 14)
    return ("<h2>Traffic, all ranks, a step</h2>" + picture + legend(list(tiers))
            + table(["case", "on the node", "to other nodes"], rows))


def memory(sweep):
    rows = [[words(case.name, "short"), cell(case, "memory", bytes_text), cell(case, "memory_predicted", bytes_text)]
            for case in sweep.finished]
    return "<h2>Memory</h2>" + table(["fullest rank", "measured", "by the formula"], rows)


def provenance(sweep):
    rows = [[words(case.name, "short"), words(case.baseline or ""), words("  ".join(case.overrides))] for case in sweep.cases]
    return (origins([sweep], [""]) + "<h3>What the cases set</h3>"
            + table(["case", "compared with", "beside the deck"], rows, False)
            + folded(f"The sweep, {sweep.texts['sweep_file'][0]}", "\n".join(sweep.texts["sweep"])) + decks([sweep], ["all cases"]))


def page(sweep):
    sections = [verdict, cases, ratios, phases, exchange, ranks, traffic, memory, provenance]
    return document(f"miniSP: sweep {Path(sweep.texts['sweep_file'][0]).stem}", [section(sweep) for section in sections])
