"""Arguments of an engine: vLLM's names, and those of quire's command line."""

from __future__ import annotations

import argparse
import dataclasses
import os
from dataclasses import dataclass
from typing import Any, TypeVar, Union

from quire.exceptions import UnsupportedError

_DTYPES = {"half": "float16", "float": "float32"}
# vLLM's arguments that concern GPUs, processes, logs or code from the Hub. They change nothing here.
_IGNORED = frozenset((
    "allowed_local_media_path", "allowed_media_domains", "async_scheduling", "attention_config", "code_revision",
    "compilation_config",
    "config_format", "cpu_offload_gb", "cuda_graph_sizes", "disable_custom_all_reduce", "disable_log_requests",
    "disable_log_stats", "distributed_executor_backend", "enable_chunked_prefill", "enable_log_requests",
    "enforce_eager", "gpu_memory_utilization", "limit_mm_per_prompt", "max_seq_len_to_capture",
    "mm_processor_kwargs", "offload_group_size", "offload_num_in_group", "offload_params", "offload_prefetch_step",
    "profiler_config", "served_model_name", "skip_tokenizer_init", "structured_outputs_config",
    "trust_remote_code", "worker_cls",
))
# Arguments that would change results or memory if they were ignored, with the values that change nothing.
_FIXED: dict[str, tuple[Any, ...]] = {
    "data_parallel_size": (1,), "decode_context_parallel_size": (1,), "enable_lora": (False,),
    "enable_prompt_embeds": (False,), "enable_return_routed_experts": (False,), "hf_config_path": (None,),
    "hf_overrides": (None, {}), "kv_transfer_config": (None,), "load_format": ("auto",),
    "logits_processors": (None, []), "logprobs_mode": ("raw_logprobs",), "override_generation_config": (None, {}),
    "pipeline_parallel_size": (1,), "pooler_config": (None,), "quantization_config": (None,),
    "return_sampling_mask": (False,), "rope_scaling": (None, {}), "rope_theta": (None,),
    "spec_method": (None,), "spec_model": (None,), "spec_tokens": (None,), "speculative_config": (None,),
    "tensor_parallel_size": (1,), "tokenizer_mode": ("auto", "hf", "slow"),
}
# Flags of command lines besides the fields of EngineArgs, with their defaults.
_OTHER_FLAGS: dict[str, tuple[str, Any]] = {
    "enforce_eager": ("bool", False), "gpu_memory_utilization": ("float", 0.9), "load_format": ("str", "auto"),
    "pipeline_parallel_size": ("int", 1), "tensor_parallel_size": ("int", 1), "tokenizer_mode": ("str", "auto"),
    "trust_remote_code": ("bool", False),
}
# Quantization methods that are a property of the checkpoint.
_CHECKPOINT_METHODS = frozenset((
    "awq", "awq_marlin", "bitnet", "bitsandbytes", "compressed-tensors", "fp8", "gguf", "gptq", "gptq_marlin", "mxfp4",
    "quark", "torchao",
))

_Args = TypeVar("_Args", bound="EngineArgs")
_Parser = TypeVar("_Parser", bound=argparse.ArgumentParser)


@dataclass
class EngineArgs:
    """Arguments of `LLM` and `AsyncLLM`. Further arguments of vLLM are accepted by `LLM(...)` directly.

    Attributes:
        model: Model directory, GGUF file, or name on the Hugging Face hub: "org/name", "org/name:Q4_K_M" or
            "org/name/file.gguf"; None = the embedded model.
        revision: Branch, tag or commit of a model given by name; None = "main".
        hf_token: Token for private and gated models; None or True = the one of HF_TOKEN or `hf auth login`,
            False = none.
        download_dir: Directory for models given by name; None = the Hugging Face cache.
        runner: "auto" (from the model's files), "generate" or "pooling".
        convert: "auto", "none", "embed" or "classify"; "embed" is runner="pooling".
        dtype: "auto", "float32", "bfloat16" or "float16".
        quantization: Format that weights are quantized to while they are loaded ("int8", "w8a8", "int4", ...);
            None = as in the checkpoint.
        max_model_len: Tokens per sequence; None = the model's limit, reduced to what fits.
        kv_cache_memory_bytes: Size of the KV cache; None = 40 % of the free memory.
        swap_space: Host memory for evicted KV blocks, in GiB.
        max_num_batched_tokens: Tokens per step; None = chosen by the engine.
        threads: Compute threads; None = the physical cores available to this process.
        seed: Seed of requests without one.
        chat_template: File that replaces the model's chat template.
        generation_config: "auto" (the model's generation_config.json) or "none".
    """

    model: Union[str, os.PathLike[str], None] = None
    runner: str = "auto"
    convert: str = "auto"
    tokenizer: str | None = None
    revision: str | None = None
    tokenizer_revision: str | None = None
    hf_token: Union[bool, str, None] = None
    download_dir: Union[str, os.PathLike[str], None] = None
    dtype: str = "auto"
    quantization: str | None = None
    kv_cache_dtype: str = "auto"
    max_model_len: int | None = None
    block_size: int | None = None
    kv_cache_memory_bytes: int | None = None
    swap_space: float = 0
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    long_prefill_token_threshold: int = 0
    max_num_partial_prefills: int = 0
    enable_prefix_caching: bool | None = None
    scheduling_policy: str = "fcfs"
    preemption_mode: str = "auto"
    max_logprobs: int = 20
    seed: int | None = 0
    chat_template: Union[str, os.PathLike[str], None] = None
    generation_config: str = "auto"
    threads: int | None = None
    activation_dtype: str = "auto"
    weight_cache: str | None = None
    kv_disk_cache: str | None = None
    kv_disk_cache_size: int | None = None
    profile: str | None = None

    @staticmethod
    def add_cli_args(parser: _Parser) -> _Parser:
        """Adds a flag for each argument: `--max-model-len` for max_model_len."""
        flags = {field.name: (str(field.type), field.default) for field in dataclasses.fields(EngineArgs)}
        for name, (kind, default) in {**flags, **_OTHER_FLAGS}.items():
            flag = "--" + name.replace("_", "-")
            if name == "hf_token":
                parser.add_argument(flag, nargs="?", const=True, default=default)
            elif kind.startswith("bool"):
                parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=default)
            else:
                convert = int if kind.startswith("int") else float if kind.startswith("float") else str
                parser.add_argument(flag, type=convert, default=default)
        return parser

    @classmethod
    def from_cli_args(cls: type[_Args], args: argparse.Namespace) -> _Args:
        """Creates arguments from parsed flags. Attributes that are not arguments of an engine are left out."""
        names = {field.name for field in dataclasses.fields(cls)} | set(_FIXED)
        return make_engine_args(cls, **{name: value for name, value in vars(args).items() if name in names})

    def _to_core(self) -> dict[str, Any]:
        model = "" if self.model is None else os.fspath(self.model)
        if self.tokenizer not in (None, model):
            raise UnsupportedError(f"tokenizer={self.tokenizer!r} is not supported: the model's own tokenizer is used")
        if self.tokenizer_revision not in (None, self.revision):
            raise UnsupportedError(f"tokenizer_revision={self.tokenizer_revision!r} is not supported: the tokenizer has "
                                   "the revision of the model")
        runner = self.runner
        if self.convert == "embed":
            runner = "pooling"
        elif self.convert not in ("auto", "none"):
            raise UnsupportedError(f"convert={self.convert!r} is not supported; use 'auto', 'none' or 'embed'")
        quantization = self.quantization or "auto"
        if quantization in _CHECKPOINT_METHODS:
            quantization = "auto"
        options: dict[str, Any] = {
            "model": model,
            "revision": self.revision or "",
            "runner": runner,
            "dtype": _DTYPES.get(self.dtype, self.dtype),
            "quantization": quantization,
            "kv_cache_dtype": {"fp8": "fp8_e4m3"}.get(self.kv_cache_dtype, self.kv_cache_dtype),
            "swap_space": int(self.swap_space * 2**30),
            "seed": self.seed or 0,
            "chat_template": "" if self.chat_template is None else os.fspath(self.chat_template),
            "max_num_queued_requests": 2**31 - 2,  # no limit: a batch may have any size
            "generation_config": "none" if self.generation_config == "vllm" else self.generation_config,
        }
        for name in ("long_prefill_token_threshold", "max_num_partial_prefills", "scheduling_policy",
                     "preemption_mode", "max_logprobs", "activation_dtype"):
            options[name] = getattr(self, name)
        for name in ("max_model_len", "block_size", "max_num_seqs", "max_num_batched_tokens",
                     "enable_prefix_caching", "threads", "weight_cache", "kv_disk_cache", "kv_disk_cache_size",
                     "profile"):
            if (value := getattr(self, name)) is not None:
                options[name] = value
        if self.kv_cache_memory_bytes is not None:
            options["kv_cache_memory"] = self.kv_cache_memory_bytes
        return options


@dataclass
class AsyncEngineArgs(EngineArgs):
    """Arguments of `AsyncLLM`."""

    enable_log_requests: bool = False  # accepted for vLLM's scripts; the engine does not log requests


def make_engine_args(cls: type[_Args], /, **kwargs: Any) -> _Args:
    """Creates arguments from those of vLLM's constructor. Arguments without effect on the results are dropped;
    an argument that cannot be honored raises UnsupportedError, an unknown one TypeError."""
    known = {field.name for field in dataclasses.fields(cls)}
    fields = {}
    for name, value in kwargs.items():
        if name in known:
            fields[name] = value
        elif name in _FIXED:
            if value not in _FIXED[name]:
                raise UnsupportedError(f"{name}={value!r} is not supported; leave it at {_FIXED[name][0]!r}")
        elif name not in _IGNORED:
            raise TypeError(f"unexpected argument '{name}'; see quire.EngineArgs")
    return cls(**fields)
