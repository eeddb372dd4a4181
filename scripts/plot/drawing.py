# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
"""The report's pictures as inline SVG: colours with hatches, so that they survive a print in grey."""

import html
import math

from results import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, YELLOW, np

# What a phase belongs to, in the order in which bars are stacked: colour and hatch.
FILLS = {
    "attention": (BLUE, ""),
    "matrix products": (SKY, "/"),
    "other computing": (GREEN, "-"),
    "exchange around attention": (VERMILLION, "\\"),
    "gradients and weights": (ORANGE, "x"),
    "data and scalars": (PURPLE, "."),
    "in no phase": ("#FFFFFF", ""),
    "computing": (BLUE, ""),
    "own copies and sums": (SKY, "/"),
    "waiting": (VERMILLION, "\\"),
    "moving bytes": (ORANGE, "x"),
    "in collectives": (ORANGE, "x"),
    "beyond the quickest rank": (VERMILLION, "\\"),
    "on the node": (SKY, "/"),
    "to other nodes": (VERMILLION, "\\"),
    "measured": (BLUE, ""),
    "by the formula": (YELLOW, "-"),
}
KINDS = {"attention": ("attention forward", "attention backward"),
         "matrix products": ("linear_qkv", "linear_output", "mlp", "head_loss"),
         "gradients and weights": ("reduce gradients", "gather weights"),
         "data and scalars": ("data", "loss_reduction")}
MOST_ROWS = 32  # ranks a picture; more are taken together


def kind_of(phase):
    if phase.startswith("exchange"):
        return "exchange around attention"
    return next((kind for kind, phases in KINDS.items() if phase in phases), "other computing")


def significant(value, digits=4):
    """A number with so many digits, without exponent where it can be read without."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    exponent = math.floor(math.log10(abs(value)))
    if not -4 <= exponent < 9:
        return f"{value:.{digits - 1}e}"
    text = f"{value:.{max(digits - 1 - exponent, 0)}f}"
    return text


def seconds_text(value):
    for unit, scale in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(value) >= scale:
            return f"{significant(value / scale)} {unit}"
    return "0 s" if value == 0 else f"{significant(value / 1e-6)} µs"


def bytes_text(value):
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            return f"{value:.0f} B" if unit == "B" and value == int(value) else f"{significant(value)} {unit}"
        value /= 1024
    return ""


def identifier(name):
    return "fill-" + "".join(c if c.isalnum() else "-" for c in name)


def hatch_lines(hatch, colour):
    stroke = f'stroke="{colour}" stroke-width="1"'
    lines = {"/": ["M0,6 L6,0 M-1,1 L1,-1 M5,7 L7,5"], "\\": ["M0,0 L6,6 M-1,5 L1,7 M5,-1 L7,1"],
             "-": ["M0,3 L6,3"], "x": ["M0,0 L6,6 M0,6 L6,0"]}.get(hatch, [])
    if hatch == ".":
        return f'<circle cx="3" cy="3" r="1" fill="{colour}"/>'
    return "".join(f'<path d="{path}" fill="none" {stroke}/>' for path in lines)


def fill_definitions():
    """Hidden SVG that every picture of the page takes its fills from."""
    patterns = []
    for name, (colour, hatch) in FILLS.items():
        lines = hatch_lines(hatch, "#FFFFFF" if colour in (BLUE, VERMILLION, GREEN) else "#444444")
        patterns.append(f'<pattern id="{identifier(name)}" width="6" height="6" patternUnits="userSpaceOnUse">'
                        f'<rect width="6" height="6" fill="{colour}"/>{lines}</pattern>')
    return f'<svg width="0" height="0" style="position:absolute"><defs>{"".join(patterns)}</defs></svg>'


def legend(names):
    swatch = ('<svg width="22" height="12"><rect x="0.5" y="0.5" width="21" height="11" stroke="#000" '
              'stroke-width="0.5" fill="url(#{})"/></svg>')
    return '<p class="legend">' + " ".join(
        f"<span>{swatch.format(identifier(name))} {html.escape(name)}</span>" for name in names) + "</p>"


class Picture:
    """An SVG of fixed coordinates; `title` is what a screen reader says."""

    def __init__(self, width, height, title):
        self.width, self.height, self.title = width, height, title
        self.parts = []

    def rectangle(self, x, y, width, height, fill, tip=""):
        inside = f"<title>{html.escape(tip)}</title>" if tip else ""
        paint = f"url(#{identifier(fill)})" if fill in FILLS else fill
        self.parts.append(f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(width, 0):.2f}" height="{height:.2f}" '
                          f'fill="{paint}" stroke="#000" stroke-width="0.4">{inside}</rect>')

    def text(self, x, y, words, anchor="start", size=10, rotate=0, halo=False, bold=False):
        extra = f' transform="rotate({rotate} {x:.2f} {y:.2f})"' if rotate else ""
        extra += ' class="halo"' if halo else ""
        extra += ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{x:.2f}" y="{y:.2f}" font-size="{size}" text-anchor="{anchor}"{extra}>'
                          f"{html.escape(words)}</text>")

    def line(self, x1, y1, x2, y2, colour="#000", width=0.5, dashes=""):
        self.parts.append(f'<line x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}" stroke="{colour}" '
                          f'stroke-width="{width}" stroke-dasharray="{dashes}"/>')

    def polyline(self, points, colour, dashes=""):
        at = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
        self.parts.append(f'<polyline points="{at}" fill="none" stroke="{colour}" stroke-width="1.4" '
                          f'stroke-dasharray="{dashes}"/>')

    def marker(self, x, y, shape, colour):
        if shape == "circle":
            self.parts.append(f'<circle cx="{x:.2f}" cy="{y:.2f}" r="2.6" fill="{colour}"/>')
        else:
            self.parts.append(f'<rect x="{x - 2.4:.2f}" y="{y - 2.4:.2f}" width="4.8" height="4.8" fill="#fff" '
                              f'stroke="{colour}" stroke-width="1.2"/>')

    def axis(self, left, right, bottom, most, text, top):
        """Ticks of 0 to `most` between left and right; returns pixels a unit."""
        scale = (right - left) / most if most > 0 else 0
        step = tick_step(most)
        for tick in np.arange(0, most * 1.0001, step) if step > 0 else [0]:
            x = left + tick * scale
            self.line(x, top, x, bottom, "#CCCCCC")
            self.text(x, bottom + 12, text(tick), "middle", 9)
        self.line(left, bottom, right, bottom)
        return scale

    def svg(self):
        return (f'<svg viewBox="0 0 {self.width} {self.height}" style="max-width:{self.width}px" role="img" '
                f'aria-label="{html.escape(self.title, quote=True)}">{"".join(self.parts)}</svg>')


def tick_step(most):
    if not most > 0:
        return 0
    power = 10.0 ** math.floor(math.log10(most / 5))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= most / 5)


def axis_text(most):
    """How ticks up to `most` seconds are written."""
    unit, scale = ("s", 1) if most >= 1 else ("ms", 1e-3) if most >= 1e-3 else ("µs", 1e-6)
    return lambda tick: f"{tick / scale:.6g} {unit}"


def stacked_bars(title, rows, width, text, label_width=150, bar=22):
    """rows: [(label, [(fill, value, tip)], remark)], longest stack to the right edge. `text` writes a tick."""
    height = 12 + len(rows) * (bar + 8) + 22
    picture = Picture(width, height, title)
    most = max((sum(value for _, value, _ in parts) for _, parts, _ in rows), default=0)
    right = width - 70
    scale = picture.axis(label_width, right, height - 20, most, text(most) if callable(text) else text, 4)
    for place, (label, parts, remark) in enumerate(rows):
        y, x = 8 + place * (bar + 8), label_width
        picture.text(label_width - 6, y + bar * 0.65, label, "end")
        total = sum(value for _, value, _ in parts)
        for fill, value, tip in parts:
            picture.rectangle(x, y, value * scale, bar, fill, tip)
            if value * scale > 34 and total > 0 and bar > 14:
                picture.text(x + value * scale / 2, y + bar * 0.67, f"{100 * value / total:.0f} %", "middle", halo=True)
            x += value * scale
        picture.text(x + 5, y + bar * 0.65, remark, size=9)
    return picture.svg()


# ---------------------------------------------------------------------------------------------------------------
# Pictures of runs.


def step_parts(run):
    """Seconds a step of the mean rank by kind of phase, what no phase covers last."""
    step = float(np.mean(run.step_seconds))
    parts = {}
    for phase, seconds in run.phases.items():
        kind = kind_of(phase)
        parts[kind] = parts.get(kind, 0) + float(np.mean(seconds)) / run.timed_steps
    parts["in no phase"] = max(step - sum(parts.values()), 0)
    return {kind: parts[kind] for kind in FILLS if kind in parts}


def step_picture(runs, labels):
    rows = []
    for run, label in zip(runs, labels):
        parts = step_parts(run)
        rows.append((label, [(kind, value, f"{kind}: {seconds_text(value)}") for kind, value in parts.items()],
                     seconds_text(sum(parts.values()))))
    used = [kind for kind in FILLS if any(kind in step_parts(run) for run in runs)]
    return stacked_bars("Seconds a step by kind of phase", rows, 1000, axis_text) + legend(used)


def steps_picture(runs, labels):
    """Seconds of every step; the warm-up steps stand on grey."""
    width, height, left, bottom = 1000, 150, 80, 122
    picture = Picture(width, height, "Seconds of every step")
    most = 1.1 * max(float(np.max(run.step_seconds)) for run in runs)
    steps = max(len(run.metrics["seconds"]) for run in runs)
    across = (width - left - 110) / max(steps - 1, 1)
    warmup = max(run.warmup for run in runs)
    if warmup > 0:
        picture.parts.append(f'<rect x="{left - 4}" y="6" width="{(warmup - 0.5) * across + 4:.2f}" height="{bottom - 6}" '
                             'fill="#EEEEEE"/>')
        picture.text(left, bottom - 5, "warm-up", size=9)
    tick = tick_step(most)
    for value in np.arange(0, most, tick):
        y = bottom - value / most * (bottom - 6)
        picture.line(left, y, width - 110, y, "#CCCCCC")
        picture.text(left - 8, y + 3, axis_text(most)(value), "end", 9)
    for place in range(0, steps, max(1, math.ceil(steps / 12))):
        picture.text(left + place * across, bottom + 13, str(place), "middle", 9)
    picture.text(width - 110, bottom + 24, "step", "end", 9)
    ends = []
    for number, (run, label) in enumerate(zip(runs, labels)):
        colour = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, "#000000")[number % 6]
        dashes = ("", "5 3", "2 2", "8 3 2 3")[number % 4]
        # A warm-up step can take much longer: it ends at the top.
        points = [(left + i * across, bottom - min(s / most, 1) * (bottom - 6))
                  for i, s in enumerate(run.metrics["seconds"])]
        picture.polyline(points, colour, dashes)
        for x, y in points if len(points) < 60 else points[-1:]:
            picture.marker(x, y, ("circle", "square")[number % 2], colour)
        ends.append((points[-1][1], points[-1][0], label))
    free = 0.0
    for y, x, label in sorted(ends):  # from the top; a label that another one covers moves down
        free = max(y + 4, free + 11)
        picture.text(x + 8, free, label, size=10)
    return picture.svg()


def rows_of_ranks(ranks):
    """Consecutive ranks that share a row: [(label, slice)]."""
    share = math.ceil(ranks / MOST_ROWS)
    return [(f"{first}" if share == 1 else f"{first}–{min(first + share, ranks) - 1}", slice(first, first + share))
            for first in range(0, ranks, share)]


def divided(run):
    """{fill: seconds a step of every rank}: what a rank does of its own, and what it spends on others."""
    steps = run.timed_steps
    collective = sum((row.seconds for row in run.traffic), np.zeros(run.ranks)) / steps
    phases = sum(run.phases.values(), np.zeros(run.ranks)) / steps
    computing = {"computing": np.maximum(phases - collective, 0)}
    if run.traffic and all(row.wait is not None for row in run.traffic):
        named = {"own copies and sums": "own", "waiting": "wait", "moving bytes": "wire"}
        return computing | {fill: sum(getattr(row, name) for row in run.traffic) / steps for fill, name in named.items()}
    beyond = sum((row.seconds - np.min(row.seconds) for row in run.traffic), np.zeros(run.ranks)) / steps
    return computing | {"in collectives": collective - beyond, "beyond the quickest rank": beyond}


def hosts_of(run):
    hosts = run.texts["hosts"]
    return hosts if len(hosts) == run.ranks else [""] * run.ranks


def row_label(run, label, ranks):
    """With the host, where the row has one."""
    hosts = set(hosts_of(run)[ranks])
    return f"rank {label}  {hosts.pop()}" if len(hosts) == 1 else f"rank {label}"


def listed(numbers):
    """Whole numbers in words: 0–3, 6."""
    parts = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}–{last}" for first, last in parts)


def slow_wire(shares):
    """Which ranks' bytes take longer than others'; `shares` of the step, one a rank. Empty where all are alike: within
    5 % of the step, which a picture shows well enough."""
    least, most = float(np.min(shares)), float(np.max(shares))
    if most - least <= 0.05:
        return ""
    slow = shares > (least + most) / 2
    words = [f"{100 * np.mean(shares[which]):.1f} % of the step on rank{'s' * (np.count_nonzero(which) != 1)} "
             f"{listed(np.flatnonzero(which).tolist())}" for which in (slow, ~slow)]
    return f" Bytes are on the wire for {words[0]}, {words[1]}."


def farthest(values, mean):
    """The value that differs most from the mean."""
    return float(values[np.argmax(np.abs(values - mean))])


def rank_picture(run):
    parts = {fill: values for fill, values in divided(run).items() if np.any(values > 0)}
    rows = []
    for label, ranks in rows_of_ranks(run.ranks):
        mean = {fill: float(np.mean(values[ranks])) for fill, values in parts.items()}
        remark = ""
        if run.waited_for is not None and np.sum(run.waited_for) > 0:
            remark = f"{100 * np.sum(run.waited_for[ranks]) / np.sum(run.waited_for):.0f} % ◂"
        rows.append((row_label(run, label, ranks),
                     [(fill, value, f"{fill}: {seconds_text(value)}") for fill, value in mean.items()], remark))
    bar = 16 if len(rows) <= 16 else 10
    return stacked_bars("Seconds a step of every rank", rows, 560, axis_text, 110, bar) + legend(parts)


def shade(deviation):
    """From blue (less than the mean rank) over white to orange (more); `deviation` in shares of the step."""
    strength = min(abs(deviation) / 0.1, 1) ** 0.7
    target = (0xE6, 0x9F, 0x00) if deviation > 0 else (0x56, 0xB4, 0xE9)
    return "#" + "".join(f"{round(255 + (c - 255) * strength):02X}" for c in target)


def matrix_columns(run):
    """Phases worth a column, and those that are not, together."""
    step = float(np.mean(run.step_seconds)) * run.timed_steps
    large = [name for name, seconds in run.phases.items() if np.max(seconds) > 0.02 * step]
    columns = {name: run.phases[name] / run.timed_steps for name in large}
    if len(large) < len(run.phases):
        columns["all other"] = sum(v for k, v in run.phases.items() if k not in large) / run.timed_steps
    return columns


def matrix_picture(run):
    """Rank x phase: numbers are seconds a step, colours what differs from the mean rank."""
    columns = matrix_columns(run)
    step = float(np.mean(run.step_seconds))
    scale, unit = (1, "s") if step >= 10 else (1e3, "ms") if step >= 1e-2 else (1e6, "µs")
    rows = rows_of_ranks(run.ranks)
    cell, high, left, top = 42, 17, 110, 112
    picture = Picture(max(left + cell * len(columns) + 75, 560), top + high * len(rows) + 8,
                      f"Rank by phase, {unit} a step")
    for column, (name, seconds) in enumerate(columns.items()):
        x = left + column * cell
        star = "⇄ " if run.communicates(name) else ""
        picture.text(x + cell / 2 + 2, top - 6, star + name, size=9.5, rotate=-42)
        for row, (_, ranks) in enumerate(rows):
            value = farthest(seconds[ranks], np.mean(seconds))
            deviation = (value - float(np.mean(seconds))) / step
            y = top + row * high
            picture.rectangle(x, y, cell, high, shade(deviation), f"{name}: {seconds_text(value)}")
            sign = "▲" if deviation > 0.01 else "▽" if deviation < -0.01 else ""
            picture.text(x + cell - 3, y + high * 0.72, f"{sign}{significant(value * scale, 3)}", "end", 9)
    for row, (label, ranks) in enumerate(rows):
        picture.text(left - 6, top + row * high + high * 0.72, row_label(run, label, ranks), "end", 10)
    picture.text(left - 6, top - 8, f"{unit} a step", "end", 9)
    return picture.svg()


def memory_picture(runs, labels):
    rows = []
    for run, label in zip(runs, labels):
        for name, key in (("measured", "measured"), ("by the formula", "predicted")):
            value = float(np.max(run.memory[key]))
            rows.append((f"{label}, {name}", [(name, value, "")], bytes_text(value)))
    most = max(parts[0][1] for _, parts, _ in rows)
    unit = 1024.0 ** max(math.floor(math.log(most, 1024)), 0) if most > 0 else 1
    name = {1: "B", 1024: "KiB", 1024**2: "MiB", 1024**3: "GiB"}.get(int(unit), "TiB")
    scaled = [(label, [(fill, value / unit, tip) for fill, value, tip in parts], remark) for label, parts, remark in rows]
    return stacked_bars("Memory of the fullest rank", scaled, 700, lambda m: lambda tick: f"{tick:.6g} {name}", 190, 13)


def traffic_picture(runs, labels):
    """Bytes a step of all ranks by tier; collectives below a thousandth of the largest are left to the table."""
    rows = []
    for run, label in zip(runs, labels):
        totals = [(row, float(np.sum(row.bytes_on_node)) / run.timed_steps,
                   float(np.sum(row.bytes_off_node)) / run.timed_steps) for row in run.traffic]
        most = max((on + off for _, on, off in totals), default=0)
        rows += [(f"{label}: {row.phase}", [("on the node", on / 2**20, bytes_text(on)),
                                            ("to other nodes", off / 2**20, bytes_text(off))], bytes_text(on + off))
                 for row, on, off in totals if on + off > 1e-3 * most]
    if not rows:
        return ""
    picture = stacked_bars("Bytes a step of all ranks", rows, 1000, lambda m: lambda tick: f"{tick:.6g} MiB", 250, 15)
    return picture + legend(["on the node", "to other nodes"])
