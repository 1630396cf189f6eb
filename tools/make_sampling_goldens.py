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


def without_borderline(ratios):
    """The ratios of values and their threshold; rejects the case if one is so near to 1 that rounding decides."""
    if np.any(np.abs(ratios[np.isfinite(ratios)] - 1.0) < MARGIN):
        raise Borderline
    return ratios


def first_until(probabilities, order, mass, min_keep):
    """The smallest number of first tokens with this probability, at least min_keep."""
    total = 0.0
    for place, token in enumerate(order):
        total += probabilities[token]
        if abs(total - mass) < MARGIN:
            raise Borderline
        if total >= mass and place + 1 >= min_keep:
            return place + 1
    return len(order)


def keep_min_p(logits, params):
    ratio = without_borderline(softmax(logits) / (params["min_p"] * softmax(logits).max()))
    order = descending(logits)
    count = max(int(np.sum(ratio >= 1.0)), params.get("min_keep", 0))
    logits[order[count:]] = -np.inf


def keep_top_k(logits, params):
    logits[descending(logits)[params["top_k"] :]] = -np.inf


def keep_top_p(logits, params):
    order = descending(logits)
    count = first_until(softmax(logits), order, params["top_p"], params.get("min_keep", 0))
    logits[order[count:]] = -np.inf


def entropy_of(probabilities):
    positive = probabilities[probabilities > 0]
    return float(-np.sum(positive * np.log(positive)))


def keep_typical(logits, params):
    """Meister et al., "Locally typical sampling", 2022."""
    probabilities = softmax(logits)
    with np.errstate(divide="ignore"):
        shifted = np.abs(-np.log(probabilities) - entropy_of(probabilities))
    order = sorted(range(len(logits)), key=lambda i: (shifted[i], i))
    near = np.diff(shifted[order])
    if np.any((near > 0) & (near < MARGIN)):
        raise Borderline
    count = first_until(probabilities, order, params["typical_p"], params.get("min_keep", 0))
    logits[order[count:]] = -np.inf


def keep_top_n_sigma(logits, params):
    """Tang et al., "Top-n-sigma: not all logits are you need", 2024."""
    finite = logits[np.isfinite(logits)]
    bound = finite.max() - params["top_n_sigma"] * np.std(finite)
    if np.any(np.abs(finite - bound) < MARGIN):
        raise Borderline
    logits[logits < bound] = -np.inf


def exclude_top_choices(logits, params):
    """XTC of llama.cpp, where it applies: of the tokens that reach the threshold only the least probable remains."""
    if params["xtc_threshold"] > 0.5:
        return
    probabilities = softmax(logits)
    without_borderline(probabilities / params["xtc_threshold"])
    order = descending(logits)
    choices = int(np.sum(probabilities >= params["xtc_threshold"]))
    left = int(np.sum(np.isfinite(logits))) - (choices - 1)
    if choices > 1 and left >= params.get("min_keep", 0):
        logits[order[: choices - 1]] = -np.inf


def set_temperature(logits, params):
    """With a range, the dynamic temperature of llama.cpp."""
    temperature = params.get("temperature", 1.0)
    size = int(np.sum(np.isfinite(logits)))
    spread = params.get("dynatemp_range", 0.0)
    if spread > 0.0 and size > 1:
        share = entropy_of(softmax(logits)) / np.log(size)
        low, high = max(0.0, temperature - spread), temperature + spread
        temperature = low + (high - low) * share ** params.get("dynatemp_exponent", 1.0)
    logits /= max(temperature, 0.01)


# The steps in their default order: name in `samplers`, whether the parameters turn it on, function.
STEPS = {
    "top_n_sigma": (lambda p: p.get("top_n_sigma", 0.0) > 0.0, keep_top_n_sigma),
    "temperature": (lambda p: True, set_temperature),
    "min_p": (lambda p: p.get("min_p", 0.0) > 0.0, keep_min_p),
    "top_k": (lambda p: p.get("top_k", 0) > 0, keep_top_k),
    "typ_p": (lambda p: p.get("typical_p", 1.0) < 1.0, keep_typical),
    "top_p": (lambda p: p.get("top_p", 1.0) < 1.0, keep_top_p),
    "xtc": (lambda p: p.get("xtc_probability", 0.0) > 0.0, exclude_top_choices),
}


def keep_surprise(logits, case):
    """Mirostat 2 (Basu et al., 2021): the surprise of each drawn token has moved the bound."""
    params = case["params"]
    bound = 2.0 * params["mirostat_tau"]
    for surprise in case["surprises"]:
        bound -= params["mirostat_eta"] * (surprise - params["mirostat_tau"])
    with np.errstate(divide="ignore"):
        surprises = -np.log2(softmax(logits))
    if np.any(np.abs(surprises - bound) < MARGIN):
        raise Borderline
    surprises[descending(logits)[0]] = -np.inf
    logits[surprises > bound] = -np.inf


def penalize_repetitions(logits, case):
    """DRY: for each token, the longest run of last tokens that preceded it once."""
    params = case["params"]
    whole = case["prompt"] + case["output"]
    last_n = params.get("dry_penalty_last_n", -1)
    if last_n == 0:
        return
    text = whole[-last_n:] if last_n > 0 else whole
    allowed = params.get("dry_allowed_length", 2)
    if len(text) <= allowed:
        return
    limit = len(text)  # the number of tokens after the last breaker
    breakers = [[token] for token in case["breaker_tokens"]] + case["breaker_splits"]
    for begin in range(len(whole)):
        for breaker in breakers:
            if whole[begin : begin + len(breaker)] == breaker:
                limit = min(limit, len(whole) - begin - len(breaker))
    longest = {}
    for place in range(1, len(text)):
        length = 0
        while length < limit and length < place and text[place - 1 - length] == text[len(text) - 1 - length]:
            length += 1
        if length >= allowed:
            longest[text[place]] = max(length, longest.get(text[place], 0))
    for token, length in longest.items():
        if token not in case["breaker_tokens"]:
            logits[token] -= params["dry_multiplier"] * params.get("dry_base", 1.75) ** (length - allowed)


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
    for word in case.get("bad_words", []):
        if len(word) == 1 or output[1 - len(word) :] == word[:-1]:
            logits[word[-1]] = minus_inf
    if len(output) < params.get("min_tokens", 0):
        for token in params.get("stop_token_ids", []) + case["end_token_ids"]:
            logits[token] = minus_inf
    for token, bias in params.get("logit_bias", []):
        logits[token] += min(max(bias, -100.0), 100.0)
    chain = params.get("samplers") or ["penalties", "dry", *STEPS]
    if "penalties" in chain:
        for token in set(case["prompt"]) | set(output):
            penalty = params.get("repetition_penalty", 1.0)
            logits[token] = logits[token] / penalty if logits[token] > 0 else logits[token] * penalty
        for token in set(output):
            logits[token] -= params.get("frequency_penalty", 0.0) * output.count(token)
            logits[token] -= params.get("presence_penalty", 0.0)
    if "dry" in chain and params.get("dry_multiplier", 0.0) > 0.0:
        penalize_repetitions(logits, case)
    if params.get("temperature", 1.0) < 1e-5:
        probabilities = np.zeros(len(logits))
        probabilities[descending(logits)[0]] = 1.0
        return probabilities
    if params.get("mirostat_mode"):
        set_temperature(logits, params)
        keep_surprise(logits, case)
        return softmax(logits)
    for name in chain:
        if name in STEPS and STEPS[name][0](params):
            STEPS[name][1](logits, params)
    return softmax(logits)


OURS_ONLY = ("allowed_token_ids", "logit_bias", "min_tokens", "presence_penalty", "frequency_penalty", "min_keep", "samplers",
             "top_n_sigma", "dynatemp_range", "xtc_probability", "dry_multiplier", "mirostat_mode")


def by_transformers(row, case):
    """The same with the classes of transformers, or None if it does not have a class for every parameter of the case."""
    params = case["params"]
    if case["ties"] or any(params.get(name) for name in OURS_ONLY) or case.get("bad_words"):
        return None
    if params.get("typical_p", 1.0) < 1.0 and params.get("top_p", 1.0) < 1.0:
        return None  # in another order
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
    if params.get("typical_p", 1.0) < 1.0:
        chain.append(logits_process.TypicalLogitsWarper(params["typical_p"]))
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


def repetitive(rng, size, length):
    """Tokens in which runs return."""
    words = [rng.integers(0, size, rng.integers(1, 6)).tolist() for _ in range(4)]
    text = []
    while len(text) < length:
        text += words[rng.integers(0, 4)]
    return text[:length]


def sampler_sets(rng):
    """The same for the samplers of llama.cpp, and (row, params, prompt, output, further fields of the case)."""
    for row in range(6):
        for typical_p in (0.05, 0.3, 0.7, 0.95):
            for temperature in (0.6, 1.0, 1.4) if row < 2 else (0.6,):
                yield row, {"typical_p": typical_p, "temperature": temperature}, [], []
        yield row, {"typical_p": 0.5, "min_keep": 9, "top_k": 30}, [], []
        yield row, {"typical_p": 0.6, "min_p": 0.01, "top_p": 0.9}, [], []
        for n in (0.4, 1.0, 2.0, 3.5) if row < 2 else (1.0,):
            yield row, {"top_n_sigma": n, "temperature": 0.8}, [], []
        yield row, {"top_n_sigma": 1.5, "allowed_token_ids": list(range(2, 40)), "logit_bias": [[5, 3.0]]}, [], []
        for spread, exponent in ((0.5, 1.0), (0.9, 0.4), (1.5, 2.0)):
            yield row, {"dynatemp_range": spread, "dynatemp_exponent": exponent, "temperature": 0.9, "top_k": 25}, [], []
        yield row, {"dynatemp_range": 0.5, "top_p": 0.8, "allowed_token_ids": list(range(3, 45, 2))}, [], []
        for threshold in (0.01, 0.05, 0.1, 0.3, 0.6):
            yield row, {"xtc_probability": 1.0, "xtc_threshold": threshold, "top_k": 40}, [], []
        yield row, {"xtc_probability": 1.0, "xtc_threshold": 0.02, "top_k": 12, "min_keep": 8}, [], []
        yield row, {"xtc_probability": 1.0, "xtc_threshold": 0.02, "top_p": 0.9, "temperature": 1.3}, [], []
        for field in ("top_p", "min_p", "typical_p"):
            for min_keep in (1, 3, 25) + ((2000,) if row < 2 else ()):
                yield row, {field: 0.4, "min_keep": min_keep, "temperature": 0.7}, [], []
        for samplers in (["top_p", "temperature"], ["temperature", "top_p"], ["min_p", "top_k"], ["xtc", "top_k"],
                         ["top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]):
            yield row, {"samplers": samplers, "top_p": 0.8, "top_k": 20, "min_p": 0.03, "typical_p": 0.9,
                        "temperature": 0.6, "xtc_probability": 1.0, "xtc_threshold": 0.08}, [], []
        if row in (3, 4):
            continue  # larger files, not more kinds of cases
        for surprises in ([], [7.5, 3.0], [1.0] * 12, [40.0] * 30):
            for tau, eta in ((5.0, 0.1), (2.0, 0.4)):
                yield (row, {"mirostat_mode": 2, "mirostat_tau": tau, "mirostat_eta": eta, "temperature": 0.9},
                       [], [1] * len(surprises), {"surprises": surprises})
        size = (50, 50, 211, 257, 1000, 300)[row]
        for length, allowed, last_n in ((3, 2, -1), (20, 1, -1), (60, 2, 25), (60, 0, 40), (90, 3, -1)):
            text = repetitive(rng, min(size, 60), length)
            for tokens, splits in (([], []), ([text[0], 7], []), ([], [[text[-4], text[-3]] if length > 4 else [1, 2]])):
                params = {"dry_multiplier": 0.8, "dry_base": 1.5, "dry_allowed_length": allowed,
                          "dry_penalty_last_n": last_n, "top_k": 20}
                yield (row, params, text[: length // 2], text[length // 2 :],
                       {"breaker_tokens": sorted(set(tokens)), "breaker_splits": splits})
        order = rng.permutation(40).tolist()
        words = [[order[0]], [order[1], order[2]], [order[3], order[4], order[5]], [order[6], order[2]]]
        for output in ([], [order[1]], [order[6]], [order[3], order[4]], [9, order[4]]):
            yield row, {"top_k": 30}, [order[1]], output, {"bad_words": words}
        yield (row, {"samplers": ["temperature", "top_k"], "dry_multiplier": 1.0, "repetition_penalty": 2.0, "top_k": 9}, order, order,
               {"breaker_tokens": [], "breaker_splits": []})


def make_case(rows, row, params, prompt, output, more=None):
    case = {"row": row, "ties": row == 5, "params": params, "prompt": prompt, "output": output, **(more or {})}
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
    made += [make_case(rows, *parts) for parts in sampler_sets(np.random.default_rng(21))]
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
