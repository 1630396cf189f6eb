"""CTranslate2: Generator.generate_batch; sequences leave their batch when they have their tokens."""
from __future__ import annotations

import time

import common
import ctranslate2

COMPUTE = {"f32": "float32", "int8": "int8_float32", "bf16": "bfloat16"}


class Engine:
    def __init__(self, job: common.Job) -> None:
        self.settings = {"compute_type": COMPUTE[job.format], "inter_threads": 1, "intra_threads": job.threads, **job.options}
        self.generator = ctranslate2.Generator(job.model, device="cpu", **self.settings)

    def run(self, prompts: list[list[int]], outputs: list[int], line: common.Timeline) -> None:
        """One batch."""
        def token(step: ctranslate2.GenerationStepResult) -> bool:
            line.tokens(step.batch_id, 1, len(prompts))
            return line.counts[step.batch_id] >= outputs[step.batch_id]

        words = [[f"Ġw{i:06}" for i in prompt] for prompt in prompts]
        line.start()
        self.generator.generate_batch(words, max_length=max(outputs), min_length=max(outputs), include_prompt_in_result=False,
                                      sampling_topk=1, beam_size=1, callback=token)


def offline(job: common.Job, engine: Engine) -> dict:
    order = sorted(range(len(job.requests)), key=lambda i: job.requests[i][0])  # as the engine itself sorts for max_batch_size
    prompts = job.prompts([r[0] for r in job.requests], 2)
    engine.run(job.prompts([r[0] for r in job.requests[:2]], 1), [common.WARMUP_OUTPUT] * 2, common.Timeline())
    generated = 0
    begin = time.perf_counter()
    for first in range(0, len(order), job.max_seqs):
        chunk = order[first:first + job.max_seqs]
        line = common.Timeline()
        engine.run([prompts[i] for i in chunk], [job.requests[i][1] for i in chunk], line)
        generated += sum(line.counts.values())
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
            engine.run(job.prompts([job.prompt] * job.batch, 1), [min(common.WARMUP_OUTPUT, job.output)] * job.batch, common.Timeline())
        engine.run(job.prompts([job.prompt] * job.batch, 2), [job.output] * job.batch, line)
        result = common.batch_result(job, line)
    settings = f"{engine.settings}, batches of at most {job.max_seqs} sorted by prompt length"
    return {**result, "load_s": loaded - begin, "load_to_first_s": line.last_first - begin, "settings": settings}


if __name__ == "__main__":
    common.main(run)
