"""vLLM for CPUs: its engine in this process, driven step by step. Compiled code is cached between runs."""
from __future__ import annotations

import common
from vllm import EngineArgs, LLMEngine, SamplingParams

DTYPES = {"f32": "float32", "bf16": "bfloat16"}


class Engine:
    def __init__(self, job: common.Job) -> None:
        told = {"dtype": DTYPES[job.format], "max_num_seqs": max(job.max_seqs, job.batch), "max_model_len": 4096,
                "max_num_batched_tokens": max(2048, job.prompt), "enable_prefix_caching": False, **job.options}
        self.settings = f"its engine step by step, {told}, KV cache of 2 GB"
        self.engine = LLMEngine.from_engine_args(EngineArgs(model=job.model, skip_tokenizer_init=True, **told))
        self.ids = 0

    def run(self, prompts: list[list[int]], outputs: list[int], line: common.Timeline) -> None:
        sequences, drawn = {}, {}
        line.start()
        for i, (tokens, output) in enumerate(zip(prompts, outputs, strict=True)):
            told = SamplingParams(temperature=0, max_tokens=output, min_tokens=output, ignore_eos=True, detokenize=False)
            name = self.engine.add_request(str(self.ids), {"prompt_token_ids": tokens}, told) or str(self.ids)
            sequences[str(self.ids)] = sequences[name] = i
            self.ids += 1
        while self.engine.has_unfinished_requests():
            for out in self.engine.step():
                i, count = sequences[out.request_id], len(out.outputs[0].token_ids)
                line.tokens(i, count - drawn.get(i, 0), len(prompts))
                drawn[i] = count

    def offline(self, job: common.Job) -> dict:
        return common.offline_at_once(job, self)


if __name__ == "__main__":
    common.main(Engine)
