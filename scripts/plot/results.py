# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
"""What the scripts beside this share: result files read into plain data, colours, and outputs written whole or not at
all. The layout of the files is that of doc/output_format.md."""

import importlib
import math
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

# Okabe and Ito: told apart by colour-blind readers, and different in grey. Hatches or labels stand beside them.
BLUE, SKY, GREEN, YELLOW = "#0072B2", "#56B4E9", "#009E73", "#F0E442"
ORANGE, VERMILLION, PURPLE, GREY = "#E69F00", "#D55E00", "#CC79A7", "#999999"

FORMAT, SWEEP_FORMAT, FORMAT_VERSION = "miniSP result", "miniSP sweep", 1

# Phases in the order of a step; what a later version adds comes after them.
PHASES = ["data", "zero_gradients", "gather weights", "embedding", "dropout", "norm", "linear_qkv", "rope_pack",
          "exchange_qkv forward", "attention forward", "exchange_output forward", "linear_output", "mlp", "head_loss",
          "exchange_output backward", "attention backward", "exchange_qkv backward", "reduce gradients",
          "loss_reduction", "gradient_norm", "optimizer"]
# Where the ledger's name of a phase and the timer's differ.
TIMER_OF_TRAFFIC = {"token count": "data", "loss": "loss_reduction", "gradient norm": "gradient_norm"}


class Failure(Exception):
    """Ends a script: FILE: what is wrong. What to do. Exit code 2 for bad input, 3 for the environment."""

    def __init__(self, where, what, remedy, code=2):
        super().__init__(f"{where}: {what}. {remedy}")
        self.code = code


def module(name, package):
    """A module that Debian packages; ends the script where this Python has none."""
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"{Path(sys.argv[0]).name}: {sys.executable}: this Python has no {name}. Install it (Debian, Ubuntu: apt-get "
              f"install {package}, and start the script with /usr/bin/python3)", file=sys.stderr)
        sys.exit(3)


np = module("numpy", "python3-numpy")
h5py = module("h5py", "python3-h5py")


def pyplot_module():
    """matplotlib.pyplot that needs no display, with text that stays text in SVG and PDF."""
    module("matplotlib", "python3-matplotlib").use("Agg")
    pyplot = importlib.import_module("matplotlib.pyplot")
    pyplot.rcParams.update({
        "svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "miniSP", "font.size": 9, "axes.grid": True,
        "grid.color": "#DDDDDD", "grid.linewidth": 0.5, "axes.axisbelow": True, "axes.spines.top": False,
        "axes.spines.right": False, "legend.frameon": False, "hatch.linewidth": 0.6})
    return pyplot


def run_script(name, main):
    """Exit code of main(), with a Failure as one line on standard error."""
    try:
        return main()
    except Failure as failure:
        print(f"{name}: {failure}", file=sys.stderr)
        return failure.code
    except BrokenPipeError:
        return 3


def check_output(path, overwrite):
    path = Path(path)
    if path.is_dir():
        raise Failure(path, "is a folder", "Name a file")
    if not path.parent.is_dir():
        raise Failure(path, f"there is no folder {path.parent}", "Make it, or name another file")
    if path.exists() and not overwrite:
        raise Failure(path, "exists", "Name another file, or give --overwrite")


def check_figure(path):
    if Path(path).suffix not in (".svg", ".pdf", ".png"):
        raise Failure(path, f"'{Path(path).suffix}' is no kind of figure", "End it in .svg, .pdf or .png")


def write_whole(path, write):
    """Calls write(temporary path) and renames that to `path`: a failure leaves what was there."""
    path = Path(path)
    partial = path.with_name(f"{path.stem}.partial{path.suffix}")
    try:
        write(partial)
        os.replace(partial, path)
    except OSError as error:
        raise Failure(path, f"cannot be written ({error.strerror or error})", "Free space, or name another file",
                      3) from error
    finally:
        partial.unlink(missing_ok=True)


def save_figure(figure, path):
    """The same bytes for the same numbers: no dates. An SVG names no document type, which some viewers would load."""
    metadata = {".svg": dict.fromkeys(("Creator", "Date", "Format", "Type")), ".pdf": {"CreationDate": None}}

    def write(partial):
        figure.savefig(partial, dpi=150, bbox_inches="tight", metadata=metadata.get(partial.suffix, {}))
        if partial.suffix == ".svg":
            text = partial.read_text(encoding="utf-8")
            partial.write_text(re.sub(r"<!DOCTYPE[^>]*>\n?", "", text, count=1), encoding="utf-8")

    write_whole(path, write)


# ---------------------------------------------------------------------------------------------------------------
# Result files.


@dataclass
class Traffic:
    """One collective in one phase; arrays of one entry a rank, summed over the timed steps."""
    collective: str
    phase: str
    calls: object
    bytes_on_node: object
    bytes_off_node: object
    expected_bytes: object
    seconds: object
    own: object = None   # these three where the run divided its collectives' time, else None
    wait: object = None
    wire: object = None

    @property
    def path(self):
        return f"/comm/{self.collective}/{self.phase}"

    @property
    def timer(self):
        return TIMER_OF_TRAFFIC.get(self.phase, self.phase)


@dataclass
class Run:
    """A result file. Seconds and bytes are sums over the timed steps, as in the file."""
    file: str
    root: dict
    provenance: dict
    texts: dict       # deck, overrides, command_line, environment, hosts, kokkos_configuration
    settings: dict
    metrics: dict     # name -> one entry a step
    warmup: int
    floor: float      # nats, NaN where unknown
    phases: dict      # name -> one entry a rank, in the order of a step
    traffic: list
    waited_for: object  # seconds that all ranks waited for each; None where not measured
    clock_error: object
    memory: dict
    figure_of_merit: dict
    valid: bool
    reasons: list
    checks: list      # (name, value, limit, passed)

    @property
    def ranks(self):
        return len(self.memory["measured"])

    @property
    def timed_steps(self):
        return len(self.metrics["seconds"]) - self.warmup

    @property
    def step_seconds(self):
        """Seconds of each timed step, slowest rank."""
        return self.metrics["seconds"][self.warmup:]

    @property
    def system(self):
        return system_name(self.root["decomposition"])

    def communicates(self, phase):
        return any(row.timer == phase for row in self.traffic)


@dataclass
class Case:
    """A case of a sweep; seconds and bytes are those of a step."""
    name: str
    baseline: str      # name of the case that it is compared with, or None
    overrides: list
    spreads: dict      # "step_seconds_median", "..._least", ... as in the file
    rounds: object     # their numbers
    phases: dict       # name -> one entry a round, mean rank
    waited_for: object    # one entry a rank, mean over rounds: seconds that all ranks waited for it; None where not known
    wire_of_rank: object  # one entry a rank, mean over rounds: seconds on the wire

    @property
    def path(self):
        return f"/cases/{self.name}"

    @property
    def step(self):
        """Mean seconds a step, which the phases add up to."""
        return self.spreads["mean_step_seconds_median"]

    def median(self, quantity):
        return self.spreads[f"{quantity}_median"]


@dataclass
class Ratio:
    """A case against its baseline, round by round."""
    name: str
    baseline: str
    spreads: dict
    step: object      # one entry a round that both have
    exchange: object  # or None


@dataclass
class Sweep:
    """A sweep's file. `texts` as in a Run, and the sweep's own text."""
    file: str
    rounds: int  # those asked for
    provenance: dict
    texts: dict
    cases: list
    ratios: list
    valid: bool
    reasons: list

    @property
    def finished(self):
        """Cases that have run at least once."""
        return [case for case in self.cases if len(case.rounds)]


@dataclass
class Curve:
    """The losses of a run or of a sweep's case, warm-up steps first."""
    file: str  # and the case, behind a colon
    system: str
    settings: dict
    floor: float
    loss: object


def system_name(name):
    return {"ulysses": "Ulysses", "basp": "BASP"}.get(name, name)


def plain(value):
    """Attribute or text as Python's own type."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.item() if hasattr(value, "item") else value


def entropy_rate(metrics):
    """The least loss that any model can reach on the tokens, in nats; NaN where it is not known."""
    return float(metrics.attrs.get("entropy_rate", math.nan))


def in_order(phases):
    """The phases in the order of a step, unknown ones last."""
    return [name for name in PHASES if name in phases] + sorted(set(phases) - set(PHASES))


def read_phases(file):
    found = {name: group["per_rank"][:] for name, group in file["timers"].items() if "per_rank" in group}
    return {name: found[name] for name in in_order(found)}


def read_traffic(file):
    rows = []
    for collective, phases in file.get("comm", {}).items():
        for phase, group in phases.items():
            divided = [group[name][:] if name in group else None
                       for name in ("own_seconds", "wait_seconds", "wire_seconds")]
            rows.append(Traffic(collective, phase, *(group[name][:] for name in (
                "calls", "bytes_on_node", "bytes_off_node", "expected_bytes", "seconds")), *divided))
    places = {name: place for place, name in enumerate(PHASES)}
    return sorted(rows, key=lambda row: (places.get(row.timer, len(places)), row.path))


def read_verdict(file):
    checks = file["verdict/checks"]
    rows = list(zip(map(plain, checks["name"][:]), checks["value"][:].tolist(), checks["limit"][:].tolist(),
                    (bool(passed) for passed in checks["passed"][:])))
    return bool(file["verdict"].attrs["valid"]), [plain(text) for text in file["verdict/reasons"][:]], rows


def text_of(file, path):
    """A dataset of texts as a list; empty where it is not there."""
    return [plain(text) for text in file[path][:]] if path in file else []


def read_run(path, file):
    arrivals = file.get("arrivals", {})
    settings = settings_of(file["input/settings"])
    metrics = file["metrics"]
    valid, reasons, checks = read_verdict(file)
    texts = {name: text_of(file, f"provenance/{name}")
             for name in ("command_line", "environment", "hosts", "kokkos_configuration")}
    texts.update({name: text_of(file, f"input/{name}") for name in ("deck", "overrides")})
    run = Run(
        file=str(path), root={key: plain(value) for key, value in file.attrs.items()},
        provenance={key: plain(value) for key, value in file["provenance"].attrs.items()}, texts=texts,
        settings=settings, metrics={name: values[:] for name, values in metrics.items()},
        warmup=int(metrics.attrs["warmup_steps"]), floor=entropy_rate(metrics), phases=read_phases(file),
        traffic=read_traffic(file), waited_for=arrivals["waited_for"][:] if "waited_for" in arrivals else None,
        clock_error=arrivals["clock_error"][:] if "clock_error" in arrivals else None,
        memory={name: file[f"memory/{name}"][:] for name in ("predicted", "measured")},
        figure_of_merit={key: float(value) for key, value in file["figure_of_merit"].attrs.items()}, valid=valid,
        reasons=reasons, checks=checks)
    run.texts["deck_file"] = [plain(file["input"].attrs["deck_file"])]
    return run


def open_file(path, formats):
    """The file opened for reading, of one of these formats."""
    if not Path(path).is_file():
        raise Failure(path, "there is no such file", "minisp run DECK output.file=FILE.h5 makes one")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise Failure(path, f"is not a readable HDF5 file ({str(error).splitlines()[0]})",
                      "Give a file that a finished run has left") from error
    kind, version = plain(file.attrs.get("format", "")), plain(file.attrs.get("format_version", 0))
    if kind not in formats:
        file.close()
        raise Failure(path, f"is no {' or '.join(formats)}: its attribute 'format' is '{kind}'",
                      "Give a file of minisp run with output.file")
    if version != FORMAT_VERSION:
        file.close()
        raise Failure(path, f"has layout {version}, this script reads {FORMAT_VERSION}",
                      "Take the script of the miniSP that wrote it")
    return file


def format_of(path):
    with open_file(path, [FORMAT, SWEEP_FORMAT]) as file:
        return plain(file.attrs["format"])


def check_run(path, run):
    """A file that another program changed, or that was cut short, ends here and not in a picture."""
    if run.timed_steps < 1:
        raise Failure(path, "has no timed step", "Run with train.steps of at least 1")
    lengths = {len(values) for values in run.metrics.values()}
    if len(lengths) != 1:
        raise Failure(path, "its /metrics differ in length", "Run again: the file is damaged")
    for name, values in list(run.phases.items()) + [(row.path, row.seconds) for row in run.traffic]:
        if len(values) != run.ranks:
            raise Failure(path, f"'{name}' has {len(values)} entries for {run.ranks} ranks",
                          "Run again: the file is damaged")


def load_run(path):
    """A result file as a Run."""
    with open_file(path, [FORMAT]) as file:
        try:
            run = read_run(path, file)
        except (KeyError, ValueError, TypeError) as error:
            raise lacking(path, error) from error
    check_run(path, run)
    return run


def read_case(name, group):
    phases = {phase: seconds[:] for phase, seconds in group.get("timers", {}).items()}
    attributes = {key: plain(value) for key, value in group.attrs.items()}
    of_ranks = [np.mean(group[key][:], axis=0) if key in group else None for key in ("waited_for", "wire_of_rank")]
    return Case(name, attributes.pop("baseline", None), [plain(text) for text in group["overrides"][:]], attributes,
                group["round"][:], {phase: phases[phase] for phase in in_order(phases)}, *of_ranks)


def read_ratio(name, group):
    attributes = {key: plain(value) for key, value in group.attrs.items()}
    return Ratio(name, attributes.pop("baseline"), attributes, group["step"][:],
                 group["exchange"][:] if "exchange" in group else None)


def load_sweep(path):
    """A sweep's file as a Sweep."""
    with open_file(path, [SWEEP_FORMAT]) as file:
        try:
            names = text_of(file, "case_names")
            ratios = file.get("ratios", {})
            texts = {name: text_of(file, f"provenance/{name}") for name in ("command_line", "environment", "hosts")}
            texts.update({name: text_of(file, f"input/{name}") for name in ("deck", "sweep")})
            texts.update({name: [plain(file["input"].attrs[name])] for name in ("deck_file", "sweep_file")})
            sweep = Sweep(
                file=str(path), rounds=int(file.attrs["rounds"]),
                provenance={key: plain(value) for key, value in file["provenance"].attrs.items()}, texts=texts,
                cases=[read_case(name, file[f"cases/{name}"]) for name in names],
                ratios=[read_ratio(name, ratios[name]) for name in names if name in ratios],
                valid=bool(file["verdict"].attrs["valid"]), reasons=text_of(file, "verdict/reasons"))
            for case in sweep.finished:  # a file of a version that did not divide the exchange ends here
                case.median("mean_step_seconds"), case.median("exchange_wait_seconds")
        except (KeyError, ValueError, TypeError) as error:
            raise lacking(path, error, "sweep") from error
    if not sweep.finished:
        raise Failure(path, "has no finished round", "Run the sweep")
    return sweep


def settings_of(group):
    return {key: plain(value) for key, value in group.attrs.items()}


def load_losses(path, formats):
    """A list of Curve: one of a result, one a case of a sweep."""
    with open_file(path, formats) as file:
        try:
            if plain(file.attrs["format"]) == FORMAT:
                cases = {"": (file["input/settings"], file["metrics/loss"], file["metrics"])}
            else:
                names = [plain(name) for name in file["case_names"][:]]
                cases = {f":{name}": (file[f"cases/{name}/settings"], file[f"cases/{name}/loss"], file[f"cases/{name}"])
                         for name in names if f"cases/{name}/loss" in file}  # a case without a round has none
            curves = []
            for name, (settings, loss, metrics) in cases.items():
                settings = settings_of(settings)
                system = system_name(settings["parallel.system"].strip('"'))
                curves.append(Curve(f"{path}{name}", system, settings, entropy_rate(metrics), loss[:]))
        except (KeyError, ValueError, TypeError) as error:
            raise lacking(path, error) from error
    if not curves or any(len(curve.loss) == 0 for curve in curves):
        raise Failure(path, "has no losses", "Run with train.steps of at least 1")
    return curves


def lacking(path, error, kind="result"):
    return Failure(path, f"lacks what a {kind} has ({str(error).strip(chr(34))})",
                   "Run again: the file is damaged, or of another version")


def labels_of(runs):
    """A short name a run: the system where these differ, with its precision if need be, else the file's name, else the
    whole path."""
    precise = [f"{run.system} {run.settings.get('train.precision', '')}".replace('"', "") for run in runs]
    for names in ([run.system for run in runs], precise, [Path(run.file).stem for run in runs]):
        if len(set(names)) == len(names):
            return names
    return [run.file for run in runs]
