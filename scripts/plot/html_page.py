# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
"""What pages are made of: style, cells that say where their number stands, tables, the part about where it comes from."""

import html
from collections import Counter

import drawing

STYLE = """
body { font: 14px/1.4 "DejaVu Sans", Verdana, sans-serif; color: #000; max-width: 1040px; margin: 1em auto; padding: 0 1em; }
h1 { font-size: 1.5em; margin: 0; } h2 { font-size: 1.1em; margin: 1.4em 0 .3em; border-bottom: 1px solid #000; }
h3 { font-size: .95em; margin: .6em 0 .2em; } p { margin: .3em 0; }
table { border-collapse: collapse; margin: .3em 0; } td, th { padding: .08em .6em; text-align: left; vertical-align: top; }
thead th { border-bottom: 1px solid #000; } tbody tr:nth-child(even) { background: #F3F3F3; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.short { white-space: nowrap; } .wide { overflow-x: auto; }
.verdicts { display: flex; flex-wrap: wrap; gap: 1em; margin: .8em 0; }
.verdict { flex: 1 1 14em; border: 2px solid #000; border-left-width: 12px; padding: .4em .8em; }
.valid { border-color: #0072B2; } .invalid { border-color: #D55E00; background: #FFF3EC; }
.verdict b { font-size: 1.3em; } .big { font-size: 1.6em; font-weight: bold; }
.ranks { display: flex; flex-wrap: wrap; gap: 1.5em; align-items: flex-start; } .ranks > div { flex: 1 1 460px; }
.legend span { margin-right: 1.2em; white-space: nowrap; font-size: .85em; } .note { font-size: .85em; color: #333; }
svg { width: 100%; height: auto; display: block; } .legend svg { display: inline; width: 22px; vertical-align: middle; }
svg text { font-family: "DejaVu Sans", Verdana, sans-serif; }
.halo { paint-order: stroke; stroke: #FFF; stroke-width: 3px; }
pre { font-size: .8em; white-space: pre-wrap; overflow-wrap: anywhere; margin: .2em 0; } code { overflow-wrap: anywhere; }
* { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
@media print { body { font-size: 9.5px; max-width: none; margin: 0; padding: 0; } h2 { break-after: avoid; }
  table, svg, .verdict { break-inside: avoid; } .ranks > div { flex: 1 1 45%; } @page { margin: 12mm; }
  details::details-content { content-visibility: visible; } }
"""
PROVENANCE = [
    ("miniSP", "version"), ("commit", "commit"), ("date", "date"), ("processor", "processor"),
    ("vector extension", "vector_extension"), ("ranks", "ranks"), ("nodes", "nodes"),
    ("threads a rank", "threads_per_rank"), ("compiler", "compiler"), ("flags", "compile_flags"),
    ("build type", "build_type"), ("MPI", "mpi_library"), ("Kokkos", "kokkos_version"),
    ("execution space", "execution_space"), ("BLAS", "blas_library"), ("BLAS kernel", "blas_kernel"),
    ("fp64 products", "gemm_fp64"), ("fp32 products", "gemm_fp32"), ("bf16 products", "gemm_bf16"),
    ("HDF5", "hdf5_version"), ("delays put in", "injected")]


def escaped(text):
    return html.escape(str(text), quote=True)


def number(text, value, path, run, divisor=1):
    """A table cell whose text shows value / divisor; `path` says where in the file `value` stands."""
    over = f' data-divide="{divisor!r}"' if divisor != 1 else ""
    return f'<td class="n" data-run="{run}" data-path="{escaped(path)}" data-value="{float(value)!r}"{over}>{text}</td>'


def words(text, class_name=""):
    attribute = f' class="{class_name}"' if class_name else ""
    return f"<td{attribute}>{escaped(text)}</td>"


def table(head, rows, numeric=True):
    """head: texts; rows: lists of finished cells. Columns after the first are of numbers or of text."""
    titles = "".join(f"<th{' class=n' if place and numeric else ''}>{escaped(title)}</th>" for place, title in enumerate(head))
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def folded(summary, text):
    return f"<details><summary>{escaped(summary)}</summary><pre>{escaped(text)}</pre></details>"


def counted_hosts(run):
    return ", ".join(f"{host} × {count}" for host, count in Counter(run.texts["hosts"]).items())


def origins(runs, labels):
    """Where each comes from, side by side: of runs or of a sweep."""
    entries = [("file", [run.file for run in runs]), ("deck", [run.texts["deck_file"][0] for run in runs])]
    entries += [(title, [run.provenance.get(key, "") for run in runs]) for title, key in PROVENANCE]
    entries.insert(8, ("hosts × ranks", [counted_hosts(run) for run in runs]))
    entries += [(title, ["\n".join(run.texts.get(key, [])) for run in runs]) for title, key in (
        ("command line", "command_line"), ("overrides", "overrides"), ("environment", "environment"))]
    rows = []
    for title, values in entries:
        if not any(str(value) for value in values):
            continue
        if len({str(value) for value in values}) == 1:  # what all share is said once
            rows.append([words(title), f'<td colspan="{len(runs)}"><code>{lines(values[0])}</code></td>'])
        else:
            rows.append([words(title)] + [f"<td><code>{lines(value)}</code></td>" for value in values])
    advice = {run.provenance.get("blas_advice") for run in runs if run.provenance.get("blas_fallback")}
    notes = "".join(f"<p>✘ {escaped(text)}</p>" for text in advice if text)
    return "<h2>Where it comes from</h2>" + notes + table([""] + labels, rows, False)


def lines(value):
    return "<br>".join(escaped(line) for line in str(value).split("\n"))


def decks(runs, labels):
    texts = {}
    for run, label in zip(runs, labels):
        texts.setdefault("\n".join(run.texts["deck"]), []).append(label)
    return "".join(folded(f"Deck of {', '.join(names)}", text) for text, names in texts.items())


def document(title, sections):
    """The whole page. The policy makes sure of it: nothing is loaded, from the network or this disk."""
    return ("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
            f"<meta name=\"viewport\" content=\"width=device-width\"><title>{escaped(title)}</title>"
            f"<style>{STYLE}</style></head><body>{drawing.fill_definitions()}<h1>{escaped(title)}</h1>"
            + "\n".join(sections) + "</body></html>\n")
