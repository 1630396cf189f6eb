"""Python's share of LLM.generate: CPU time of the calling thread per request, while the engine runs on its own threads.

    PYTHONPATH=build/release/python build/venv/bin/python bench/python/overhead.py [NUM_PROMPTS]

The calling thread converts the prompts, tokenizes them (in C++), submits them, and creates the result objects. Prompts of
token ids show the overhead without tokenization.
"""

import sys
import time

from quire import LLM, SamplingParams


def measure(llm, name, prompts, params):
    begin, cpu = time.perf_counter(), time.thread_time()
    outputs = llm.generate(prompts, params, use_tqdm=False)
    cpu = time.thread_time() - cpu
    assert len(outputs) == len(prompts)
    print(f"{name:32} {1e6 * cpu / len(prompts):6.1f} us per request in Python's thread, "
          f"{1e6 * (time.perf_counter() - begin) / len(prompts):7.1f} us in total")


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    llm = LLM()
    one = SamplingParams(max_tokens=1, temperature=0)
    texts = [f"Once upon a time {i}" for i in range(count)]
    ids = [llm.get_tokenizer().encode(text) for text in texts]
    llm.generate(texts[:100], one, use_tqdm=False)
    measure(llm, "token ids", ids, one)
    measure(llm, "text", texts, one)
    measure(llm, "text, parameters per prompt", texts, [SamplingParams(max_tokens=1, temperature=0) for _ in texts])


if __name__ == "__main__":
    main()
