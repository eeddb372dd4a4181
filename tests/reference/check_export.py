#!/usr/bin/env python3
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
"""Does a model that miniSP trained and exported load in Hugging Face Transformers, and compute the same there?

For each reference model: miniSP trains a few steps from its weights and exports (fp64, also on 4 ranks under ZeRO-3;
fp32, also as bfloat16; bf16, mixed precision); Transformers loads the folder; every loaded weight must equal the file's, no tensor
may be missing or unexpected, and its loss and logits are held against those that miniSP computes from the same
folder. Prints the worst differences; exit code 1 when one is too large.

usage: check_export.py [--program build/src/minisp] [--record]
  --record   writes tests/reference/exported/: what tests/regression/export_test.sh, which has no PyTorch, compares
             with: the header of model.safetensors and the config.json that Transformers has accepted, and the loss,
             gradient norm and logits that it computed from the trained weights in fp64.

Needs torch, transformers (4.57 and later), safetensors, h5py, numpy; and mpirun for the 4 ranks.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

REFERENCE = pathlib.Path(__file__).resolve().parent
REPOSITORY = REFERENCE.parents[1]
CASES = json.loads((REFERENCE / "cases.json").read_text())
STEPS = 3

# name: precision of training and of computing with what was exported, export.type, words of the launcher and of the command line,
# largest difference of logits relative to their largest, whether Transformers computes in fp64 throughout
VARIANTS = {
    "fp64": ("fp64", "fp64", "stored", [], [], 1e-12, True),
    "fp64 ZeRO-3": ("fp64", "fp64", "stored", ["mpirun", "--oversubscribe", "-n", "4"],
                     ["parallel.system=basp", "parallel.sharding=zero3"], 1e-12, True),
    "fp32": ("fp32", "fp32", "stored", [], [], 3e-6, False),
    "bfloat16": ("fp32", "fp32", "bfloat16", [], [], 3e-6, False),
    "bf16": ("bf16", "fp32", "stored", [], [], 3e-6, False),
}


# ---------------------------------------------------------------------------------------------------------------
# In a process of its own, for PyTorch's types are renamed where everything is to be fp64: see generate.py.


def documents_of(inputs, eod):
    """Positions and mask under packing (generate.py has the same in loops): both restart after an `eod` token."""
    import torch
    place = torch.arange(inputs.shape[1]).expand_as(inputs)
    ends = (inputs == eod).long()
    document = ends.cumsum(1) - ends
    starts = torch.zeros_like(inputs)
    starts[:, 1:] = ends[:, :-1] * place[:, 1:]
    same = document[:, :, None] == document[:, None, :]
    return place - starts.cummax(1).values, (same & (place[:, None, :] <= place[:, :, None]))[:, None]


def worker(folder, case, output, exact):
    sys.path.insert(0, str(REFERENCE))
    import torch
    dtype = torch.float32
    if exact:
        import generate  # noqa: F401
        dtype = torch.float64
    import numpy as np
    import transformers
    from safetensors import safe_open
    torch.set_num_threads(1)
    # As a user loads it; the numbers are widened only afterwards.
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, torch_dtype="auto", output_loading_info=True, attn_implementation="sdpa")
    problems = {key: sorted(map(str, value)) for key, value in info.items() if value}
    state, shapes, worst = model.state_dict(), {}, 0.0
    with safe_open(pathlib.Path(folder) / "model.safetensors", "pt") as file:
        for name in file.keys():
            stored = file.get_tensor(name)
            shapes[name] = list(stored.shape)
            if name not in state or state[name].shape != stored.shape or state[name].dtype != stored.dtype:
                problems.setdefault("loaded as something else", []).append(name)
            else:
                worst = max(worst, float((state[name].double() - stored.double()).abs().max()))
    unlike = set(state) - set(shapes)
    if model.config.tie_word_embeddings:
        unlike -= {"lm_head.weight"}
    if unlike:
        problems["not in the file"] = sorted(unlike)
    if worst != 0:
        problems["weights differ"] = [str(worst)]
    model = model.to(dtype).eval()
    length, sequences = case["length"], case["sequences"]
    rows = np.fromfile(REFERENCE / case["name"] / "tokens.bin", dtype="<u2").reshape(sequences, length + 1)
    tokens = torch.from_numpy(rows.astype(np.int64))
    inputs, labels = tokens[:, :-1], tokens[:, 1:].clone()
    labels[inputs == case.get("eod", -1)] = -100
    positions, allowed = documents_of(inputs, case.get("eod", -1))
    logits = model(input_ids=inputs, position_ids=positions, attention_mask=allowed, use_cache=False).logits
    valid = int((labels != -100).sum())
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), ignore_index=-100, reduction="sum") / valid
    loss.backward()
    norm = float(torch.sqrt(sum((p.grad.double() ** 2).sum() for p in model.parameters())))
    np.savez(output, logits=logits.detach().double().numpy(), loss=float(loss), gradient_norm=norm,
             valid_tokens=valid)
    print(json.dumps({"problems": problems, "class": type(model).__name__,
                      "transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}))


# ---------------------------------------------------------------------------------------------------------------


class Failure(Exception):
    pass


def run(words):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    process = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=environment)
    if process.returncode != 0:
        raise Failure(f"exit code {process.returncode} from {' '.join(map(str, words))}\n{process.stdout}"
                      f"\n{process.stderr}")
    return process.stdout


def deck_of(case, folder):
    """The lines that tests/regression/export_test.sh gives too."""
    return f"""[model]
folder = "{folder}"
weights = "folder"
[data]
source = "tokens"
file = "{REFERENCE / case['name'] / 'tokens.bin'}"
row_stride = {case['length'] + 1}
end_of_document = {case.get('eod', -1)}
[train]
batch = {case['sequences']}
sequence_length = {case['length']}
steps = {STEPS}
warmup_steps = 0
optimizer = "sgd"
learning_rate = 0.1
clip = 1.0
[verify]
enabled = false
"""


def record(case, exported, theirs, versions):
    import h5py
    target = REFERENCE / "exported" / case["name"]
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(exported / "config.json", target)
    content = (exported / "model.safetensors").read_bytes()
    (target / "header.json").write_bytes(content[8:8 + int.from_bytes(content[:8], "little")])
    with h5py.File(target / "reference.h5", "w") as file:
        file.attrs["source"] = versions + ", fp64 throughout, weights exported by miniSP"
        for key in ("loss", "gradient_norm", "valid_tokens"):
            file.attrs[key] = theirs[key][()]
        file.create_dataset("logits", data=theirs["logits"])


def check(arguments, case, variant, scratch):
    import h5py
    import numpy as np
    precision, precision_after, kind, launcher, more, tolerance, exact = VARIANTS[variant]
    folder = scratch / f"{case['name']}-{variant.replace(' ', '-')}"
    folder.mkdir()
    exported, result = folder / "model", folder / "result.h5"
    (folder / "train.toml").write_text(deck_of(case, REFERENCE / case["name"]))
    run([*launcher, arguments.program, "run", folder / "train.toml", f"train.precision={precision}",
         f"export.folder={exported}", f"export.type={kind}", *more])
    (folder / "forward.toml").write_text(deck_of(case, exported))
    run([arguments.program, "run", folder / "forward.toml", f"train.precision={precision_after}", "train.steps=1",
         "train.learning_rate=0", f"output.file={result}", "output.logits=true"])
    output = folder / "theirs.npz"
    words = [sys.executable, __file__, "--worker", json.dumps([str(exported), case, str(output), exact])]
    report = json.loads(run(words).splitlines()[-1])
    theirs = np.load(output)
    with h5py.File(result) as file:
        logits, loss = file["logits"][:], float(file["metrics/loss"][0])
        norm = float(file["metrics/grad_norm"][0])
    # The logits of bfloat16 weights are computed in fp32 on both sides.
    scale = np.abs(theirs["logits"]).max()
    differences = {"logits": float(np.abs(logits - theirs["logits"]).max() / scale),
                   "loss": abs(loss / float(theirs["loss"]) - 1),
                   "gradient norm": abs(norm / float(theirs["gradient_norm"]) - 1)}
    versions = f"Transformers {report['transformers']}, PyTorch {report['torch']}"
    good = not report["problems"] and differences["logits"] <= tolerance and differences["loss"] <= tolerance
    print(f"{case['name']:24s} {variant:13s} {report['class']:18s} " +
          "  ".join(f"{key} {value:.1e}" for key, value in differences.items()) +
          ("" if good else f"  FAILED {report['problems']}"), flush=True)
    if arguments.record and variant == "fp64" and good:
        record(case, exported, theirs, versions)
    return good, differences, versions


def main():
    if sys.argv[1:2] == ["--worker"]:
        folder, case, output, exact = json.loads(sys.argv[2])
        return worker(folder, case, output, exact)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=REPOSITORY / "build" / "src" / "minisp")
    parser.add_argument("--record", action="store_true", help="write tests/reference/exported/")
    arguments = parser.parse_args()
    good, worst, versions = True, {}, ""
    with tempfile.TemporaryDirectory() as scratch:
        for name, case in CASES.items():
            for variant in VARIANTS:
                case["name"] = name
                passed, differences, versions = check(arguments, case, variant, pathlib.Path(scratch))
                good = good and passed
                for key, value in differences.items():
                    worst[variant, key] = max(value, worst.get((variant, key), 0))
    print(f"\nWorst relative differences between miniSP and {versions}:")
    for variant in VARIANTS:
        print(f"  {variant:13s} " + "  ".join(f"{k} {v:.1e}" for (w, k), v in worst.items() if w == variant))
    print("All models load and agree" if good else "FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        print(f"check_export.py: {failure}", file=sys.stderr)
        sys.exit(1)
