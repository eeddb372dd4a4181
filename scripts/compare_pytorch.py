#!/usr/bin/env python3
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
"""Times miniSP against PyTorch on one core in fp32, in turns: attention, and training steps of small Llama models
(Hugging Face Transformers). PyTorch comes from PyPI into a virtual environment of its own. Ends with lines that hold
"ratio" and the number, miniSP over PyTorch: of tokens/s (more is better) and of memory (less is better)."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = ["torch", "transformers", "numpy"]

# hidden, MLP width, layers, query heads, key/value heads, vocabulary, sequence length, sequences
MODELS = [(512, 2048, 8, 8, 4, 8192, 1024, 2), (256, 1024, 4, 8, 2, 4096, 1024, 4)]
# head size, length, query heads, key/value heads: those of minisp_bench
ATTENTION = [(d, s, *heads) for s in (2048, 8192) for d in (64, 128) for heads in ((2, 2), (4, 1))]


# ---------------------------------------------------------------------------------------------------------------
# PyTorch's side: this file again, run by the virtual environment's Python. Prints one JSON object.


def resident_bytes(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    return 0


def gemm_rate(torch):
    """FLOP/s of the best of several products of 1024^3."""
    a, b = torch.ones(1024, 1024), torch.ones(1024, 1024)
    c = torch.empty(1024, 1024)
    best = float("inf")
    for _ in range(6):
        start = time.perf_counter()
        torch.mm(a, b, out=c)
        best = min(best, time.perf_counter() - start)
    return 2 * 1024**3 / best


def pytorch_training(sizes, steps, warmup):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(1)
    hidden, inner, layers, heads, kv_heads, vocabulary, length, batch = sizes
    config = LlamaConfig(
        hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=hidden // heads, vocab_size=vocabulary, max_position_embeddings=length,
        tie_word_embeddings=True, use_cache=False, attn_implementation="sdpa")
    rate = gemm_rate(torch)
    libraries = resident_bytes("VmRSS")
    model = LlamaForCausalLM(config)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    seconds = []
    for step in range(warmup + steps):
        tokens = torch.randint(0, vocabulary, (batch, length))
        start = time.perf_counter()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        if step >= warmup:
            seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "gemm": rate, "peak": resident_bytes("VmHWM"), "libraries": libraries}


def pytorch_attention(case, repetitions):
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    torch.set_num_threads(1)
    head_dim, length, heads, kv_heads = case
    q = torch.randn(1, heads, length, head_dim, requires_grad=True)
    k, v = (torch.randn(1, kv_heads, length, head_dim, requires_grad=True) for _ in range(2))
    gradient = torch.randn(1, heads, length, head_dim)
    rate = gemm_rate(torch)

    def grouped():
        return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=kv_heads < heads)

    def repeated():
        copies = heads // kv_heads
        return scaled_dot_product_attention(
            q, k.repeat_interleave(copies, 1), v.repeat_interleave(copies, 1), is_causal=True)

    times = {}
    for form in [grouped, repeated] if kv_heads < heads else [grouped]:
        times[form.__name__] = []
        for repetition in range(1 + repetitions):
            start = time.perf_counter()
            form().backward(gradient)
            if repetition > 0:
                times[form.__name__].append(time.perf_counter() - start)
    # PyTorch's faster way counts.
    seconds = min(times.values(), key=statistics.median)
    return {"seconds": seconds, "gemm": rate}


# ---------------------------------------------------------------------------------------------------------------
# The comparison.


class Failure(Exception):
    pass


def run(command, core):
    """Output of a command on one core."""
    process = subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    output, errors = process.communicate()
    if process.returncode != 0:
        raise Failure(f"exit code {process.returncode} from {' '.join(map(str, command))}\n{output}\n{errors}")
    return output


def ensure_pytorch(venv):
    """The virtual environment's Python, with PyTorch; made and filled when it is not there yet."""
    python = venv / "bin" / "python"
    if not python.exists():
        print(f"Making a virtual environment in {venv}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    if subprocess.run([python, "-c", "import torch, transformers"], capture_output=True).returncode != 0:
        print(f"Installing {', '.join(PACKAGES)} from PyPI into it (some GB)", flush=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return python


def model_flops(sizes):
    """FLOP of a step by doc/figure_of_merit.md."""
    hidden, inner, layers, heads, kv_heads, vocabulary, length, batch = sizes
    d = hidden // heads
    weights = layers * (hidden * (heads + 2 * kv_heads) * d + heads * d * hidden + 3 * hidden * inner)
    weights += vocabulary * hidden
    pairs = batch * length * (length + 1) // 2
    return 6 * weights * batch * length + 12 * layers * heads * d * pairs


def our_training(program, sizes, steps, warmup, core):
    hidden, inner, layers, heads, kv_heads, vocabulary, length, batch = sizes
    output = run(
        # Peak memory is the program's own and that of nothing else: no self-check, which has models of its own.
        [sys.executable, __file__, "--measure", program, "run",
         REPOSITORY / "inputs/llama-3.2-1b-laptop.toml", "parallel.system=single", "verify.enabled=false",
         f"model.hidden={hidden}", f"model.intermediate={inner}", f"model.layers={layers}", f"model.heads={heads}",
         f"model.kv_heads={kv_heads}", f"model.head_dim={hidden // heads}", f"model.vocabulary={vocabulary}",
         f"train.sequence_length={length}", f"train.batch={batch}", f"train.steps={steps}",
         f"train.warmup_steps={warmup}"], core)

    def number(pattern):
        found = re.search(pattern, output, re.M)
        if not found:
            raise Failure(f"no line '{pattern}' from minisp run:\n{output}")
        return float(found.group(1))

    return {"seconds": number(r"^STEP: ([0-9.e+-]+) s"), "fraction": number(r"^MODEL: .*?([0-9.]+) % of the matrix"),
            "peak": number(r"^PEAK: ([0-9]+)"), "libraries": number(r"^LIBRARIES: ([0-9]+)")}


def measure(command):
    """Runs miniSP, adds its peak resident bytes and those of `minisp info`, which loads the same libraries."""
    for name, words in [("LIBRARIES", [command[0], "info"]), ("PEAK", command)]:
        process = subprocess.Popen(words, stdout=None if name == "PEAK" else subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            return os.waitstatus_to_exitcode(status)
        print(f"{name}: {1024 * usage.ru_maxrss}", flush=True)
    return 0


def compare_training(arguments, python, core):
    lines = []
    for sizes in MODELS:
        name = "/".join(map(str, sizes))
        ours, theirs = [], []
        for _ in range(arguments.rounds):  # in turns: a machine whose speed drifts changes both
            ours.append(our_training(arguments.program, sizes, arguments.steps, 1, core))
            theirs.append(json.loads(run(
                [python, __file__, "--worker", json.dumps(["training", sizes, arguments.steps, 1])], core)))
        tokens = sizes[6] * sizes[7]
        mine = statistics.median(x["seconds"] for x in ours)
        pairs = [statistics.median(t["seconds"]) / o["seconds"] for o, t in zip(ours, theirs)]
        other = statistics.median(statistics.median(t["seconds"]) for t in theirs)
        gemm = statistics.median(t["gemm"] for t in theirs)
        print(f"training {name}: miniSP {tokens / mine:.0f} tokens/s, "
              f"{statistics.median(x['fraction'] for x in ours):.0f} % of its matrix-product rate; "
              f"PyTorch {tokens / other:.0f} tokens/s, {100 * model_flops(sizes) / other / gemm:.0f} % of its "
              f"({gemm / 1e9:.0f} GFLOP/s)", flush=True)
        peak_ours, peak_theirs = (max(x["peak"] for x in side) for side in (ours, theirs))
        net_ours, net_theirs = (max(x["peak"] - x["libraries"] for x in side) for side in (ours, theirs))
        print(f"memory   {name}: miniSP {peak_ours / 2**20:.0f} MiB at most ({net_ours / 2**20:.0f} without the "
              f"libraries), PyTorch {peak_theirs / 2**20:.0f} ({net_theirs / 2**20:.0f})", flush=True)
        lines += [f"training {name}: ratio {statistics.median(pairs):.2f} (tokens/s)",
                  f"memory {name}: ratio {peak_ours / peak_theirs:.2f} (peak resident), "
                  f"{net_ours / net_theirs:.2f} without the libraries"]
    return lines


def compare_attention(arguments, python, core):
    lines = []
    for case in ATTENTION:
        head_dim, length, heads, kv_heads = case
        work = 14 * head_dim * heads * length * (length + 1) / 2  # 4 forward, 10 backward, a visible pair
        pattern = f"attention<float>/head_dim:{head_dim}/length:{length}/heads:{heads}/kv_heads:{kv_heads}/"
        ratios, ours, theirs = [], [], []
        for _ in range(arguments.rounds):
            report = run([arguments.bench, f"--benchmark_filter={pattern}", "--benchmark_format=json"], core)
            if not report.strip():  # Google Benchmark then writes no JSON and returns 0
                raise Failure(f"minisp_bench has no benchmark {pattern}")
            ours.append(1e9 * json.loads(report)["benchmarks"][0]["gflops"])
            repetitions = 3 if length > 4096 else 7
            result = json.loads(run([python, __file__, "--worker", json.dumps(["attention", case, repetitions])], core))
            theirs.append(work / statistics.median(result["seconds"]))
            ratios.append(ours[-1] / theirs[-1])
        name = f"attention head size {head_dim}, S {length}, heads {heads}/{kv_heads}"
        print(f"{name}: miniSP {statistics.median(ours) / 1e9:.1f} GFLOP/s, PyTorch "
              f"{statistics.median(theirs) / 1e9:.1f}", flush=True)
        lines.append(f"{name}: ratio {statistics.median(ratios):.2f} (tokens/s)")
    return lines


def main():
    if sys.argv[1:2] == ["--worker"]:
        kind, *rest = json.loads(sys.argv[2])
        print(json.dumps(pytorch_training(*rest) if kind == "training" else pytorch_attention(*rest)))
        return 0
    if sys.argv[1:2] == ["--measure"]:
        return measure(sys.argv[2:])

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build-dir", type=Path, default=REPOSITORY / "build-test", help="where miniSP was built")
    parser.add_argument("--venv", type=Path, default=REPOSITORY / ".venv-pytorch", help="virtual environment")
    parser.add_argument("--only", choices=["attention", "training"], help="one of the two")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each (default 3)")
    parser.add_argument("--steps", type=int, default=3, help="timed training steps a turn (default 3)")
    arguments = parser.parse_args()
    arguments.program = arguments.build_dir / "src/minisp"
    arguments.bench = arguments.build_dir / "src/bench_micro/minisp_bench"
    try:
        for binary in [arguments.program] + ([arguments.bench] if arguments.only != "training" else []):
            if not binary.exists():
                raise Failure(f"{binary} is missing: run scripts/test.sh -N, or give --build-dir")
        python = ensure_pytorch(arguments.venv)
        core = max(os.sched_getaffinity(0))
        lines = []
        if arguments.only != "training":
            lines += compare_attention(arguments, python, core)
        if arguments.only != "attention":
            lines += compare_training(arguments, python, core)
    except (Failure, subprocess.CalledProcessError) as error:
        print(f"compare_pytorch.py: {error}", file=sys.stderr)
        return 3
    print("\nminiSP over PyTorch:")
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
