"""Arguments of an engine: vLLM's names, and those of quire's command line."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, Union

from quire.engine.vllm_args import HARMLESS, UNAVAILABLE
from quire.exceptions import UnsupportedError, ValidationError

_DTYPES = {"half": "float16", "float": "float32"}
# Quantization methods that are a property of the checkpoint.
_CHECKPOINT_METHODS = frozenset((
    "awq", "awq_marlin", "bitnet", "bitsandbytes", "compressed-tensors", "fp8", "gguf", "gptq", "gptq_marlin", "mxfp4",
    "quark", "torchao",
))

_SHORT_FLAGS = {"compilation_config": ["-cc"], "data_parallel_size": ["-dp"], "optimization_level": ["-O"],
                "pipeline_parallel_size": ["-pp"], "quantization": ["-q"], "tensor_parallel_size": ["-tp"]}
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}

_Args = TypeVar("_Args", bound="EngineArgs")
_Parser = TypeVar("_Parser", bound=argparse.ArgumentParser)


@dataclass(init=False)
class EngineArgs:
    """Arguments of `LLM`, `AsyncLLM` and `LLMEngine`: those below, which have an effect, and the other ones of vLLM.
    Those that concern GPUs, several processes or logs are accepted and kept. One that would change the results but is
    not available raises `UnsupportedError`, an unknown one `TypeError`.

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
        device: Device that computes the model: "auto" (the CPU) or "cpu".
        threads: Compute threads; None = the physical cores available to this process.
        kv_offloading_size: The same as swap_space.
        max_num_queued_reqs: Waiting requests; more are refused. None = no limit.
        logprobs_mode: What log-probabilities are: "raw_logprobs", "raw_logits", "processed_logprobs" or
            "processed_logits". Processed values are after bias, penalties, temperature and truncation.
        jump_ahead: Append text that an output constraint leaves no choice for at once. The outputs are the same.
        seed: Seed of requests without one.
        chat_template: Template that replaces the model's, or the file of one.
        skip_tokenizer_init: Take token ids only, and return no texts.
        generation_config: "auto" (the model's generation_config.json) or "none".
        override_generation_config: Default sampling parameters that replace those of generation_config.json.
        stream_interval: Least number of tokens per output of `AsyncLLM` and `LLMEngine`, except for the first and the
            last output.
        enable_lora: Requests may use LoRA adapters (`lora_request`).
        fair_by: Who shares the engine equally with scheduling_policy="fair": "client" or "adapter".
        max_loras: Maximum number of different adapters in one step; if more have requests, they take turns. None = 32.
        max_lora_rank: Maximum rank of an adapter; larger ones are refused.
        lora_memory: Bytes for the adapters in memory; None = 256 MiB.
        lora_dir: Directory of adapters: the path of a `LoRARequest` may be relative to it.
        max_cpu_loras: Maximum number of adapters in memory; None = as many as fit.
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
    max_model_len: Union[int, str, None] = None
    block_size: int | None = None
    kv_cache_memory_bytes: int | None = None
    swap_space: float = 0
    kv_offloading_size: float | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_queued_reqs: int | None = None
    long_prefill_token_threshold: int = 0
    max_num_partial_prefills: int = 0
    enable_prefix_caching: bool | None = None
    scheduling_policy: str = "fcfs"
    fair_by: str = "client"
    preemption_mode: str = "auto"
    max_logprobs: int = 20
    logprobs_mode: str = "raw_logprobs"
    seed: int | None = 0
    chat_template: Union[str, os.PathLike[str], None] = None
    skip_tokenizer_init: bool = False
    generation_config: str = "auto"
    override_generation_config: dict[str, Any] | None = None
    stream_interval: int = 1
    enable_lora: bool = False
    max_loras: int | None = None
    max_lora_rank: int = 16
    lora_memory: int | None = None
    lora_dir: Union[str, os.PathLike[str], None] = None
    max_cpu_loras: int | None = None
    device: str = "auto"
    threads: int | None = None
    activation_dtype: str = "auto"
    kernel_tuning: str = "measure"
    jump_ahead: bool = True
    weight_cache: str | None = None
    kv_disk_cache: str | None = None
    kv_disk_cache_size: int | None = None
    profile: str | None = None

    def __init__(self, model: Union[str, os.PathLike[str], None] = None, **kwargs: Any) -> None:
        known = {field.name for field in dataclasses.fields(self)}
        for name, value in {"model": model, **kwargs}.items():
            if name not in known:
                _check_other(name, value)
            setattr(self, name, value)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in HARMLESS or name in UNAVAILABLE:
                return _default(name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @classmethod
    def add_cli_args(cls, parser: _Parser) -> _Parser:
        """Adds a flag for each argument: `--max-model-len` for max_model_len."""
        fields = {field.name: (str(field.type), field.default) for field in dataclasses.fields(cls)}
        others = {name: (type(_default(name)).__name__, _default(name)) for name in (*HARMLESS, *UNAVAILABLE)}
        others.pop("task")  # vLLM has no such flag any more, and scripts have one of their own
        for name, (kind, default) in {**others, **fields}.items():
            flags = ["--" + name.replace("_", "-"), *_SHORT_FLAGS.get(name, ())]
            if name == "hf_token":
                parser.add_argument(*flags, nargs="?", const=True, default=default)
            elif kind.startswith("bool"):
                parser.add_argument(*flags, action=argparse.BooleanOptionalAction, default=default)
            else:
                parser.add_argument(*flags, type=_converter(name, kind), default=default)
        return parser

    @classmethod
    def from_cli_args(cls: type[_Args], args: argparse.Namespace) -> _Args:
        """Creates arguments from parsed flags. Attributes that are not arguments of an engine are left out."""
        names = {*(field.name for field in dataclasses.fields(cls)), *HARMLESS, *UNAVAILABLE}
        return cls(**{name: value for name, value in vars(args).items() if name in names})

    def _to_core(self) -> dict[str, Any]:
        """Converts to the options of the extension. Arguments may have changed since the construction."""
        for name, value in vars(self).items():
            if name in UNAVAILABLE:
                _check_other(name, value)
        if self.model is not None and not isinstance(self.model, (str, os.PathLike)):
            raise ValidationError(f"model must be a path or the name of a model, not {type(self.model).__name__}",
                                  parameter="model", value=self.model)
        model = "" if self.model is None else os.fspath(self.model)
        if self.tokenizer not in (None, model):
            raise UnsupportedError(f"tokenizer={self.tokenizer!r} is not supported: the model's own tokenizer is used")
        if self.tokenizer_revision not in (None, self.revision):
            raise UnsupportedError(f"tokenizer_revision={self.tokenizer_revision!r} is not supported: the tokenizer has "
                                   "the revision of the model")
        dtype = str(self.dtype).removeprefix("torch.")
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
            "dtype": _DTYPES.get(dtype, dtype),
            "quantization": quantization,
            "kv_cache_dtype": {"fp8": "fp8_e4m3"}.get(self.kv_cache_dtype, self.kv_cache_dtype),
            "swap_space": int((self.kv_offloading_size or self.swap_space or 0) * 2**30),
            "seed": self.seed or 0,
            "chat_template": "" if self.chat_template is None else os.fspath(self.chat_template),
            # No limit is the default: a batch may have any size.
            "max_num_queued_requests": 2**31 - 2 if self.max_num_queued_reqs is None else self.max_num_queued_reqs,
            "generation_config": "none" if self.generation_config == "vllm" else self.generation_config,
        }
        for name in ("long_prefill_token_threshold", "max_num_partial_prefills", "scheduling_policy",
                     "fair_by", "preemption_mode", "max_logprobs", "logprobs_mode", "activation_dtype",
                     "kernel_tuning", "jump_ahead", "device", "max_lora_rank"):
            options[name] = getattr(self, name)
        if self.max_model_len not in (None, "auto", -1):
            options["max_model_len"] = self.max_model_len
        for name in ("block_size", "max_num_seqs", "max_num_batched_tokens",
                     "enable_prefix_caching", "threads", "weight_cache", "kv_disk_cache", "kv_disk_cache_size",
                     "profile", "lora_memory", "max_loras", "max_cpu_loras"):
            if (value := getattr(self, name)) is not None:
                options[name] = value
        options["enable_lora"] = bool(self.enable_lora)
        options["lora_dir"] = "" if self.lora_dir is None else os.fspath(self.lora_dir)
        if self.kv_cache_memory_bytes is not None:
            options["kv_cache_memory"] = self.kv_cache_memory_bytes
        return options


class AsyncEngineArgs(EngineArgs):
    """Arguments of `AsyncLLM`."""


def _default(name: str) -> Any:
    return UNAVAILABLE[name][0][0] if name in UNAVAILABLE else HARMLESS[name]


def _check_other(name: str, value: Any) -> None:
    """Raises if an argument is not known, or is not available with this value."""
    if name in UNAVAILABLE:
        harmless, reason = UNAVAILABLE[name]
        if not any(value is one or value == one for one in harmless):
            raise UnsupportedError(f"{name}={value!r} is not supported: {reason}; leave it at {harmless[0]!r}")
    elif name not in HARMLESS:
        raise TypeError(f"unexpected argument '{name}'; see quire.EngineArgs")


def _length(text: str) -> Union[int, str]:
    """A number of tokens: 32768, 32k (32,000), 32K (32,768) or auto."""
    if text == "auto":
        return text
    factor = _UNITS.get(text[-1:], 1)
    return int(float(text[:-1]) * factor) if factor > 1 else int(text)


def _json_or_text(text: str) -> Any:
    return json.loads(text) if text.startswith(("{", "[")) else text


def _converter(name: str, kind: str) -> Callable[[str], Any]:
    if name == "max_model_len":
        return _length
    if kind.startswith(("dict", "NoneType")):
        return _json_or_text
    return int if kind.startswith("int") else float if kind.startswith("float") else str
