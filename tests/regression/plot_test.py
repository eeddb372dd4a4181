# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
"""Called by plot_test.sh:  plot_test.py PYTHON SCRIPTS FOLDER  with ulysses.h5 and basp.h5 in FOLDER. Reads the numbers
back out of what the scripts made and holds them against the HDF5 files."""

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
    functions = {"sum": np.sum, "mean": np.mean, "min": np.min, "max": np.max, "last": lambda v: v[-1], "": lambda v: v[0]}
    return float(functions[function](values))


def check_page(page, names):
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


def slow_rank(file):
    """Rank 2 arrives late in one exchange, by a file in which collectives are divided; texts want escaping."""
    for collective, phases in file["comm"].items():
        for phase, group in phases.items():
            seconds = group["seconds"][:]
            wait = np.where(np.arange(len(seconds)) == 2, 0, 0.5 * seconds)
            for name, values in (("own", 0.1 * seconds), ("wait", wait), ("wire", 0.9 * seconds - wait)):
                group[f"{name}_seconds"][...] = values
    file["arrivals/waited_for"][...] = np.array([0.0, 0.1, 0.9, 0.0])
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
    change("ulysses.h5", "slow.h5", slow_rank)
    text, page = report("slow.html", "slow.h5")
    check_page(page, ["slow.h5"])
    expect("✘ INVALID" in "".join(page.words) and "&lt;script&gt;late" in text, "an INVALID run is not said to be one")
    expect(re.search(r"90 % of all waiting is for rank 2", text), "the rank that is waited for is not named")
    expect("mean:/comm/all_to_all/exchange_qkv forward/wait_seconds" in text, "waiting a collective is not shown")


def test_refusals():
    (folder / "text.h5").write_text("no HDF5")
    change("basp.h5", "other.h5", lambda file: file.attrs.modify("format", "another"))
    change("basp.h5", "newer.h5", lambda file: file.attrs.modify("format_version", 2))
    change("basp.h5", "lacking.h5", lambda file: file.__delitem__("memory"))
    page = folder / "refused.html"
    for name, pattern in (("absent.h5", "absent.h5: there is no such file"), ("text.h5", "text.h5: is not a readable HDF5"),
                          ("other.h5", "other.h5: is no miniSP result"), ("newer.h5", "newer.h5: has layout 2"),
                          ("lacking.h5", "lacking.h5: lacks what a result has")):
        refuse(2, pattern, "report.py", folder / name, "--output", page)
        expect(not page.exists(), f"{name} left a page")
    refuse(2, "two.html: exists", "report.py", folder / "basp.h5", "--output", folder / "two.html")
    refuse(2, "there is no folder", "report.py", folder / "basp.h5", "--output", folder / "nowhere/page.html")
    succeed("report.py", folder / "basp.h5", "--output", folder / "two.html", "--overwrite")


test_report()
test_refusals()
print(f"plot_test.py: {checks} checks passed")
