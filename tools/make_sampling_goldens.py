#!/usr/bin/env python3
"""Writes tests/golden/sample/distributions.json: the tokens that can be sampled from a row of logits, and their probabilities.

The expected values come from a plain float64 reimplementation below, which sorts and masks whole rows. Where transformers has
a class for every processor of a case, its result is computed too, in float64, and the script fails if the two differ.

Needs numpy, torch and transformers.  Usage: make_sampling_goldens.py [OUTPUT.json]
"""

import itertools
import json
import pathlib
import sys

import numpy as np
import torch
from transformers.generation import logits_process

GRID = 1024.0  # logits are multiples of 1 / GRID, so that they are the same in float32, float64 and JSON
TINY = 1e-12  # less probable tokens are left out on both sides
MARGIN = 2e-5  # cases whose truncation depends on rounding are rejected


def make_row(rng, size, spread):
    """Distinct logits on the grid, in random order."""
    values = set()
    while len(values) < size:
        values.add(int(round(rng.normal(0.0, spread) * GRID)))
    return rng.permutation(sorted(values)).tolist()


def descending(logits):
    """Indices by decreasing probability; ties by increasing id."""
    return sorted(range(len(logits)), key=lambda i: (-logits[i], i))


def softmax(logits):
    weights = np.exp(logits - np.max(logits))
    return weights / np.sum(weights)


class Borderline(Exception):
    pass


def reference(row, case):
    """The probabilities of all tokens by the rules of the reference page, step by step."""
    params = case["params"]
    logits = np.array(row, dtype=np.float64) / GRID
    minus_inf = -np.inf
    if params.get("allowed_token_ids"):
        keep = np.zeros(len(logits), dtype=bool)
        keep[params["allowed_token_ids"]] = True
        logits[~keep] = minus_inf
    output = case["output"]
    if len(output) < params.get("min_tokens", 0):
        for token in params.get("stop_token_ids", []) + case["end_token_ids"]:
            logits[token] = minus_inf
    for token, bias in params.get("logit_bias", []):
        logits[token] += min(max(bias, -100.0), 100.0)
    for token in set(case["prompt"]) | set(output):
        penalty = params.get("repetition_penalty", 1.0)
        logits[token] = logits[token] / penalty if logits[token] > 0 else logits[token] * penalty
    for token in set(output):
        logits[token] -= params.get("frequency_penalty", 0.0) * output.count(token)
        logits[token] -= params.get("presence_penalty", 0.0)
    temperature = params.get("temperature", 1.0)
    if temperature < 1e-5:
        probabilities = np.zeros(len(logits))
        probabilities[descending(logits)[0]] = 1.0
        return probabilities
    logits = logits / max(temperature, 0.01)
    if params.get("min_p", 0.0) > 0.0:
        probabilities = softmax(logits)
        ratio = probabilities / (params["min_p"] * probabilities.max())
        if np.any(np.abs(ratio - 1.0) < MARGIN):
            raise Borderline
        logits[ratio < 1.0] = minus_inf
    if params.get("top_k", 0) > 0:
        logits[descending(logits)[params["top_k"] :]] = minus_inf
    if params.get("top_p", 1.0) < 1.0:
        probabilities = softmax(logits)
        order = descending(logits)
        total = 0.0
        cut = len(order)
        for place, token in enumerate(order):
            total += probabilities[token]
            if abs(total - params["top_p"]) < MARGIN:
                raise Borderline
            if total >= params["top_p"]:
                cut = place + 1
                break
        logits[order[cut:]] = minus_inf
    return softmax(logits)


OURS_ONLY = ("allowed_token_ids", "logit_bias", "min_tokens", "presence_penalty", "frequency_penalty")


def by_transformers(row, case):
    """The same with the classes of transformers, or None if it does not have a class for every parameter of the case."""
    params = case["params"]
    if case["ties"] or any(params.get(name) for name in OURS_ONLY):
        return None
    if not 0.01 <= params.get("temperature", 1.0):
        return None
    scores = torch.tensor([row], dtype=torch.float64) / GRID
    seen = torch.tensor([case["prompt"] + case["output"]], dtype=torch.long)
    chain = []
    if seen.numel() and params.get("repetition_penalty", 1.0) != 1.0:
        chain.append(logits_process.RepetitionPenaltyLogitsProcessor(float(params["repetition_penalty"])))
    chain.append(logits_process.TemperatureLogitsWarper(float(params.get("temperature", 1.0))))
    if params.get("min_p"):
        chain.append(logits_process.MinPLogitsWarper(params["min_p"]))
    if params.get("top_k", 0) > 0:
        chain.append(logits_process.TopKLogitsWarper(params["top_k"]))
    if params.get("top_p", 1.0) < 1.0:
        chain.append(logits_process.TopPLogitsWarper(params["top_p"]))
    for processor in chain:
        scores = processor(seen, scores)
    return torch.softmax(scores, dim=-1)[0].numpy()


def make_rows(rng):
    rows = [make_row(rng, size, spread) for size, spread in ((50, 1.5), (50, 4.0), (211, 2.0), (257, 3.0), (1000, 5.0))]
    rows.append((rng.integers(-3, 4, 300) * int(GRID)).tolist())  # many ties
    return rows


def parameter_sets(rng):
    """(row, params, prompt, output) of every case, before the check whether it depends on rounding."""
    grid = itertools.product((0.3, 0.7, 1.0, 1.6), (0, 1, 7, 40), (1.0, 0.95, 0.5, 0.05), (0.0, 0.02, 0.3))
    for index, (temperature, top_k, top_p, min_p) in enumerate(grid):
        row = index % 5 if index % 3 else index % 2  # small rows are used more often, which keeps the file small
        if row == 4 and top_k == 0 and top_p == 1.0 and min_p == 0.0 and temperature > 0.5:
            row = 1
        yield row, {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}, [], []
    for top_p in (0.9999, 0.99, 0.9, 0.3):
        for row in (3, 4):
            yield row, {"top_p": top_p, "temperature": 0.8}, [], []
    for top_k in (2, 50, 999, 1000, 5000):
        yield 4, {"top_k": top_k, "temperature": 0.4}, [], []
    for temperature in (0.0, 1e-6, 0.001, 0.01, 0.02):
        yield 2, {"temperature": temperature, "top_p": 0.999}, [], []
        yield 1, {"temperature": temperature}, [], []
    for top_k, top_p in ((5, 1.0), (60, 0.7), (150, 0.31), (0, 0.45), (0, 0.83)):
        yield 5, {"top_k": top_k, "top_p": top_p}, [], []
    yield 5, {"temperature": 0.0}, [], []
    for row, size in ((0, 50), (1, 50), (2, 211)):
        prompt = rng.integers(0, size, 20).tolist()
        output = rng.integers(0, size // 2, 30).tolist()
        for repetition in (0.7, 1.0, 1.3, 5.0):
            yield row, {"repetition_penalty": repetition, "temperature": 0.9}, prompt, output
            yield row, {"repetition_penalty": repetition, "top_p": 0.8}, prompt, []
        for presence, frequency in ((0.5, 0.0), (0.0, 0.7), (1.5, 0.3), (-2.0, -0.4)):
            penalties = {"presence_penalty": presence, "frequency_penalty": frequency, "repetition_penalty": 1.2}
            yield row, dict(penalties, top_k=20, temperature=1.1), prompt, output
        bias = [[int(token), float(value)] for token, value in zip(rng.integers(0, size, 4), (-100, -1.5, 2.25, 7))]
        stops = {"min_tokens": 5, "stop_token_ids": [3, 9], "max_tokens": 50}
        for past in ([], output[:4], output[:5]):
            yield row, dict(stops, temperature=0.5), prompt, past
            yield row, dict(stops, ignore_eos=True, top_p=0.9), prompt, past
        yield row, {"logit_bias": bias}, prompt, []
        yield row, {"logit_bias": bias + [[bias[2][0], 250.0]], "top_p": 0.99}, prompt, []
        allowed = sorted(rng.choice(size, 11, replace=False).tolist())
        yield row, {"allowed_token_ids": allowed}, prompt, []
        yield row, dict(stops, allowed_token_ids=allowed + [3], logit_bias=bias, repetition_penalty=1.4,
                        frequency_penalty=0.2, top_k=8, top_p=0.9, min_p=0.001, temperature=0.8), prompt, output[:2]


def make_case(rows, row, params, prompt, output):
    case = {"row": row, "ties": row == 5, "params": params, "prompt": prompt, "output": output}
    case["end_token_ids"] = descending(rows[row])[:2] if "min_tokens" in params else []
    try:
        expected = reference(rows[row], case)
    except Borderline:
        return None
    other = by_transformers(rows[row], case)
    case["transformers"] = other is not None
    if other is not None:
        if np.max(np.abs(other - expected)) > 1e-9 or not np.array_equal(other > TINY, expected > TINY):
            sys.exit(f"transformers and the reference disagree: {case}")
    case["tokens"] = [int(i) for i in np.nonzero(expected > TINY)[0]]
    case["probabilities"] = [float(f"{expected[i]:.7g}") for i in case["tokens"]]
    return case


def logprob_case(rows, row, chosen):
    logits = np.array(rows[row], dtype=np.float64) / GRID
    logprobs = logits - logits.max() - np.log(np.sum(np.exp(logits - logits.max())))
    order = descending(logits)
    return {
        "row": row,
        "chosen": chosen,
        "logprob": float(f"{logprobs[chosen]:.9g}"),
        "rank": order.index(chosen) + 1,
        "top": [[token, float(f"{logprobs[token]:.9g}")] for token in order[:8]],
    }


def main():
    default = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/sample/distributions.json"
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    rng = np.random.default_rng(20)
    rows = make_rows(rng)
    made = [make_case(rows, *parts) for parts in parameter_sets(rng)]
    cases = [case for case in made if case is not None]
    logprobs = [logprob_case(rows, row, int(token)) for row in range(len(rows)) for token in rng.integers(0, 50, 6)]
    lines = [json.dumps(case, separators=(",", ":")) for case in cases]
    text = '{"grid":%d,\n"rows":%s,\n"logprobs":%s,\n"cases":[\n%s\n]}\n' % (
        GRID, json.dumps(rows, separators=(",", ":")), json.dumps(logprobs, separators=(",", ":")), ",\n".join(lines))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    compared = sum(case["transformers"] for case in cases)
    print(f"{len(cases)} cases ({len(made) - len(cases)} borderline left out, {compared} also by transformers), {len(text)} bytes")


if __name__ == "__main__":
    main()
