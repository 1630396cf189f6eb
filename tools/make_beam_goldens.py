#!/usr/bin/env python3
"""Writes tests/golden/beam.json: results of transformers' beam search with the models of tests/golden/models and quire-tiny.

  cases: [{model, prompt, end_token_ids, width, n, max_tokens, length_penalty, early_stopping, and if set
           min_tokens, allowed_token_ids, logit_bias, outputs: [{token_ids, score, stopped}]}]
    outputs    best first; token_ids are the generated ones with the end token, score is sequences_scores
Everything is computed in float32 on the CPU. If two candidates, two finished hypotheses, or the values that decide when to stop differ
by less than MARGIN, the result would depend on rounding, so another prompt is used.

Usage: make_beam_goldens.py [OUTPUT.json]
"""

import itertools
import json
import pathlib
import sys
import tempfile

import golden_weights
import torch
import transformers
from transformers import AutoModelForCausalLM

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARGIN = 1e-5
IMPOSSIBLE = -1e8  # transformers gives excluded candidates scores below this
RANDOM_MODELS = ["llama", "llama-untied", "gpt2", "gpt2-bare-names", "mistral", "qwen2-window", "qwen3", "smollm2"]
LENGTH_PENALTIES = [0.0, 0.6, 1.0, 2.0, -0.5]
EARLY_STOPPING = [False, True, "never"]
PROMPT_LENGTHS = [1, 9, 17, 30]


class Borderline(Exception):
    pass


def require_gaps(values):
    """Raises Borderline if two neighbours of a sorted list are nearly equal."""
    possible = [v for v in values if v > IMPOSSIBLE]
    if any(a - b < MARGIN for a, b in itertools.pairwise(possible)):
        raise Borderline


def watch(model):
    """Patches the steps of the search so that they raise Borderline."""
    candidates, finished, heuristic = (model._get_top_k_continuations, model._update_finished_beams,
                                       model._check_early_stop_heuristic)

    def watched_candidates(**kwargs):
        count = min(kwargs["beams_to_keep"] + 1, kwargs["accumulated_log_probs"].shape[-1])
        require_gaps(kwargs["accumulated_log_probs"][0].topk(count).values.tolist())
        return candidates(**kwargs)

    def watched_finished(**kwargs):
        length = kwargs["cur_len"] + 1 - kwargs["decoder_prompt_len"]
        ended = kwargs["next_token_hits_stopping_criteria"] & kwargs["top_num_beam_mask"][None, :]
        scores = kwargs["topk_log_probs"][ended] / length ** kwargs["length_penalty"]
        require_gaps(sorted(kwargs["beam_scores"][0].tolist() + scores.tolist(), reverse=True))
        return finished(**kwargs)

    def watched_heuristic(**kwargs):
        if bool(kwargs["is_sent_finished"].all()):
            never = kwargs["early_stopping"] == "never" and kwargs["length_penalty"] > 0.0
            length = (kwargs["max_length"] if never else kwargs["cur_len"]) - kwargs["decoder_prompt_len"]
            best = kwargs["running_beam_scores"][0, 0].item() / length ** kwargs["length_penalty"]
            if abs(best - kwargs["beam_scores"].min().item()) < MARGIN:
                raise Borderline
        return heuristic(**kwargs)

    model._get_top_k_continuations = watched_candidates
    model._update_finished_beams = watched_finished
    model._check_early_stop_heuristic = watched_heuristic


def search(model, case):
    options = dict(
        num_beams=case["width"], num_return_sequences=case["n"], do_sample=False, max_new_tokens=case["max_tokens"],
        length_penalty=case["length_penalty"], early_stopping=case["early_stopping"], temperature=1.0, top_p=1.0,
        eos_token_id=case["end_token_ids"] or None, pad_token_id=0, return_dict_in_generate=True, output_scores=True)
    if case.get("min_tokens"):
        options["min_new_tokens"] = case["min_tokens"]
    if case.get("allowed_token_ids"):
        options["prefix_allowed_tokens_fn"] = lambda batch, ids: case["allowed_token_ids"]
    if case.get("logit_bias"):
        options["sequence_bias"] = {(token,): bias for token, bias in case["logit_bias"]}
    prompt = torch.tensor([case["prompt"]])
    out = model.generate(prompt, attention_mask=torch.ones_like(prompt), **options)
    outputs = []
    for row, score in zip(out.sequences.tolist(), out.sequences_scores.tolist()):
        tokens = row[len(case["prompt"]):][:case["max_tokens"]]
        ends = [i for i, token in enumerate(tokens) if token in case["end_token_ids"]]
        if ends:
            tokens = tokens[:ends[0] + 1]
        outputs.append(dict(token_ids=tokens, score=round(score, 6), stopped=bool(ends)))
    return outputs


def likely_tokens(model, prompt, count):
    """Frequent tokens of the model, used as end tokens so that hypotheses end early."""
    out = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)), do_sample=True, temperature=1.0,
                         top_k=0, top_p=1.0, max_new_tokens=40, num_return_sequences=8, eos_token_id=None, pad_token_id=0)
    tokens, counts = out[:, len(prompt):].unique(return_counts=True)
    return tokens[counts.argsort(descending=True)][1:1 + count].tolist()


def make_case(model, generator, name, fixed):
    """Draws prompts until the result does not depend on rounding."""
    vocab = model.config.vocab_size
    for _ in range(200):
        case = dict(model=name) | fixed
        prompt = torch.randint(3, vocab, (case.pop("prompt_length"),), generator=generator).tolist()
        case["prompt"] = prompt
        num_ends = case.pop("num_ends")
        if name != "quire-tiny":
            case["end_token_ids"] = sorted(likely_tokens(model, prompt, num_ends))
        if case.pop("restrict", False):
            allowed = torch.randperm(vocab, generator=generator)[:max(2 * case["width"], 3 * vocab // 4)].tolist()
            case["allowed_token_ids"] = sorted(set(allowed) | set(case["end_token_ids"]))
        if case.pop("biased", False):
            tokens = torch.randint(0, vocab, (3,), generator=generator).unique().tolist()
            case["logit_bias"] = [[token, bias] for token, bias in zip(tokens, (2.5, -3.0, 1.25))]
        try:
            case["outputs"] = search(model, case)
            return case
        except Borderline:
            continue
    raise SystemExit(f"{name}: no prompt is clear for {fixed}")


def settings(name):
    """Every length penalty with every early stopping; the other fields cycle."""
    widths = itertools.cycle([(2, 1), (4, 4), (6, 3), (4, 2), (2, 2), (6, 6)])
    lengths = itertools.cycle(PROMPT_LENGTHS)
    ends = itertools.cycle([1, 2, 0, 3] if name != "quire-tiny" else [2])
    for i, (penalty, early) in enumerate(itertools.product(LENGTH_PENALTIES, EARLY_STOPPING)):
        width, n = next(widths)
        fixed = dict(width=width, n=n, prompt_length=next(lengths), num_ends=next(ends), max_tokens=(12, 20, 1, 16)[i % 4],
                     length_penalty=penalty, early_stopping=early)
        if i % 5 == 2:
            fixed["min_tokens"] = min(5, fixed["max_tokens"])
        if i % 5 == 3:
            fixed["restrict"] = True
        if i % 5 == 4:
            fixed["biased"] = True
        yield fixed


TEXTS = ["Once upon a time", "The little dog was very happy because", "Tom said: \"I want to go home.\" His mother",
         "It was a sunny day."]


def tiny_cases(model, generator):
    """Prompts like the model's training data."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(ROOT / "models/quire-tiny")
    ends = sorted({*model.generation_config.eos_token_id, *tokenizer.encode(".")})  # the end of a story and the end of a sentence
    for fixed, text in zip(settings("quire-tiny"), itertools.cycle(TEXTS)):
        for words in range(20):
            case = dict(model="quire-tiny", end_token_ids=ends) | fixed
            del case["prompt_length"], case["num_ends"]
            case["prompt"] = tokenizer.encode(text + " and then" * words)
            case["max_tokens"] *= 3
            if case.pop("restrict", False):
                case["allowed_token_ids"] = sorted(set(range(0, model.config.vocab_size, 2)) | set(ends))
            if case.pop("biased", False):
                case["logit_bias"] = [[end, 2.0] for end in ends]
            try:
                case["outputs"] = search(model, case)
            except Borderline:
                continue
            yield case
            break
        else:
            raise SystemExit(f"quire-tiny: no prompt is clear for {fixed}")


def main():
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "golden" / "beam.json"
    torch.set_num_threads(1)
    torch.manual_seed(11)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    generator = torch.Generator().manual_seed(11)
    cases = []
    for name in [*RANDOM_MODELS, "quire-tiny"]:
        with tempfile.TemporaryDirectory() as folder:
            golden_weights.write_checkpoint(ROOT / "models" / name if name == "quire-tiny" else golden_weights.GOLDEN / "models" / name, folder)
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        watch(model)
        if name == "quire-tiny":
            cases += tiny_cases(model, generator)
        else:
            cases += [make_case(model, generator, name, fixed) for fixed in settings(name)]
    stopped = sum(output["stopped"] for case in cases for output in case["outputs"])
    lengths = sum(not output["stopped"] for case in cases for output in case["outputs"])
    golden = dict(transformers=transformers.__version__, torch=torch.__version__)
    text = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    out.write_text(json.dumps(golden)[:-1] + ', "cases": [\n' + text + "\n]}\n")
    print(f"{len(cases)} cases; {stopped} texts ended by an end token, {lengths} by their length; {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
