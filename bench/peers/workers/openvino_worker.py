"""OpenVINO GenAI: its continuous-batching pipeline, driven step by step."""
from __future__ import annotations

import common
import numpy
import openvino
import openvino_genai as genai


def properties(job: common.Job) -> dict:
    hints = {"INFERENCE_NUM_THREADS": job.threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
    if job.format in ("f32", "bf16"):  # for quantized weights the engine selects the type: bf16 if the processor has it
        hints["INFERENCE_PRECISION_HINT"] = job.format
    return {**hints, **job.options}


def scheduler(job: common.Job) -> genai.SchedulerConfig:
    config = genai.SchedulerConfig()
    config.cache_size = 2  # GB
    config.max_num_seqs = max(job.max_seqs, job.batch)
    config.max_num_batched_tokens = max(2048, job.prompt)
    config.dynamic_split_fuse = True
    config.enable_prefix_caching = False
    return config


class Engine:
    def __init__(self, job: common.Job) -> None:
        told = properties(job)
        self.settings = f"continuous batching, {told}, cache 2 GB, KV cache in the engine's own default precision"
        self.pipeline = genai.ContinuousBatchingPipeline(job.model, scheduler(job), "CPU", told)
        self.ids = 0

    def run(self, prompts: list[list[int]], outputs: list[int], line: common.Timeline) -> None:
        handles = []
        line.start()
        for tokens, output in zip(prompts, outputs, strict=True):
            config = genai.GenerationConfig()
            config.max_new_tokens = config.min_new_tokens = output
            config.ignore_eos = True
            config.do_sample = False
            handles.append(self.pipeline.add_request(self.ids, openvino.Tensor(numpy.array([tokens], dtype=numpy.int64)), config))
            self.ids += 1
        while self.pipeline.has_non_finished_requests():
            self.pipeline.step()
            for i, handle in enumerate(handles):
                while handle.can_read():
                    for piece in handle.read().values():
                        line.tokens(i, len(piece.generated_ids), len(handles))

    def offline(self, job: common.Job) -> dict:
        return common.offline_at_once(job, self)


if __name__ == "__main__":
    common.main(Engine)
