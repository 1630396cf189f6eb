"""Runs a measurement in each engine, with the settings that the engine's documentation recommends.

Engine.measure() turns a Task into a Figure or raises measure.Failed. Each measurement is one process that includes a warm-up.
"""
from __future__ import annotations

import functools
import json
import pathlib
import subprocess

import measure
import models
import peers
import serving
from tasks import SEED, Figure, Setup, Task, expect_all

VALUE_OF = {"prefill": "prefill_tokens_per_s", "decode": "decode_tokens_per_s", "offline": "total_tokens_per_s"}


class Engine:
    """Base class. `variants` returns the names of the engine's variants of a format; the table shows the fastest one."""
    name = ""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    def unavailable(self) -> str:
        return peers.missing(self.setup.peers_dir, self.name)

    def version(self) -> str:
        return peers.version(self.setup.peers_dir, self.name)

    def variants(self, task: Task) -> list[str]:
        raise NotImplementedError

    def prepare(self, task: Task, variant: str) -> pathlib.Path:
        """Creates missing model files; returns the path that a measurement reads."""
        raise NotImplementedError

    def measure(self, task: Task, variant: str) -> Figure:
        raise NotImplementedError


class Quire(Engine):
    name = "quire"
    ARGUMENTS = {"float32": ["--dtype", "float32"], "bfloat16": ["--dtype", "bfloat16"], "int8": ["--quantization", "int8"],
                 "w8a8": ["--quantization", "w8a8"], "int4": ["--quantization", "int4"], "int4-g128": ["--quantization", "int4-g128"]}
    VARIANTS = {"f32": ["float32"], "bf16": ["bfloat16"], "int8": ["int8", "w8a8"], "int4": ["int4"], "int4-g128": ["int4-g128"]}
    KEPT = " kept"  # suffix of a variant that maps the packed weights of an earlier start (--weight-cache)
    POOL = 2 << 30

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.kept: set[pathlib.Path] = set()  # weight caches that this build has filled

    def unavailable(self) -> str:
        return "" if self.setup.quire.exists() else f"{self.setup.quire} is not built"

    def version(self) -> str:
        said = subprocess.run([str(self.setup.quire), "version"], capture_output=True, text=True, check=False).stdout.split("\n")
        return said[0]

    @functools.cached_property
    def quantizations(self) -> set[str]:
        text = subprocess.run([str(self.setup.quire), "bench", "latency", "--help"], capture_output=True, text=True, check=False).stdout
        at = text.find("--quantization")
        return {name for name in ("int8", "w8a8", "int4", "int4-g128") if at >= 0 and name in text[at:text.find("\n  --", at + 1)]}

    def variants(self, task: Task) -> list[str]:
        known = [v for v in self.VARIANTS[task.format] if self.ARGUMENTS[v][0] == "--dtype" or v in self.quantizations]
        return known + [v + self.KEPT for v in known] if task.workload == "load" else known

    def weight_cache(self, task: Task, variant: str) -> pathlib.Path | None:
        return self.setup.store.dir / task.model / "quire" / variant if variant.endswith(self.KEPT) else None

    def model(self, task: Task) -> pathlib.Path:
        return self.setup.store.checkpoint(task.model)

    def prepare(self, task: Task, variant: str) -> pathlib.Path:
        model, cache = self.model(task), self.weight_cache(task, variant)
        if cache is None:
            return model
        if cache not in self.kept:
            self.latency(task, variant, warmups=0)
            self.kept.add(cache)
        return cache

    def flags(self, task: Task, variant: str) -> list[str]:
        cache = self.weight_cache(task, variant)
        return [*self.ARGUMENTS[variant.removesuffix(self.KEPT)], *(["--weight-cache", str(cache)] if cache else [])]

    def arguments(self, task: Task, variant: str) -> list[str]:
        """Arguments after the command: the model and the engine flags."""
        longest = max([task.prompt + task.output, *(p + o for p, o in task.requests)])
        return [str(self.model(task)), *self.flags(task, variant), "--threads", str(self.setup.threads),
                "--no-enable-prefix-caching", "--kv-cache-memory", str(self.POOL),
                "--max-model-len", str(-(-longest // 256) * 256), "--log-level", "error"]

    def latency(self, task: Task, variant: str, warmups: int) -> measure.Done:
        return measure.run([str(self.setup.quire), "bench", "latency", *self.arguments(task, variant), "--temperature", "0", "--json", "-",
                            "--batch-size", str(task.batch), "--input-len", str(task.prompt), "--output-len", str(task.output),
                            "--num-iters", "1", "--num-iters-warmup", str(warmups)], self.setup.limit_s)

    def measure(self, task: Task, variant: str) -> Figure:
        setup = self.setup
        settings = f"{' '.join(self.flags(task, variant))} --threads {setup.threads}, no prefix cache, KV pool {self.POOL >> 20} MiB"
        if task.workload == "serve":
            url = f"http://127.0.0.1:{measure.free_port()}"
            command = [str(setup.quire), "serve", *self.arguments(task, variant), "--max-num-seqs", str(setup.max_seqs),
                       "--port", url.rsplit(":", 1)[1], "--disable-log-requests"]
            return serving.measured(setup, task, command, url, settings)
        if task.workload == "offline":
            done = measure.run([str(setup.quire), "bench", "throughput", *self.arguments(task, variant), "--temperature", "0", "--json", "-",
                                "--dataset", task.trace, "--num-prompts", str(len(task.requests)), "--max-num-seqs", str(setup.max_seqs)],
                               setup.limit_s)
        else:
            done = self.latency(task, variant, warmups=0 if task.workload == "load" else 1)
        report = json.loads(done.stdout)
        expect_all(report["output_tokens"], sum(r[1] for r in task.requests) or task.batch * task.output)
        if task.workload == "offline":
            settings += f", --max-num-seqs {setup.max_seqs}, in one process"
        extra = {"weight_bytes": report["weight_bytes"], "peak_rss": done.peak_rss, "cpu_s": done.cpu_s, "kv_pool_bytes": self.POOL,
                 "load_s": report["load_s"], "report": {k: v for k, v in report.items() if not isinstance(v, dict)}}
        value = {"load": done.wall_s, "memory": float(done.peak_rss)}.get(task.workload) or report[VALUE_OF[task.workload]]
        return Figure(value, settings, done.wall_s, extra)


class LlamaCpp(Engine):
    name = "llama.cpp"

    def variants(self, task: Task) -> list[str]:
        return [models.GGUF_TYPES[task.format]] if task.format in models.GGUF_TYPES else []

    def prepare(self, task: Task, variant: str) -> pathlib.Path:
        return self.setup.store.gguf(task.model, variant)

    def program(self, name: str) -> str:
        return str(peers.llama_program(self.setup.peers_dir, name))

    def measure(self, task: Task, variant: str) -> Figure:
        setup, path = self.setup, self.prepare(task, variant)
        threads = str(setup.threads)
        if task.workload in ("serve", "offline"):
            context = sum(sorted((p + o + 8 for p, o in task.requests), reverse=True)[:setup.max_seqs])
            url = f"http://127.0.0.1:{measure.free_port()}"
            flags = ["-t", threads, "-tb", threads, "-fa", "on", "-b", "2048", "-ub", "512", "-np", str(setup.max_seqs), "-kvu", "-c",
                     str(-(-context // 256) * 256), "--no-cache-prompt", "-cram", "0", "--no-ui"]
            command = [self.program("llama-server"), "-m", str(path), "--host", "127.0.0.1", "--port", url.rsplit(":", 1)[1], *flags,
                       "--log-disable"]
            return serving.measured(setup, task, command, url, f"llama-server {variant} {' '.join(flags)}, KV f16")
        common = ["-m", str(path), "-t", threads, "-b", "2048", "-ub", "512"]
        if task.workload == "decode" or task.workload == "memory":
            context = task.batch * (task.prompt + task.output)
            done = measure.run([self.program("llama-batched-bench"), *common, "-tb", threads, "-fa", "on",
                                "-c", str(-(-context // 256) * 256), "-npp", str(task.prompt),
                                "-ntg", str(max(1, task.output - 1)), "-npl", str(task.batch), "--output-format", "jsonl"], setup.limit_s)
            done.stdout += "\n" + done.stderr
            report = done.last_json()
            value, tool = report["speed_tg"], "llama-batched-bench"
        else:
            load = task.workload == "load"
            prompt = ["-p", "0", "-n", "0", "-pg", f"{task.prompt},1"] if load else ["-p", str(task.prompt), "-n", "0"]
            done = measure.run([self.program("llama-bench"), *common, "-fa", "1", *prompt, "-r", "1", "-o", "json",
                                *(["--no-warmup"] if load else [])], setup.limit_s)
            report = json.loads(done.stdout)[0]
            value, tool = report["avg_ts"], "llama-bench"
        settings = f"{tool} {variant} -t {threads} -fa on -b 2048 -ub 512, KV f16, no sampling"
        value = {"load": done.wall_s, "memory": float(done.peak_rss)}.get(task.workload, value)
        extra = {"peak_rss": done.peak_rss, "cpu_s": done.cpu_s, "weight_bytes": models.size_on_disk(path), "report": report}
        return Figure(value, settings, done.wall_s, extra)


class Worker(Engine):
    """An engine with a Python interface: one of workers/ runs in the engine's environment."""
    script = ""
    serves = ""  # why it has no row for `serve`

    def model_path(self, task: Task, variant: str) -> pathlib.Path:
        raise NotImplementedError

    def prepare(self, task: Task, variant: str) -> pathlib.Path:
        return self.model_path(task, variant)

    def environment(self) -> dict[str, str]:
        return {"OMP_NUM_THREADS": str(self.setup.threads), "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error",
                "TOKENIZERS_PARALLELISM": "false"}

    def options(self, task: Task, variant: str) -> dict:
        return {}

    def max_seqs(self) -> int:
        return self.setup.max_seqs

    def measure(self, task: Task, variant: str) -> Figure:
        if task.workload == "serve":
            raise measure.Failed(self.serves)
        setup, path = self.setup, self.model_path(task, variant)
        workload = task.workload if task.workload in ("offline", "load") else "batch"
        job = {"model": str(path), "format": task.format, "threads": setup.threads, "workload": workload, "seed": SEED,
               "vocab": models.SHAPES[task.model]["vocab_size"], "first_token": models.FIRST_TOKEN, "batch": task.batch,
               "prompt": task.prompt, "output": task.output, "requests": task.requests,
               "max_seqs": self.max_seqs(), "options": self.options(task, variant)}
        done = measure.run([str(peers.python_of(setup.peers_dir, self.name)), str(peers.HERE / "workers" / self.script), json.dumps(job)],
                           setup.limit_s, self.environment())
        report = done.last_json()
        expect_all(report["generated"], report["expected"])
        value = {"load": report["load_to_first_s"], "memory": float(done.peak_rss)}.get(task.workload)
        if value is None:
            value = report[VALUE_OF[task.workload]]
        extra = {"peak_rss": done.peak_rss, "cpu_s": done.cpu_s, "weight_bytes": models.size_on_disk(path), "report": report}
        note = ", without the interpreter's start" if task.workload == "load" else ""
        return Figure(value, report.pop("settings") + note, done.wall_s, extra)


class OpenVino(Worker):
    name, script = "openvino", "openvino_worker.py"
    serves = "has no server of its own"

    def variants(self, task: Task) -> list[str]:
        weights, group = models.OPENVINO_WEIGHTS[task.format], models.openvino_group(task.model)
        return [] if task.format == "int4-g128" and group != 128 else [weights]

    def model_path(self, task: Task, variant: str) -> pathlib.Path:
        return self.setup.store.openvino(task.model, variant)


class CTranslate2(Worker):
    name, script = "ctranslate2", "ctranslate2_worker.py"
    serves = "has no server of its own"

    def variants(self, task: Task) -> list[str]:
        return {"f32": ["float32"], "int8": ["int8_float32"]}.get(task.format, [])

    def model_path(self, task: Task, variant: str) -> pathlib.Path:
        return self.setup.store.ctranslate2(task.model, "int8" if task.format == "int8" else "bfloat16")


class Transformers(Worker):
    name, script = "transformers", "transformers_worker.py"
    STATIC_BATCH = 8  # more sequences cost as much in padding as they gain
    serves = "has no server in its generate"

    def max_seqs(self) -> int:
        return self.STATIC_BATCH

    def variants(self, task: Task) -> list[str]:
        return {"f32": ["float32"], "bf16": ["bfloat16"]}.get(task.format, [])

    def model_path(self, task: Task, variant: str) -> pathlib.Path:
        return self.setup.store.checkpoint(task.model)


class Vllm(Worker):
    name, script = "vllm", "vllm_worker.py"
    PRELOADS = ("libtcmalloc_minimal.so.4", "libiomp5.so")  # as its documentation asks for

    def variants(self, task: Task) -> list[str]:
        return {"f32": ["float32"], "bf16": ["bfloat16"]}.get(task.format, [])

    def model_path(self, task: Task, variant: str) -> pathlib.Path:
        return self.setup.store.checkpoint(task.model)

    def environment(self) -> dict[str, str]:
        places = [self.setup.peers_dir / self.name / "lib", *map(pathlib.Path, ("/usr/lib/x86_64-linux-gnu", "/usr/lib64"))]
        found = [next((str(p / name) for p in places if (p / name).exists()), None) for name in self.PRELOADS]
        return {**super().environment(), "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_LOGGING_LEVEL": "ERROR",
                "VLLM_CPU_OMP_THREADS_BIND": "nobind", "LD_PRELOAD": ":".join(f for f in found if f)}

    def measure(self, task: Task, variant: str) -> Figure:
        if task.workload != "serve":
            return super().measure(task, variant)
        setup, path = self.setup, self.prepare(task, variant)
        url = f"http://127.0.0.1:{measure.free_port()}"
        flags = ["--dtype", variant, "--max-num-seqs", str(setup.max_seqs), "--max-model-len", "4096", "--no-enable-prefix-caching"]
        command = [str(peers.python_of(setup.peers_dir, self.name)), "-m", "vllm.entrypoints.openai.api_server", "--model", str(path),
                   "--port", url.rsplit(":", 1)[1], *flags]
        return serving.measured(setup, task, command, url, f"vllm {' '.join(flags)}", self.environment())


ENGINES: dict[str, type[Engine]] = {e.name: e for e in (Quire, LlamaCpp, OpenVino, CTranslate2, Transformers, Vllm)}
