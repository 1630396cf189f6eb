"""Threads, signals, forks, exits, memory and asyncio."""

import asyncio
import threading
import time

import pytest
from quire import AsyncLLM, RequestOutputKind, SamplingParams, ValidationError
from waiting import HANG_S, wait_until

LONG = SamplingParams(temperature=1, seed=1, max_tokens=None, ignore_eos=True)
SETUP = """
import os, signal, sys, threading, time
from quire import LLM, SamplingParams
llm = LLM(kv_cache_memory_bytes=32 << 20, threads=1)
long = SamplingParams(max_tokens=None, ignore_eos=True)
short = SamplingParams(max_tokens=4, temperature=0)
def wait_until(condition):
    while not condition(): time.sleep(0.001)  # run_script has the time limit
def num_requests(): return llm.get_stats()["num_running"] + llm.get_stats()["num_waiting"]
"""


def test_calls_of_several_threads_run_together(llm):
    results = [None] * 8

    def work(i):
        results[i] = llm.generate("Once upon a time", SamplingParams(temperature=0, max_tokens=8), use_tqdm=False)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)
    assert len({tuple(r[0].outputs[0].token_ids) for r in results}) == 1


def test_the_gil_is_released_while_the_engine_works(llm):
    thread = threading.Thread(target=lambda: llm.generate(["Once"] * 4, LONG, use_tqdm=False))
    thread.start()
    steps = 0
    # Without the GIL this thread would do nothing between the first and the last step of the engine.
    while thread.is_alive():
        time.sleep(0.001)
        steps += 0 < llm.get_stats()["num_running"]
    assert steps > 20


def test_ctrl_c_aborts_the_requests_and_the_engine_stays_usable(run_script):
    done = run_script(SETUP + """
def interrupt():
    wait_until(num_requests)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    llm.generate(["Once"] * 2000, long, use_tqdm=False)
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted")
wait_until(lambda: num_requests() == 0)
# The requests have not been finished: that would be a million tokens.
print(llm.get_stats()["generation_tokens"] < 500_000)
print(len(llm.generate("Once", short, use_tqdm=False)[0].outputs[0].token_ids))
""")
    assert done.stdout.splitlines() == ["interrupted", "True", "4"], done.stderr


def test_a_forked_child_gets_an_error_and_may_load_a_model(run_script):
    done = run_script(SETUP + """
llm.generate("Once", short, use_tqdm=False)
child = os.fork()
if child == 0:
    try:
        llm.generate("Once", short, use_tqdm=False)
    except RuntimeError as error:
        print(error)
    del llm
    own = LLM(kv_cache_memory_bytes=32 << 20, threads=1)
    print("own", len(own.generate("Once", short, use_tqdm=False)[0].outputs[0].token_ids), flush=True)
    sys.exit(0)
print("child", os.waitpid(child, 0)[1], flush=True)
print("parent", len(llm.generate("Once", short, use_tqdm=False)[0].outputs[0].token_ids))
""")
    assert done.returncode == 0, done.stderr
    assert "does not run in its forked child" in done.stdout
    assert {"own 4", "child 0", "parent 4"} <= set(done.stdout.splitlines()), done.stdout


@pytest.mark.parametrize("ending", [
    "",
    "del llm",
    "sys.exit(0)",
    "import atexit; atexit.register(lambda: None)",
    "threading.Thread(target=lambda: llm.generate(['Once'] * 500, long, use_tqdm=False), daemon=True).start()\n"
    "wait_until(num_requests)",
])
def test_the_interpreter_exits_cleanly(run_script, ending):
    done = run_script(SETUP + "llm.generate('Once', short, use_tqdm=False)\n" + ending)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_exception_in_the_main_thread_ends_the_program(run_script):
    done = run_script(SETUP + "raise SystemExit(3)")
    assert done.returncode == 3 and done.stderr == ""


def test_a_hundred_engines_do_not_grow_memory(run_script):
    done = run_script("""
from quire import LLM, SamplingParams
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
def cycle(n):
    for _ in range(n):
        llm = LLM(kv_cache_memory_bytes=4 << 20, threads=1, max_model_len=64)
        llm.generate("Once", SamplingParams(max_tokens=1), use_tqdm=False)
        del llm
cycle(20)
before = resident()
cycle(80)
print((resident() - before) >> 10)
with open("/proc/self/status") as file:
    print([line.split()[1] for line in file if line.startswith("Threads:")][0])
""", timeout=300)
    assert done.returncode == 0, done.stderr
    added, threads = map(int, done.stdout.split())
    assert added < 1500 and threads < 8


async def collect(llm, request_id, params, prompt="Once upon a time"):
    return [output async for output in llm.generate(prompt, params, request_id)]


@pytest.fixture(scope="module")
def async_llm():
    return AsyncLLM(kv_cache_memory_bytes=64 << 20, threads=1)


def test_256_requests_stream_at_once(async_llm):
    async def main():
        params = SamplingParams(temperature=0, max_tokens=64, ignore_eos=True)
        return await asyncio.gather(*(collect(async_llm, str(i), params) for i in range(256)))

    streams = asyncio.run(asyncio.wait_for(main(), 60))
    assert len({s[-1].outputs[0].text for s in streams}) == 1
    assert all(s[-1].finished and len(s[-1].outputs[0].token_ids) == 64 for s in streams)
    # Streams have several outputs. How many depends on the load of the machine: a late reader gets several tokens at once.
    assert sum(len(s) for s in streams) > 256
    assert async_llm.get_num_unfinished_requests() == 0


def test_output_kinds(async_llm, llm):
    async def main():
        return [await collect(async_llm, "r", SamplingParams(temperature=0, max_tokens=8, output_kind=kind))
                for kind in RequestOutputKind]

    expected = llm.generate("Once upon a time", SamplingParams(temperature=0, max_tokens=8), use_tqdm=False)[0]
    cumulative, delta, final = asyncio.run(main())
    text = expected.outputs[0].text
    assert cumulative[-1].outputs[0].text == text and text.startswith(cumulative[0].outputs[0].text)
    assert "".join(o.outputs[0].text for o in delta if o.outputs) == text
    assert len(final) == 1 and final[0].outputs[0].text == text
    assert final[0].outputs[0].token_ids == expected.outputs[0].token_ids


def idle(llm):
    stats = llm.get_stats()
    return stats["num_running"] == 0 and stats["num_waiting"] == 0


def test_cancelling_a_task_aborts_its_request(async_llm):
    samples = SamplingParams(n=64, temperature=1, seed=1, max_tokens=None, ignore_eos=True)
    before = async_llm.get_stats()["generation_tokens"]

    async def main():
        task = asyncio.create_task(collect(async_llm, "long", samples))
        while async_llm.get_stats()["num_running"] == 0:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    wait_until(lambda: idle(async_llm), "a request remains")
    assert async_llm.get_stats()["num_free_blocks"] == async_llm.get_stats()["num_blocks"]
    # A request that is not aborted generates up to the length of the model, which is 1,024 tokens.
    assert async_llm.get_stats()["generation_tokens"] - before < 64 * 500


def test_leaving_the_loop_and_abort_end_the_request(async_llm):
    async def main():
        async for _ in async_llm.generate("Once", LONG, "left"):
            break
        outputs = []
        async for output in async_llm.generate("Once", LONG, "aborted"):
            if not outputs:
                await async_llm.abort("aborted")
            outputs.append(output)
        return outputs

    outputs = asyncio.run(main())
    assert outputs[-1].outputs[0].finish_reason == "abort"
    wait_until(lambda: idle(async_llm), "a request remains")


def test_async_errors_and_embeddings(async_llm, embedder):
    with pytest.raises(ValidationError, match="The prompt has .* tokens; the maximum is"):
        asyncio.run(collect(async_llm, "r", SamplingParams(), prompt=[1] * 100000))
    pooling = AsyncLLM(runner="pooling", kv_cache_memory_bytes=32 << 20, threads=1)

    async def embed():
        from quire import PoolingParams

        return [o async for o in pooling.encode("The cat", PoolingParams(), "e")]

    [output] = asyncio.run(embed())
    expected = embedder.encode("The cat", use_tqdm=False)[0]
    assert (output.outputs.data == expected.outputs.data).all()


def test_a_dropped_async_engine_ends(run_script):
    done = run_script("""
import asyncio, gc, threading, weakref
from quire import AsyncLLM, SamplingParams
async def main():
    llm = AsyncLLM(kv_cache_memory_bytes=8 << 20, threads=1)
    async for _ in llm.generate("Once", SamplingParams(max_tokens=2), "r"): pass
    ref = weakref.ref(llm)
    del llm
    gc.collect()
    print(ref() is None)
asyncio.run(main())
""")
    assert done.stdout == "True\n" and done.returncode == 0, done.stderr
