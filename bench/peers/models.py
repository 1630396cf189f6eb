"""The measured models: shapes of real models with random weights, in the format of each engine. Created on first use, then kept."""
from __future__ import annotations

import json
import os
import pathlib
import shutil
from collections.abc import Callable

import peers

# Arguments of the config classes of transformers; `kind` is the class.
SHAPES: dict[str, dict] = {
    "smollm2-135m": dict(
        kind="Llama", hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
        vocab_size=49152, max_position_embeddings=8192, rms_norm_eps=1e-5, tie_word_embeddings=True),
    "qwen3-0.6b": dict(
        kind="Qwen3", hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
        head_dim=128, vocab_size=151936, max_position_embeddings=8192, rms_norm_eps=1e-6, tie_word_embeddings=True),
    "tinyllama-1.1b": dict(
        kind="Llama", hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32, num_key_value_heads=4,
        vocab_size=32000, max_position_embeddings=4096, rms_norm_eps=1e-5, tie_word_embeddings=False),
}
FIRST_TOKEN = 300  # random prompts draw their ids from [FIRST_TOKEN, vocabulary)

# int4 is each engine's default 4-bit format, with any group size. int4-g128 has one scale per 128 weights in every engine.
FORMATS = ("bf16", "int8", "int4", "int4-g128", "f32")
GGUF_TYPES = {"f32": "F32", "bf16": "BF16", "int8": "Q8_0", "int4": "Q4_0"}
OPENVINO_WEIGHTS = {"f32": "fp16", "bf16": "fp16", "int8": "int8", "int4": "int4", "int4-g128": "int4"}


def openvino_group(model: str) -> int:
    """Group size of OpenVINO's int4."""
    return 64 if SHAPES[model]["hidden_size"] % 128 else 128


def head_size(model: str) -> int:
    shape = SHAPES[model]
    return shape.get("head_dim", shape["hidden_size"] // shape["num_attention_heads"])


def linear_weights(model: str) -> int:
    """Number of weights that every decoding step reads: all matrices of the layers and the output matrix, without embedding rows."""
    s = SHAPES[model]
    hidden, head = s["hidden_size"], head_size(model)
    attention = hidden * head * (2 * s["num_attention_heads"] + 2 * s["num_key_value_heads"])
    return s["num_hidden_layers"] * (attention + 3 * hidden * s["intermediate_size"]) + hidden * s["vocab_size"]


def parameters(model: str) -> int:
    s = SHAPES[model]
    return linear_weights(model) + (0 if s["tie_word_embeddings"] else s["vocab_size"] * s["hidden_size"])


def flops_of_prompt(model: str, tokens: int) -> float:
    """Multiplications and additions of a prompt, with causal attention and one row of the output matrix."""
    s = SHAPES[model]
    output = s["hidden_size"] * s["vocab_size"]
    attention = 2.0 * tokens * tokens * s["num_attention_heads"] * head_size(model) * s["num_hidden_layers"]  # two products, half masked
    return 2.0 * tokens * (linear_weights(model) - output) + 2.0 * output + attention


class Store:
    """The models below DIR/models. A model is created under a temporary name and renamed when it is complete."""

    def __init__(self, peers_dir: pathlib.Path, tokenizer: pathlib.Path | None = None) -> None:
        self.peers_dir = peers_dir
        self.dir = peers_dir / "models"
        self.tokenizer = tokenizer
        self.log = peers_dir / "dl" / "models.log"

    def _made(self, path: pathlib.Path, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
        if path.exists():
            return path
        partial = path.with_name("partial-" + path.name)
        shutil.rmtree(partial, ignore_errors=True)
        partial.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        peers.say(f"[models] making {path}")
        make(partial)
        os.replace(partial, path)
        return path

    def _convert(self, *arguments: object, module: bool = False) -> None:
        python = peers.python_of(self.peers_dir, "convert")
        offline = dict(os.environ, HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
        peers.run_logged([str(python), *(["-m"] if module else []), *map(str, arguments)], self.log, env=offline)

    def checkpoint(self, model: str) -> pathlib.Path:
        """Directory with bfloat16 safetensors: for quire, transformers, vLLM, and all converters."""
        def make(out: pathlib.Path) -> None:
            self._convert(peers.HERE / "make_model.py", json.dumps(SHAPES[model]), out)
            if self.tokenizer:
                for name in ("tokenizer.json", "tokenizer_config.json"):
                    if (self.tokenizer / name).exists():
                        shutil.copyfile(self.tokenizer / name, out / name)
        return self._made(self.dir / model / "checkpoint", make)

    def gguf(self, model: str, kind: str) -> pathlib.Path:
        """`kind` is a type of GGUF files: F32, BF16, or a type that llama-quantize creates from BF16."""
        def make(out: pathlib.Path) -> None:
            if kind in ("F32", "BF16"):
                self._convert(peers.HERE / "to_gguf.py", peers.llama_source(self.peers_dir), self.checkpoint(model), out, kind.lower())
            else:
                quantize = peers.llama_program(self.peers_dir, "llama-quantize")
                peers.run_logged([str(quantize), str(self.gguf(model, "BF16")), str(out), kind], self.log)
        return self._made(self.dir / model / f"{kind}.gguf", make)

    def openvino(self, model: str, weights: str) -> pathlib.Path:
        """`weights`: fp16, int8 or int4, as written by `optimum-cli export openvino --weight-format`."""
        def make(out: pathlib.Path) -> None:
            group = ["--group-size", str(openvino_group(model)), "--sym", "--ratio", "1.0"]
            self._convert("optimum.commands.optimum_cli", "export", "openvino", "--model", self.checkpoint(model), "--task",
                          "text-generation-with-past", "--weight-format", weights, *(group if weights == "int4" else []), out, module=True)
        return self._made(self.dir / model / f"openvino-{weights}", make)

    def ctranslate2(self, model: str, weights: str) -> pathlib.Path:
        """`weights`: int8, or bfloat16, which the engine converts to its compute type at load time."""
        def make(out: pathlib.Path) -> None:
            self._convert("ctranslate2.converters.transformers", "--model", self.checkpoint(model), "--output_dir", out,
                          "--quantization", weights, "--low_cpu_mem_usage", module=True)
        return self._made(self.dir / model / f"ctranslate2-{weights}", make)


def size_on_disk(path: pathlib.Path) -> int:
    files = [path] if path.is_file() else path.rglob("*")
    return sum(f.stat().st_size for f in files if f.is_file())
