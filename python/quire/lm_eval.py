"""Model class for lm-evaluation-harness, used as vLLM's is.

    python -m quire.lm_eval --model quire --model_args pretrained=path/to/model --tasks hellaswag

or, in a program, `import quire.lm_eval` and `lm_eval.simple_evaluate(model="quire", model_args="pretrained=...")`.
Needs the package `lm_eval`.
"""

# lm_eval has no type information.
# mypy: ignore-errors

from __future__ import annotations

from typing import Any

from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model

from quire.llm import LLM
from quire.sampling_params import SamplingParams


@register_model("quire")
class QuireLM(TemplateLM):
    """Evaluates a model with `quire.LLM`.

    Args:
        pretrained: Model directory, GGUF file, or name on the Hugging Face hub; None = the embedded model.
        max_gen_toks: Maximum number of generated tokens of a request without a limit of its own.
        add_bos_token: Add the special tokens of the tokenizer to contexts.
        kwargs: Arguments of `quire.LLM`, such as `max_model_len` and `dtype`.
    """

    def __init__(self, pretrained: str | None = None, batch_size: Any = "auto", max_gen_toks: int = 256,
                 add_bos_token: bool = False, device: str | None = None, max_batch_size: int | None = None,
                 **kwargs: Any) -> None:
        super().__init__()
        self.llm = LLM(pretrained, **kwargs)
        self._tokenizer = self.llm.get_tokenizer()
        self._max_gen_toks = max_gen_toks
        self._add_bos_token = add_bos_token
        self._max_length = int(self.llm.get_model_info()["max_model_len"])

    @property
    def eot_token_id(self) -> int:
        ends: list[int] = self.llm.get_model_info()["end_token_ids"]
        return self._tokenizer.eos_token_id if self._tokenizer.eos_token_id is not None else ends[0]

    @property
    def prefix_token_id(self) -> int:
        bos = self._tokenizer.bos_token_id
        return self.eot_token_id if bos is None else bos

    @property
    def max_length(self) -> int:
        return self._max_length

    @property
    def tokenizer_name(self) -> str:
        return self._tokenizer.name_or_path.replace("/", "__")

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        add = self._add_bos_token if add_special_tokens is None else add_special_tokens
        return self._tokenizer.encode(string, add)

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        text = self._tokenizer.apply_chat_template(chat_history, tokenize=False,
                                                   add_generation_prompt=add_generation_prompt,
                                                   continue_final_message=not add_generation_prompt)
        assert isinstance(text, str)
        return text

    def _loglikelihood_tokens(self, requests: list[tuple[Any, list[int], list[int]]], disable_tqdm: bool = False,
                              **kwargs: Any) -> list[tuple[float, bool]]:
        # The model has to generate one token, so that a prompt has at most max_length - 1.
        prompts = [(context + continuation)[-(self._max_length - 1):] for _, context, continuation in requests]
        params = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=1)
        outputs = self.llm.generate(prompts, params, use_tqdm=not disable_tqdm)
        results = []
        for (key, _, continuation), prompt, output in zip(requests, prompts, outputs):
            assert output.prompt_logprobs is not None
            total, greedy = 0.0, True
            for i in range(max(1, len(prompt) - len(continuation)), len(prompt)):
                position = output.prompt_logprobs[i]
                assert position is not None
                total += position[prompt[i]].logprob
                greedy = greedy and position[prompt[i]].rank == 1
            results.append((total, greedy))
            if key is not None:
                self.cache_hook.add_partial("loglikelihood", key, (total, greedy))
        return results

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

        totals = []
        for request in requests:
            windows = map(make_disjoint_window, get_rolling_token_windows(
                token_list=self.tok_encode(request.args[0]), prefix_token=self.prefix_token_id,
                max_seq_len=self._max_length - 1, context_len=1))
            scored = self._loglikelihood_tokens([(None, list(c), list(t)) for c, t in windows], disable_tqdm=True)
            totals.append(sum(value for value, _ in scored))
        return totals

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        prompts: list[list[int]] = []
        params = []
        for request in requests:
            context, options = request.args[0], dict(request.args[1])
            until = options.pop("until", None) or []
            until = [until] if isinstance(until, str) else list(until)
            until.append(self._tokenizer.eos_token)
            limit = int(options.pop("max_gen_toks", options.pop("max_tokens", self._max_gen_toks)))
            sample = options.pop("do_sample", None)
            temperature = float(options.pop("temperature", 0.0)) if sample is not False else 0.0
            fields = {name: options[name] for name in ("top_p", "top_k", "min_p", "seed") if name in options}
            params.append(SamplingParams(temperature=temperature, max_tokens=limit, stop=[s for s in until if s],
                                         skip_special_tokens=False, **fields))
            prompts.append(self.tok_encode(context)[-max(1, self._max_length - limit):])
        texts = []
        for request, output in zip(requests, self.llm.generate(prompts, params, use_tqdm=not disable_tqdm)):
            text = output.outputs[0].text
            texts.append(text)
            self.cache_hook.add_partial("generate_until", request.args, text)
        return texts


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
