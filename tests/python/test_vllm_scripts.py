"""Scripts as users of vLLM write them, with vllm replaced by quire. Each reads its model from the command line."""

import os
import pathlib
import subprocess
import sys

import pytest

MODEL = pathlib.Path(__file__).parents[2] / "models" / "quire-tiny"

ARGUMENTS = """
from vllm import LLM, EngineArgs
from vllm.utils.argparse_utils import FlexibleArgumentParser

def parse():
    parser = EngineArgs.add_cli_args(FlexibleArgumentParser(description="example"))
    parser.set_defaults(DEFAULTS)
    group = parser.add_argument_group("Sampling")
    group.add_argument("--max-tokens", type=int, default=8)
    group.add_argument("--top_p", type=float)
    return vars(parser.parse_args())
"""

GENERATE = ARGUMENTS.replace("DEFAULTS", "enforce_eager=True") + """
args = parse()
max_tokens, top_p = args.pop("max_tokens"), args.pop("top_p")
llm = LLM(**args)
params = llm.get_default_sampling_params()
params.max_tokens = max_tokens
if top_p is not None:
    params.top_p = top_p
print(llm.get_model_info()["max_model_len"], params.top_p)
for output in llm.generate(["Hello, my name is", "The president of the United States is"], params):
    print("Generated text:", output.outputs[0].text)
"""

EMBED = ARGUMENTS.replace("DEFAULTS", 'runner="pooling", enforce_eager=True') + """
args = parse()
del args["max_tokens"], args["top_p"]
llm = LLM(**args)
for prompt, output in zip(["Hello", "Bye"], llm.embed(["Hello", "Bye"])):
    embeds = output.outputs.embedding
    print(f"Prompt: {prompt!r}", len(embeds))
scores = llm.score("Hello", ["Hello", "Bye"])
print("Scores:", [s.outputs.score for s in scores])
"""

CHAT = """
import sys
from vllm import LLM
from vllm.sampling_params import SamplingParams
llm = LLM(model=sys.argv[2], gpu_memory_utilization=0.8, tensor_parallel_size=1, max_model_len=256)
conversation = [{"role": "system", "content": "You are a helpful assistant"}, {"role": "user", "content": "Hello"}]
outputs = llm.chat([conversation] * 3, sampling_params=SamplingParams(temperature=0.5, max_tokens=8), use_tqdm=False)
for output in outputs:
    print(f"Prompt: {output.prompt!r}", f"Generated text: {output.outputs[0].text!r}", sep=chr(10))
"""

PREFIX = """
import sys
from vllm import LLM, SamplingParams
prefix = "Once upon a time there was a little girl who lived in a big house near the forest with her dog. " * 2
llm = LLM(model=sys.argv[2], enable_prefix_caching=True, seed=0)
params = SamplingParams(temperature=0.0, max_tokens=6)
prompts = [prefix + end for end in ("She", "He", "They")]
first = [o.outputs[0].text for o in llm.generate(prompts, params)]
llm.generate(prompts[0], params)
again = llm.generate(prompts, params)
print("Same:", first == [o.outputs[0].text for o in again], again[0].num_cached_tokens > 0)
"""

ASYNC = """
import asyncio, sys
from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind
from vllm.utils import FlexibleArgumentParser
from vllm.v1.engine.async_llm import AsyncLLM

async def stream(engine, prompt, request_id):
    params = SamplingParams(max_tokens=8, temperature=0.8, top_p=0.95, seed=42, output_kind=RequestOutputKind.DELTA)
    async for output in engine.generate(request_id=request_id, prompt=prompt, sampling_params=params):
        for completion in output.outputs:
            print(completion.text, end="", flush=True)
        if output.finished:
            print("[finished]")
            break

async def main():
    args = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser()).parse_args()
    engine = AsyncLLM.from_engine_args(AsyncEngineArgs.from_cli_args(args))
    try:
        for i, prompt in enumerate(["The future of AI is", "In a galaxy far away"]):
            await stream(engine, prompt, f"stream-{i}")
    finally:
        engine.shutdown()

asyncio.run(main())
"""

STEPS = """
from vllm import EngineArgs, LLMEngine, SamplingParams
from vllm.utils.argparse_utils import FlexibleArgumentParser

args = EngineArgs.add_cli_args(FlexibleArgumentParser()).parse_args()
engine = LLMEngine.from_engine_args(EngineArgs.from_cli_args(args))
waiting = [("A robot", SamplingParams(temperature=0.0, logprobs=1, prompt_logprobs=1)),
           ("To be or not to be,", SamplingParams(temperature=0.8, top_k=5, presence_penalty=0.2)),
           ("What is the meaning", SamplingParams(n=2, temperature=0.8, top_p=0.95, frequency_penalty=0.1))]
request_id = 0
while waiting or engine.has_unfinished_requests():
    if waiting:
        prompt, params = waiting.pop(0)
        engine.add_request(str(request_id), prompt, params)
        request_id += 1
    for output in engine.step():
        if output.finished:
            print("[finished]", output)
"""


def run(tmp_path, script, *flags):
    path = tmp_path / "script.py"
    path.write_text(script.replace("vllm", "quire"))
    return subprocess.run([sys.executable, path, "--model", MODEL, *flags], capture_output=True, text=True, timeout=60, env=os.environ)


@pytest.mark.parametrize("script, flags, expected, count", [
    (GENERATE, ["--max_model_len", "128", "--top_p=0.5", "--no-enable-prefix-caching"], "Generated text:", 2),
    (GENERATE, ["--max-model-len=128", "--top_p", "0.5", "--gpu-memory-utilization", "0.5"], "128 0.5", 1),
    (EMBED, ["--threads", "1"], "Prompt: ", 2),
    (EMBED, [], "Scores: [", 1),
    (CHAT, [], "Generated text:", 3),
    (PREFIX, [], "Same: True True", 1),
    (ASYNC, ["--max-num-seqs", "8", "--swap-space", "0.01"], "[finished]", 2),
    (STEPS, ["--enforce-eager", "-tp", "1", "--trust_remote_code"], "[finished]", 3),
])
def test_a_script_runs(tmp_path, script, flags, expected, count):
    done = run(tmp_path, script, *flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(expected) == count, done.stdout


def test_flags_that_cannot_be_honored_are_errors(tmp_path):
    assert "tensor_parallel_size=2 is not supported" in run(tmp_path, GENERATE, "--tensor-parallel-size", "2").stderr
    assert "tensor_parallel_size=2 is not supported" in run(tmp_path, ASYNC, "--tensor-parallel-size", "2").stderr
    done = run(tmp_path, GENERATE, "--no-such-flag")
    assert done.returncode == 2 and "unrecognized arguments: --no-such-flag" in done.stderr
