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
        self.settings = f"generate, {DTYPES[job.format]}, sdpa, static batches of {job.max_seqs} padded on the left"
        self.model = transformers.AutoModelForCausalLM.from_pretrained(job.model, dtype=DTYPES[job.format]).eval()

    def run(self, prompts: list[list[int]], outputs: list[int], line: common.Timeline) -> None:
        """The whole batch gets as many tokens as its longest output."""
        output, longest = max(outputs), max(map(len, prompts))
        pad = [longest - len(p) for p in prompts]
        ids = torch.tensor([[2] * n + p for n, p in zip(pad, prompts, strict=True)])
        mask = torch.tensor([[0] * n + [1] * (longest - n) for n in pad])

        def note(_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            for i in range(len(prompts)):
                line.tokens(i, 1, len(prompts))
            return scores

        line.start()
        with torch.inference_mode():
            self.model.generate(ids, attention_mask=mask, max_new_tokens=output, min_new_tokens=output, do_sample=False,
                                pad_token_id=2, eos_token_id=None, logits_processor=transformers.LogitsProcessorList([note]))

    def offline(self, job: common.Job) -> dict:
        prompts = job.prompts([r[0] for r in job.requests], 2)
        self.run(prompts[:2], [common.WARMUP_OUTPUT] * 2, common.Timeline())
        generated = 0
        begin = time.perf_counter()
        for first in range(0, len(prompts), job.max_seqs):
            chunk = job.requests[first:first + job.max_seqs]
            line = common.Timeline()
            self.run(prompts[first:first + job.max_seqs], [r[1] for r in chunk], line)
            generated += sum(min(line.counts[i], r[1]) for i, r in enumerate(chunk))
        return common.offline_result(job, generated, time.perf_counter() - begin)


if __name__ == "__main__":
    common.main(Engine)
