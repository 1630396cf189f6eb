"""transformers' generate: static batches, padded on the left, one after another."""
from __future__ import annotations

import time

import common
import torch
import transformers

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


class Engine:
    def __init__(self, job: common.Job) -> None:
        torch.set_num_threads(job.threads)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(job.model, dtype=DTYPES[job.format]).eval()

    def run(self, prompts: list[list[int]], output: int, line: common.Timeline) -> int:
        """One batch. Returns the tokens generated for each prompt."""
        longest = max(map(len, prompts))
        pad = [longest - len(p) for p in prompts]
        ids = torch.tensor([[2] * n + p for n, p in zip(pad, prompts, strict=True)])
        mask = torch.tensor([[0] * n + [1] * (longest - n) for n in pad])

        def note(_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            for i in range(len(prompts)):
                line.tokens(i, 1, len(prompts))
            return scores

        line.start()
        with torch.inference_mode():
            out = self.model.generate(ids, attention_mask=mask, max_new_tokens=output, min_new_tokens=output, do_sample=False,
                                      pad_token_id=2, eos_token_id=None, logits_processor=transformers.LogitsProcessorList([note]))
        return out.shape[1] - longest


def offline(job: common.Job, engine: Engine) -> dict:
    prompts = job.prompts([r[0] for r in job.requests], 2)
    engine.run(prompts[:2], common.WARMUP_OUTPUT, common.Timeline())
    generated = 0
    begin = time.perf_counter()
    for first in range(0, len(prompts), job.max_seqs):
        chunk = job.requests[first:first + job.max_seqs]
        got = engine.run(prompts[first:first + job.max_seqs], max(r[1] for r in chunk), common.Timeline())
        generated += sum(min(got, r[1]) for r in chunk)
    return common.offline_result(job, generated, time.perf_counter() - begin)


def run(job: common.Job) -> dict:
    begin = time.perf_counter()
    engine = Engine(job)
    loaded = time.perf_counter()
    line = common.Timeline()
    if job.workload == "offline":
        result = offline(job, engine)
    else:
        if job.workload != "load":
            engine.run(job.prompts([job.prompt] * job.batch, 1), min(common.WARMUP_OUTPUT, job.output), common.Timeline())
        engine.run(job.prompts([job.prompt] * job.batch, 2), job.output, line)
        result = common.batch_result(job, line)
    settings = f"generate, {DTYPES[job.format]}, sdpa, static batches of {job.max_seqs} padded on the left"
    return {**result, "load_s": loaded - begin, "load_to_first_s": line.last_first - begin, "settings": settings}


if __name__ == "__main__":
    common.main(run)
