"""CTranslate2: Generator.generate_batch; sequences leave their batch when they are finished."""
from __future__ import annotations

import time

import common
import ctranslate2

COMPUTE = {"f32": "float32", "int8": "int8_float32", "bf16": "bfloat16"}


class Engine:
    def __init__(self, job: common.Job) -> None:
        options = {"compute_type": COMPUTE[job.format], "inter_threads": 1, "intra_threads": job.threads, **job.options}
        self.settings = f"{options}, batches of at most {job.max_seqs} sorted by prompt length"
        self.generator = ctranslate2.Generator(job.model, device="cpu", **options)

    def run(self, prompts: list[list[int]], outputs: list[int], line: common.Timeline) -> None:
        def token(step: ctranslate2.GenerationStepResult) -> bool:
            line.tokens(step.batch_id, 1, len(prompts))
            return line.counts[step.batch_id] >= outputs[step.batch_id]

        words = [[f"Ġw{i:06}" for i in prompt] for prompt in prompts]
        line.start()
        self.generator.generate_batch(words, max_length=max(outputs), min_length=max(outputs), include_prompt_in_result=False,
                                      sampling_topk=1, beam_size=1, callback=token)

    def offline(self, job: common.Job) -> dict:
        order = sorted(range(len(job.requests)), key=lambda i: job.requests[i][0])  # the engine sorts in the same way for max_batch_size
        prompts = job.prompts([r[0] for r in job.requests], 2)
        self.run(job.prompts([r[0] for r in job.requests[:2]], 1), [common.WARMUP_OUTPUT] * 2, common.Timeline())
        generated = 0
        begin = time.perf_counter()
        for first in range(0, len(order), job.max_seqs):
            chunk = order[first:first + job.max_seqs]
            line = common.Timeline()
            self.run([prompts[i] for i in chunk], [job.requests[i][1] for i in chunk], line)
            generated += sum(line.counts.values())
        return common.offline_result(job, generated, time.perf_counter() - begin)


if __name__ == "__main__":
    common.main(Engine)
