# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
"""Called by plot_test.sh:  plot_test.py PYTHON SCRIPTS FOLDER  with ulysses.h5, basp.h5 and the sweep pair/ in FOLDER. Reads
the numbers back out of what the scripts made and holds them against the HDF5 files."""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import h5py
import numpy as np

python, scripts, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
UNITS = {"s": 1, "ms": 1e-3, "µs": 1e-6, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "GFLOP/s": 1e9, "%": 1e-2,
         "tokens/s": 1, "": 1}
checks = 0


def expect(condition, message):
    global checks
    checks += 1
    if not condition:
        sys.exit(f"FAILED: {message}")


def start(script, *words):
    process = subprocess.run([python, "-B", scripts / script, *map(str, words)], capture_output=True, text=True)
    return process.returncode, process.stdout, process.stderr


def succeed(script, *words):
    code, output, errors = start(script, *words)
    expect(code == 0, f"{script} {words}: exit code {code}\n{output}{errors}")
    return output


def refuse(code, pattern, script, *words):
    """One line of error, no trace of the interpreter."""
    found, _, errors = start(script, *words)
    expect(found == code, f"{script} {words}: exit code {found}, not {code}\n{errors}")
    expect(re.search(pattern, errors) and errors.count("\n") == 1,
           f"{script} {words}: error does not match '{pattern}'\n{errors}")


class Page(HTMLParser):
    """Elements that show a number of a file, what is loaded, and the text."""

    def __init__(self, text):
        super().__init__()
        self.numbers, self.loaded, self.words, self.tags, self.at = [], [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        self.loaded += [v for k, v in attributes.items() if k in ("src", "href", "xlink:href", "data", "srcset", "action")]
        self.loaded += [v for v in attributes.values() if v and "url(" in v and "url(#" not in v]
        if "data-path" in attributes:
            self.at = [attributes, ""]
            self.numbers.append(self.at)

    def handle_endtag(self, tag):
        self.at = None

    def handle_data(self, text):
        self.words.append(text)
        if self.at:
            self.at[1] += text


def stored(file, path):
    """The number that data-path names: FUNCTION:/dataset, /dataset[INDEX], /dataset of one value, /group@attribute."""
    function, _, path = path.rpartition(":")
    if "@" in path:
        group, name = path.split("@")
        return float(file[group].attrs[name])
    index = re.search(r"\[(\d+)\]$", path)
    if index:
        return float(file[path[:index.start()]][int(index.group(1))])
    values = file[path][:]
    if path.startswith("/metrics"):
        values = values[file["metrics"].attrs["warmup_steps"]:]
    if not function:
        expect(len(values) == 1, f"{path} is not one number")
    functions = {"sum": np.sum, "mean": np.mean, "min": np.min, "max": np.max, "median": np.median,
                 "last": lambda v: v[-1], "": lambda v: v[0]}
    return float(functions[function](values))


def check_numbers(page, names):
    """Every number of the page against the file; returns where they stand: {(run, path)}."""
    files = [h5py.File(folder / name) for name in names]
    paths = set()
    for attributes, text in page.numbers:
        value, path = float(attributes["data-value"]), attributes["data-path"]
        truth = stored(files[int(attributes["data-run"])], path)
        expect(np.isclose(value, truth, rtol=1e-14, atol=0, equal_nan=True), f"{path}: {value} in the page, {truth} in the file")
        shown = re.fullmatch(r"(\S+) ?(\S*)", text)
        number = float(shown.group(1)) * UNITS[shown.group(2)]
        wanted = truth / float(attributes.get("data-divide", 1))
        expect(np.isclose(number, wanted, rtol=6e-3 if "checks" in path else 6e-4), f"{path}: '{text}' is shown for {wanted}")
        paths.add((attributes["data-run"], path))
    return paths


def check_page(page, names):
    paths = check_numbers(page, names)
    for run, file in enumerate(map(h5py.File, (folder / name for name in names))):
        for phase in file["timers"]:
            expect((str(run), f"/timers/{phase}/mean") in paths, f"phase {phase} of run {run} is not in the page")
        for collective, phases in file["comm"].items():
            for phase in phases:
                expect((str(run), f"sum:/comm/{collective}/{phase}/bytes_off_node") in paths, f"{collective}, {phase} is missing")
        expect((str(run), "/figure_of_merit@tokens_per_s") in paths, "no figure of merit")
        expect((str(run), f"/verdict/checks/value[{len(file['verdict/checks/name']) - 1}]") in paths, "a check is missing")
        for key in ("compiler", "compile_flags", "blas_kernel", "mpi_library", "commit"):
            expect(file["provenance"].attrs[key] in "".join(page.words), f"provenance lacks {key}")


def report(output, *names):
    succeed("report.py", *(folder / name for name in names), "--output", folder / output)
    text = (folder / output).read_text(encoding="utf-8")
    page = Page(text)
    expect(not page.loaded, f"{output} loads {page.loaded}")
    expect(not {"script", "link", "img", "iframe", "object"} & set(page.tags), f"{output} has elements that load")
    expect("@import" not in text and not re.search(r"url\((?!#)", text), f"{output} loads by its style")
    return text, page


def change(source, target, edit):
    shutil.copy(folder / source, folder / target)
    with h5py.File(folder / target, "r+") as file:
        edit(file)


def put(group, name, values):
    if name in group:
        del group[name]
    group[name] = values


def undivided(file):
    """As a version left it that did not divide the time of collectives."""
    file.pop("arrivals", None)
    for phases in file["comm"].values():
        for group in phases.values():
            for name in ("own_seconds", "wait_seconds", "wire_seconds"):
                group.pop(name, None)


def slow_rank(file):
    """Rank 2 arrives late in one exchange, by a file in which collectives are divided; texts want escaping."""
    for collective, phases in file["comm"].items():
        for phase, group in phases.items():
            seconds = group["seconds"][:]
            wait = np.where(np.arange(len(seconds)) == 2, 0, 0.5 * seconds)
            for name, values in (("own", 0.1 * seconds), ("wait", wait), ("wire", 0.9 * seconds - wait)):
                put(group, f"{name}_seconds", values)
    put(file, "arrivals/waited_for", np.array([0.0, 0.1, 0.9, 0.0]))
    file["verdict"].attrs["valid"] = 0
    del file["verdict/reasons"]
    file["verdict"].create_dataset("reasons", data=["<script>late</script>"], dtype=h5py.string_dtype())


def test_report():
    _, page = report("two.html", "ulysses.h5", "basp.h5")
    check_page(page, ["ulysses.h5", "basp.h5"])
    words = "".join(page.words)
    expect(words.count("✔ VALID") == 2 and "INVALID" not in words, "the verdicts")
    _, page = report("one.html", "basp.h5")
    check_page(page, ["basp.h5"])
    change("ulysses.h5", "undivided.h5", undivided)
    text, page = report("undivided.html", "undivided.h5")
    check_page(page, ["undivided.h5"])
    expect("longer in collectives than the quickest rank" in text, "no estimate where collectives are not divided")
    change("ulysses.h5", "slow.h5", slow_rank)
    text, page = report("slow.html", "slow.h5")
    check_page(page, ["slow.h5"])
    expect("✘ INVALID" in "".join(page.words) and "&lt;script&gt;late" in text, "an INVALID run is not said to be one")
    expect(re.search(r"90 % of all waiting is for rank 2", text), "the rank that is waited for is not named")
    expect("mean:/comm/all_to_all/exchange_qkv forward/wait_seconds" in text, "waiting a collective is not shown")


def test_sweep_file():
    """What the sweep's file says of a round is what the round's own file says."""
    with h5py.File(folder / "pair/sweep.h5") as sweep:
        for name in ("ulysses", "basp"):
            case = sweep[f"cases/{name}"]
            for place, number in enumerate(case["round"][:]):
                with h5py.File(folder / f"pair/{name}/round-{number}.h5") as run:
                    rows = {(phase, key): values[:] for phases in run["comm"].values() for phase, group in phases.items()
                            for key, values in group.items()}
                    seconds = run["metrics/seconds"][run["metrics"].attrs["warmup_steps"]:]

                    def mean(key, begin=""):
                        found = [values for (phase, k), values in rows.items() if k == key and phase.startswith(begin)]
                        return np.sum(np.mean(found, axis=1)) / len(seconds)

                    exchange = sum(v["mean"][0] for k, v in run["timers"].items() if k.startswith("exchange")) / len(seconds)
                    for key, value in (
                            ("mean_step_seconds", np.mean(seconds)), ("exchange_seconds", exchange),
                            ("exchange_own_seconds", mean("own_seconds", "exchange")),
                            ("exchange_wait_seconds", mean("wait_seconds", "exchange")),
                            ("exchange_wire_seconds", mean("wire_seconds", "exchange")),
                            ("wait_seconds", mean("wait_seconds")), ("wire_seconds", mean("wire_seconds"))):
                        expect(np.isclose(case[key][place], value, rtol=1e-12), f"{name}, round {number}: {key}")
                    parts = sum(case[f"exchange_{part}_seconds"][place] for part in ("own", "wait", "wire"))
                    # The phase also holds the call around the library.
                    expect(0.8 * exchange < parts <= exchange, f"{name}: own, wait and wire are {parts} of {exchange}")
                    waited = run["arrivals/waited_for"][:] / len(seconds)
                    expect(np.allclose(case["waited_for"][place], waited, rtol=1e-12), f"{name}: waited_for")
                    wire = sum(values for (_, key), values in rows.items() if key == "wire_seconds") / len(seconds)
                    expect(np.allclose(case["wire_of_rank"][place], wire, rtol=1e-12), f"{name}: wire_of_rank")
                    expect(case.attrs["entropy_rate"] == run["metrics"].attrs["entropy_rate"], f"{name}: entropy rate")


def slow_sweep(file):
    """Rank 2 is waited for under Ulysses, a slow link is in the second group of BASP; one run is INVALID."""
    case = file["cases/ulysses"]
    put(case, "waited_for", np.array([[0.0, 0.1, 0.9, 0.0]] * 2))
    case = file["cases/basp"]
    put(case, "wire_of_rank", np.array([[0.0, 0.0, 0.5, 0.5]] * 2) * case.attrs["mean_step_seconds_median"])
    file["verdict"].attrs["valid"] = 0
    del file["verdict/reasons"]
    file["verdict"].create_dataset("reasons", data=["case ulysses, round 1: <late>"], dtype=h5py.string_dtype())


def test_sweep_report():
    text, page = report("sweep.html", "pair/sweep.h5")
    paths = {path for _, path in check_numbers(page, ["pair/sweep.h5"])}
    with h5py.File(folder / "pair/sweep.h5") as file:
        for case in ("ulysses", "basp"):
            wanted = [f"median:/cases/{case}/timers/{phase}" for phase in file[f"cases/{case}/timers"]]
            wanted += [f"/cases/{case}@{quantity}_median" for quantity in (
                "step_seconds", "exchange_fraction", "exchange_own_seconds", "exchange_wait_seconds", "exchange_wire_seconds",
                "wait_seconds", "wire_seconds", "tokens_per_s", "bytes_on_node", "bytes_off_node", "memory")]
            expect(set(wanted) <= paths, f"not in the page: {set(wanted) - paths}")
        for key in ("step_median", "step_least", "step_most", "exchange_median", "loss_difference"):
            expect(f"/ratios/basp@{key}" in paths, f"no {key} of the ratio")
        for key in ("compiler", "compile_flags", "commit"):
            expect(file["provenance"].attrs[key] in "".join(page.words), f"provenance lacks {key}")
    words = "".join(page.words)
    expect("✔ VALID" in words and "4 of 4 runs done, none INVALID" in words, "the verdict")
    change("pair/sweep.h5", "slow-sweep.h5", slow_sweep)
    text, page = report("slow-sweep.html", "slow-sweep.h5")
    check_numbers(page, ["slow-sweep.h5"])
    expect("✘ INVALID" in text and "case ulysses, round 1: &lt;late&gt;" in text, "an INVALID sweep is not said to be one")
    expect(re.search(r"ulysses: the mean rank waits [0-9.]+ % of the step, 90 % of that for rank 2", text),
           "the rank that is waited for is not named")
    expect("basp: " in text and "50.0 % of the step on ranks 2–3, 0.0 % of the step on ranks 0–1" in text,
           "the ranks with a slow link are not named")
    page = folder / "refused.html"
    refuse(2, "is a sweep, and stands on a page of its own", "report.py", folder / "basp.h5", folder / "pair/sweep.h5",
           "--output", page)
    change("pair/sweep.h5", "old-sweep.h5", lambda file: file["cases/basp"].attrs.__delitem__("exchange_wait_seconds_median"))
    refuse(2, "old-sweep.h5: lacks what a sweep has", "report.py", folder / "old-sweep.h5", "--output", page)
    expect(not page.exists(), "a refused sweep left a page")


def test_refusals():
    (folder / "text.h5").write_text("no HDF5")
    change("basp.h5", "other.h5", lambda file: file.attrs.modify("format", "another"))
    change("basp.h5", "newer.h5", lambda file: file.attrs.modify("format_version", 2))
    change("basp.h5", "lacking.h5", lambda file: file.__delitem__("memory"))
    page = folder / "refused.html"
    for name, pattern in (("absent.h5", "absent.h5: there is no such file"), ("text.h5", "text.h5: is not a readable HDF5"),
                          ("other.h5", "other.h5: is no miniSP result or miniSP sweep"), ("newer.h5", "newer.h5: has layout 2"),
                          ("lacking.h5", "lacking.h5: lacks what a result has")):
        refuse(2, pattern, "report.py", folder / name, "--output", page)
        expect(not page.exists(), f"{name} left a page")
    refuse(2, "two.html: exists", "report.py", folder / "basp.h5", "--output", folder / "two.html")
    refuse(2, "there is no folder", "report.py", folder / "basp.h5", "--output", folder / "nowhere/page.html")
    succeed("report.py", folder / "basp.h5", "--output", folder / "two.html", "--overwrite")


def self_contained(path):
    """An SVG names namespaces and nothing else outside it."""
    text = path.read_text(encoding="utf-8")
    elsewhere = [found for found in re.findall(r"[\w:]+\s*=\s*\"https?://[^\"]*\"", text) if not found.startswith("xmlns")]
    expect(not elsewhere and "<!DOCTYPE" not in text and not re.search(r"href=\"(?!#)", text), f"{path} refers to {elsewhere}")
    return text


def test_loss_curves():
    with h5py.File(folder / "ulysses.h5") as a, h5py.File(folder / "basp.h5") as b:
        relative = np.abs(b["metrics/loss"][:] - a["metrics/loss"][:]) / a["metrics/loss"][:]
        steps = len(relative)
    line = f"LOSS: largest relative difference {relative.max():.3e} at step {relative.argmax()} of {steps} (BASP against Ulysses)"
    pair = [folder / "ulysses.h5", folder / "basp.h5"]
    output = succeed("loss_curves.py", *pair, "--output", folder / "loss.svg", "--tolerance", "1e-12")
    expect(output.splitlines()[-1] == line, f"the last line is not '{line}' but\n{output}")
    text = self_contained(folder / "loss.svg")
    # Branching 4: (2 - 2^-2) ln 2 nats, as inputs/tiny.toml says too.
    for words in ("Ulysses", "BASP", "entropy rate 1.2130", f"largest {relative.max():.1e}"):
        expect(words in text, f"loss.svg lacks '{words}'")
    expect(line in succeed("loss_curves.py", folder / "pair/sweep.h5", "--output", folder / "loss.svg", "--overwrite"),
           "the sweep's losses differ")
    expect("entropy rate 1.2130" in self_contained(folder / "loss.svg"), "no floor under the losses of a sweep")
    change("basp.h5", "tokens-of-a-file.h5", lambda file: file["metrics"].attrs.__delitem__("entropy_rate"))  # tokens of a file
    succeed("loss_curves.py", folder / "tokens-of-a-file.h5", "--output", folder / "text.pdf")
    for name, value in (("off.h5", 1.5), ("nan.h5", np.nan)):
        change("basp.h5", name, lambda file, value=value: file["metrics/loss"].__setitem__(2, value * file["metrics/loss"][2]))
        code, output, _ = start("loss_curves.py", pair[0], folder / name, "--output", folder / "off.png", "--overwrite",
                                "--tolerance", "1e-12")
        expect(code == 1 and re.search(r"^LOSS: largest relative difference (5\.000e-01|nan) at step 2 ", output, re.M),
               f"{name}: exit code {code}\n{output}")
    refuse(2, "'.txt' is no kind of figure", "loss_curves.py", *pair, "--output", folder / "loss.txt")
    refuse(2, "loss.svg: exists", "loss_curves.py", *pair, "--output", folder / "loss.svg")
    change("basp.h5", "short.h5", lambda file: (file.__delitem__("metrics/loss"), file.__setitem__("metrics/loss", [1.0])))
    refuse(2, "short.h5: has 1 steps, .*ulysses.h5 has", "loss_curves.py", pair[0], folder / "short.h5", "--output",
           folder / "short.svg")


def write_summary(name, rows):
    (folder / name).mkdir()
    header = "fig,model,N,B,S,metric,paper,measured,predicted,note"
    (folder / name / "summary.csv").write_text("\n".join([header, *rows]) + "\n")


def test_paper_figures():
    write_summary("paper", [
        "1/8,llama3.2-1b,8,1,8192,a2a_pct_ulysses,24.5,23.25,22.5,",
        "1/8,llama3.2-1b,8,8,8192,a2a_pct_ulysses,33.8,31.75,32.5,",
        "1/8,llama3.2-1b,8,8,8192,a2a_pct_basp,0.5,0.4375,,K=1",
        "8,llama3.2-1b,8,8,8192,e2e_speedup,1.25,1.375,1.2,over rounds 1.1 to 1.4",
        "8,llama3.2-1b,8,8,8192,a2a_speedup,85,none,,K=1 degenerate",
        "7,qwen3-8b,8,2,16384,a2a_pct_basp,15.5,,,not measured",
        "7,llama3.2-1b,8,2,16384,step_reduction_pct,14.7,20,,",
        "9,llama3.2-3b,8,2,1024,step_reduction_pct,5.7,6.25,,",
        "9,llama3.2-3b,8,2,32768,step_reduction_pct,25.9,24.5,,",
        "10,llama3.2-3b,8,,,loss_difference,none seen,1e-13,,800 iterations"])
    (folder / "paper/figure10").mkdir()
    for name in ("basp.h5", "ulysses.h5"):
        shutil.copy(folder / name, folder / "paper/figure10" / name)
    output = succeed("paper_figures.py", folder / "paper", "--output", folder / "figures")
    for number, count in (("1", "6 numbers"), ("3", None), ("7", "3 numbers"), ("8", "11 numbers"), ("9", "4 numbers"),
                          ("10", "2 curves")):
        line = f"FIGURE: {number} nothing" if count is None else rf"FIGURE: {number} \S+/figure{number}.svg, {count}$"
        expect(re.search(line, output, re.M), f"no line '{line}' in\n{output}")
    expect(re.search(r"^LOSS: .*BASP against Ulysses", output, re.M), f"figure 10 is not against Ulysses\n{output}")
    expect(not (folder / "figures/figure3.svg").exists(), "a figure of nothing")
    # Numbers stand on the bars; 20 % less time is a speed-up of 1.25.
    for number, words in (("1", ("23.2", "31.8")), ("7", ("llama3.2-1b", "qwen3-8b", "1.25", "paper")),
                          ("8", ("0.438", "1.38", "BASP measured", "predicted")), ("9", ("6.25", "24.5", "32768"))):
        text = self_contained(folder / f"figures/figure{number}.svg")
        for word in words:
            expect(f">{word}<" in text, f"figure{number}.svg lacks {word}")
    expect(">85<" not in (folder / "figures/figure8.svg").read_text(), "a speed-up over no all-to-all is drawn")
    refuse(2, "figure1.svg: exists", "paper_figures.py", folder / "paper", "--output", folder / "figures")
    refuse(2, "summary.csv: there is no such file", "paper_figures.py", folder, "--output", folder / "figures2")
    for name, rows, pattern in (("words", ["1,m,8,1,8192,a2a_pct_ulysses,1,fast,,"], "summary.csv:2: 'fast' in column measured"),
                                ("batch", ["1,m,8,two,8192,a2a_pct_ulysses,1,1,,"], "summary.csv:2: 'two' in column B"),
                                ("cut", ["1,m,8"], "summary.csv:2: has 3 of 10 columns"),
                                ("empty", [], "holds no number of these figures")):
        write_summary(name, rows)
        refuse(2, pattern, "paper_figures.py", folder / name, "--output", folder / f"figures-{name}")


test_report()
test_sweep_file()
test_sweep_report()
test_refusals()
test_loss_curves()
test_paper_figures()
print(f"plot_test.py: {checks} checks passed")
