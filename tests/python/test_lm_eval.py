"""The model class for lm-evaluation-harness. Runs where the package lm_eval is installed."""

import json
import math

import pytest
from quire import SamplingParams

pytest.importorskip("lm_eval", reason="needs: pip install -r tests/python/requirements-lm-eval.txt")


@pytest.fixture(scope="module")
def model():
    from quire.lm_eval import QuireLM

    return QuireLM(kv_cache_memory_bytes=32 << 20, threads=1)


def instance(kind, *arguments):
    from lm_eval.api.instance import Instance

    return Instance(request_type=kind, doc={}, arguments=arguments, idx=0)


def test_loglikelihood_is_the_sum_of_the_generated_logprobs(model):
    output = model.llm.generate(model.tok_encode("Once upon"), SamplingParams(temperature=0, max_tokens=3, logprobs=0),
                                use_tqdm=False)[0].outputs[0]
    requests = [instance("loglikelihood", "Once upon", output.text), instance("loglikelihood", "Once upon", " zebra")]
    (best, greedy), (other, other_greedy) = model.loglikelihood(requests, disable_tqdm=True)
    assert math.isclose(best, output.cumulative_logprob, rel_tol=1e-4) and greedy
    assert other < 0 and not other_greedy


def test_rolling_loglikelihood_counts_every_token(model):
    short, long = model.loglikelihood_rolling([instance("loglikelihood_rolling", t) for t in
                                               ("The cat sat.", "The cat sat. The dog ran.")], disable_tqdm=True)
    assert long < short < 0


def test_generate_until_stops(model):
    [free] = model.generate_until([instance("generate_until", "Once upon a time", {"until": [], "max_gen_toks": 12})],
                                  disable_tqdm=True)
    [cut] = model.generate_until([instance("generate_until", "Once upon a time",
                                           {"until": ["little"], "max_gen_toks": 12})], disable_tqdm=True)
    assert cut == free[: free.index("little")]


def test_a_task_runs_with_the_harness(model, tmp_path):
    import lm_eval
    from lm_eval.tasks import TaskManager

    documents = [{"context": "Once upon a", "choices": [" time", " zebra"], "label": 0}] * 4
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(d) + "\n" for d in documents))
    (tmp_path / "task.yaml").write_text(f"""
task: upon
dataset_path: json
dataset_kwargs: {{data_files: {{test: {tmp_path}/data.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{context}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: label
target_delimiter: ""
metric_list: [{{metric: acc}}]
""")
    result = lm_eval.simple_evaluate(model=model, tasks=["upon"], bootstrap_iters=0,
                                     task_manager=TaskManager(include_path=str(tmp_path), include_defaults=False))
    assert result["results"]["upon"]["acc,none"] == 1.0
