"""Parameters of a generation request, with vLLM's names, defaults and ranges."""

from __future__ import annotations

import copy
import json as _json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from numbers import Real
from typing import Any, Union

from quire import _core
from quire.exceptions import UnsupportedError, ValidationError

_GREEDY_BELOW = 1e-5
_MIN_TEMPERATURE = 1e-2
_MAX_N = 16384


class RequestOutputKind(Enum):
    """What each output of a streamed request contains."""

    CUMULATIVE = 0  # everything so far
    DELTA = 1  # what is new since the last output
    FINAL_ONLY = 2  # one output, at the end


class SamplingType(IntEnum):
    GREEDY = 0
    RANDOM = 1
    RANDOM_SEED = 2


_KINDS = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")


@dataclass
class StructuredOutputsParams:
    """A constraint that the whole output obeys. Exactly one of `json`, `regex`, `choice`, `grammar`, `json_object` and
    `structural_tag` must be given.

    Attributes:
        json: A JSON Schema: a dictionary or its text.
        regex: A regular expression.
        choice: Texts, one of which is the output.
        grammar: EBNF or GBNF.
        json_object: True: any JSON object.
        structural_tag: JSON text: triggers in free text begin constrained parts.
        disable_any_whitespace: JSON has no white space except one blank after each comma and colon.
        disable_additional_properties: Not supported: put `additionalProperties` into the schema.
        whitespace_pattern: Not supported.
    """

    json: Union[str, dict[str, Any], None] = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    whitespace_pattern: str | None = None
    structural_tag: str | None = None

    def __post_init__(self) -> None:
        given = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            raise ValidationError(f"structured outputs need exactly one of {', '.join(_KINDS)}; "
                                  f"given: {', '.join(given) or 'none'}")

    def _to_core(self) -> dict[str, Any] | None:
        """The fields of the engine's record; None if `json_object` is False."""
        for name in ("disable_additional_properties", "whitespace_pattern"):
            if getattr(self, name):
                raise UnsupportedError(f"StructuredOutputsParams.{name} is not supported; put it into the schema")
        kind = next(kind for kind in _KINDS if getattr(self, kind) is not None)
        value = getattr(self, kind)
        if kind == "json_object" and not value:
            return None
        if kind == "choice" or isinstance(value, dict):
            value = _json.dumps(value)
        return {"kind": kind, "text": "" if kind == "json_object" else value,
                "disable_any_whitespace": bool(self.disable_any_whitespace)}


def _add_constraint(fields: dict[str, Any], constraint: StructuredOutputsParams | None) -> None:
    if constraint is not None and (core := constraint._to_core()):
        fields["structured_outputs"] = core


def _fits_64_bits(value: Any) -> bool:
    """Whether all integers in nested containers fit into 64 bits, signed or not."""
    pending, seen = [value], set()
    while pending:
        one = pending.pop()
        if isinstance(one, int) and not -(2**63) <= one < 2**64:
            return False
        if isinstance(one, (Mapping, list, tuple)) and id(one) not in seen:
            seen.add(id(one))
            pending.extend(one)
            if isinstance(one, Mapping):
                pending.extend(one.values())
    return True


# Fields that must be numbers.
_NUMBERS = ("presence_penalty", "frequency_penalty", "repetition_penalty", "temperature", "top_p", "top_k", "min_p",
            "seed", "max_tokens", "min_tokens", "logprobs", "prompt_logprobs", "stream_interval", "typical_p",
            "top_n_sigma", "min_keep", "dynatemp_range", "dynatemp_exponent", "xtc_probability", "xtc_threshold",
            "dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n", "mirostat_mode", "mirostat_tau",
            "mirostat_eta")

# Parameters of vLLM that the engine does not implement, with the value that leaves each off.
_UNSUPPORTED: dict[str, Any] = {
    "prompt_logprob_start": None,
    "trace_decode_token_ids": None,
    "watermarking": None,
}


@dataclass
class RepetitionDetectionParams:
    """Ends an output whose last tokens are a pattern that repeats.

    Attributes:
        max_pattern_size: Number of tokens of the longest pattern that is looked for; 0 = off.
        min_pattern_size: Number of tokens of the shortest one; 0 = 1.
        min_count: The pattern stands this many times in a row, at least 2.
    """

    max_pattern_size: int = 0
    min_pattern_size: int = 0
    min_count: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.min_pattern_size <= self.max_pattern_size:
            raise ValidationError(f"min_pattern_size ({self.min_pattern_size}) must be at least 0 and at most max_pattern_size "
                                  f"({self.max_pattern_size})", parameter="repetition_detection")
        if self.max_pattern_size > 0 and self.min_count < 2:
            raise ValidationError(f"min_count must be at least 2, but is {self.min_count}", parameter="repetition_detection")


@dataclass
class SamplingParams:
    """Sampling parameters and stop conditions of a request.

    Attributes:
        n: Number of outputs per prompt.
        presence_penalty: [-2, 2]; subtracted from the logits of tokens that are in the output.
        frequency_penalty: [-2, 2]; the same, multiplied by the number of occurrences.
        repetition_penalty: > 0; divides the positive logits of tokens in prompt or output, and multiplies the
            negative ones.
        temperature: [0, 2]; 0 = greedy.
        top_p: (0, 1]; smallest set of most probable tokens with at least this total probability.
        top_k: Number of most probable tokens to sample from; 0 or -1 = all.
        min_p: [0, 1]; minimum probability, relative to the most probable token.
        seed: Seed of this request; None or -1 = the engine chooses one.
        stop: Strings that end the output. They are not part of it.
        stop_token_ids: Tokens that end the output.
        ignore_eos: Continue after end-of-sequence tokens.
        max_tokens: Maximum number of generated tokens; None = as many as the model's context has room for.
        min_tokens: End and stop tokens are not generated before this many tokens.
        logprobs: Number of log-probabilities per generated token, in addition to the generated token;
            -1 = the whole vocabulary.
        prompt_logprobs: The same for prompt tokens.
        flat_logprobs: Return `FlatLogprobs` in place of lists of dictionaries.
        detokenize: Return texts. If False they are empty.
        skip_special_tokens: Leave special tokens out of the texts.
        spaces_between_special_tokens: Put spaces between special tokens.
        include_stop_str_in_output: Keep the stop string in the text.
        output_kind: What each output of `AsyncLLM` contains. `LLM` always returns final outputs.
        stream_interval: Tokens per output of `AsyncLLM`, except for the first and the last output.
        logit_bias: Token id to bias in [-100, 100], added to the logits.
        allowed_token_ids: All other tokens are excluded.
        skip_reading_prefix_cache: Compute the whole prompt.
        structured_outputs: A constraint that every output obeys.
        extra_args: Ignored. Integers in it must have at most 64 bits.

        logprob_token_ids: Return the log-probabilities of these tokens instead of the most likely ones; at most 128.
        prompt_logprob_token_ids: The same for prompt tokens.
        bad_words: Texts that the output does not contain.
        thinking_token_budget: After this many tokens of reasoning, its end is forced; 0 = no reasoning, None or
            -1 = no limit.
        repetition_detection: Ends outputs that repeat themselves; `finish_reason` is then "repetition".
        typical_p: (0, 1]; locally typical sampling.
        top_n_sigma: Keeps logits within this many standard deviations of the largest; 0 or less = off.
        min_keep: `min_p`, `typical_p`, `top_p` and XTC leave at least this many tokens.
        dynatemp_range: The entropy selects a temperature that differs from `temperature` by at most this; 0 = off.
        dynatemp_exponent: Exponent of the relative entropy.
        xtc_probability: [0, 1]; how often XTC excludes the most probable tokens.
        xtc_threshold: [0, 1]; of the tokens of at least this probability, XTC leaves the least probable one.
        dry_multiplier: Penalty of DRY for tokens that prolong a repetition; 0 = off.
        dry_base: Factor of that penalty for each further token.
        dry_allowed_length: Longest repetition without a penalty.
        dry_penalty_last_n: Number of last tokens in which repetitions are looked for; -1 = all, 0 = off.
        dry_sequence_breakers: Texts that end repetitions. None: line break, colon, quotation mark and asterisk.
        mirostat_mode: 2 = Mirostat 2 in place of all truncation; 0 = off.
        mirostat_tau: Target surprise of Mirostat in bits.
        mirostat_eta: [0, 1]; learning rate of Mirostat.
        samplers: Names of the samplers to apply, in this order. None: all, in the default order.

    `typical_p` and the fields after it are those of llama.cpp. `prompt_logprob_start`, `trace_decode_token_ids` and
    `watermarking` exist in vLLM only: a request that sets one raises `UnsupportedError`.
    """

    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    watermarking: bool | None = None
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: Union[str, list[str], None] = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    prompt_logprob_token_ids: list[int] | None = None
    prompt_logprob_start: int | None = None
    logprob_token_ids: list[int] | None = None
    flat_logprobs: bool = False
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    output_kind: RequestOutputKind = RequestOutputKind.CUMULATIVE
    stream_interval: int | None = None
    skip_clone: bool = False
    structured_outputs: StructuredOutputsParams | None = None
    logit_bias: dict[int, float] | None = None
    allowed_token_ids: list[int] | None = None
    extra_args: dict[str, Any] | None = None
    bad_words: list[str] | None = None
    skip_reading_prefix_cache: bool | None = None
    thinking_token_budget: int | None = None
    repetition_detection: RepetitionDetectionParams | None = None
    routed_experts_prompt_start: int = 0
    trace_decode_token_ids: list[int] | None = None
    typical_p: float = 1.0
    top_n_sigma: float = 0.0
    min_keep: int = 0
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_sequence_breakers: list[str] | None = None
    mirostat_mode: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    samplers: list[str] | None = None

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            value = getattr(self, name)
            optional = name == "max_tokens" or getattr(SamplingParams, name) is None
            if not isinstance(value, Real) and not (optional and value is None):
                raise ValidationError(f"{name} must be a number, but is {value!r}", parameter=name, value=value)
        if 0 < self.temperature < _MIN_TEMPERATURE:
            self.temperature = _MIN_TEMPERATURE
        if self.seed == -1:
            self.seed = None
        if self.stop is None:
            self.stop = []
        elif isinstance(self.stop, str):
            self.stop = [self.stop]
        self.stop_token_ids = list(dict.fromkeys(self.stop_token_ids or []))
        if self.logprobs is True:
            self.logprobs = 1
        if self.prompt_logprobs is True:
            self.prompt_logprobs = 1
        if self.bad_words == []:
            self.bad_words = None
        self._verify()
        if self.temperature < _GREEDY_BELOW:
            self.top_p, self.top_k, self.min_p = 1.0, 0, 0.0
            if self.n > 1:
                raise ValidationError(f"n must be 1 with greedy sampling (temperature 0), not {self.n}")

    @staticmethod
    def from_optional(**fields: Any) -> SamplingParams:
        """Creates parameters from keyword arguments. None stands for the default; the keys of `logit_bias` may be
        strings, and its values are limited to [-100, 100]."""
        if (bias := fields.get("logit_bias")) is not None:
            try:
                fields["logit_bias"] = {int(token): min(100.0, max(-100.0, value)) for token, value in bias.items()}
            except (TypeError, ValueError) as error:
                raise ValidationError(f"logit_bias: the keys must be token ids: {error}") from None
        may_be_none = ("max_tokens",)
        return SamplingParams(**{k: v for k, v in fields.items() if v is not None or k in may_be_none})

    def _verify(self) -> None:
        def check(valid: bool, name: str, what: str) -> None:
            if not valid:
                value = getattr(self, name)
                raise ValidationError(f"{name} must be {what}, but is {value!r}", parameter=name, value=value)

        def in_range(name: str, low: float, high: float) -> None:
            check(low <= getattr(self, name) <= high, name, f"in [{low:g}, {high:g}]")

        check(isinstance(self.n, int) and 1 <= self.n <= _MAX_N, "n", f"an integer from 1 to {_MAX_N}")
        in_range("presence_penalty", -2.0, 2.0)
        in_range("frequency_penalty", -2.0, 2.0)
        check(math.isfinite(self.repetition_penalty) and self.repetition_penalty > 0, "repetition_penalty",
              "finite and greater than 0")
        in_range("temperature", 0.0, 2.0)
        check(0.0 < self.top_p <= 1.0, "top_p", "in (0, 1]")
        check(isinstance(self.top_k, int) and self.top_k >= -1, "top_k", "an integer of at least 1, or 0 (off)")
        in_range("min_p", 0.0, 1.0)
        check(self.max_tokens is None or self.max_tokens >= 1, "max_tokens", "at least 1")
        check(self.min_tokens >= 0 and (self.max_tokens is None or self.min_tokens <= self.max_tokens), "min_tokens",
              f"from 0 to max_tokens ({self.max_tokens})")
        check(self.thinking_token_budget is None or
              (isinstance(self.thinking_token_budget, int) and self.thinking_token_budget >= -1),
              "thinking_token_budget", "an integer of at least 0, or -1")
        check(self.logprobs is None or self.logprobs >= -1, "logprobs", "at least 0, or -1")
        check(self.prompt_logprobs is None or self.prompt_logprobs >= -1, "prompt_logprobs", "at least 0, or -1")
        check(self.stream_interval is None or self.stream_interval >= 1, "stream_interval", "at least 1")
        check(all(isinstance(token, int) for token in self.stop_token_ids or ()), "stop_token_ids",
              "a list of integers")
        check(all(self.stop or ()), "stop", "a list of strings that are not empty")
        if self.extra_args and not _fits_64_bits(self.extra_args):
            raise ValidationError("extra_args integers must be from -2**63 to 2**64 - 1", parameter="extra_args")
        if self.stop and not self.detokenize:
            raise ValidationError("stop strings need detokenize=True")

    @property
    def sampling_type(self) -> SamplingType:
        if self.temperature < _GREEDY_BELOW:
            return SamplingType.GREEDY
        return SamplingType.RANDOM if self.seed is None else SamplingType.RANDOM_SEED

    @property
    def _wants_logprobs(self) -> bool:
        return self.logprobs is not None or bool(self.logprob_token_ids)

    @property
    def _wants_prompt_logprobs(self) -> bool:
        return self.prompt_logprobs is not None or bool(self.prompt_logprob_token_ids)

    @property
    def all_stop_token_ids(self) -> set[int]:
        return set(self.stop_token_ids or ())

    def clone(self) -> SamplingParams:
        """Returns a copy: a shallow one if `skip_clone` is set."""
        return copy.copy(self) if self.skip_clone else copy.deepcopy(self)

    def _to_core(self, max_model_len: int) -> _core.SamplingParams:
        """Converts to the engine's record. Raises UnsupportedError for parameters that it does not have."""
        for name, off in _UNSUPPORTED.items():
            if (value := getattr(self, name)) is not off and value is not False:
                raise UnsupportedError(f"SamplingParams.{name} is not supported; leave it at {off}")
        fields: dict[str, Any] = {
            "n": self.n,
            "max_tokens": max_model_len if self.max_tokens is None else self.max_tokens,
            "temperature": self.temperature,
        }
        # A field that is left at its default is not worth a conversion.
        for name, default in _CORE_FIELDS:
            if (value := getattr(self, name)) != default:
                fields[name] = value
        if self.stop:
            fields["stop"] = [self.stop] if isinstance(self.stop, str) else self.stop
        if self.stop_token_ids:
            fields["stop_token_ids"] = self.stop_token_ids
        if self.allowed_token_ids is not None:
            if not self.allowed_token_ids:
                raise ValidationError("allowed_token_ids must not be empty")
            fields["allowed_token_ids"] = list(self.allowed_token_ids)
        if self.logit_bias:
            fields["logit_bias"] = self.logit_bias
        for name in ("logprob_token_ids", "prompt_logprob_token_ids", "bad_words", "samplers"):
            if value := getattr(self, name):
                fields[name] = list(dict.fromkeys(value))
        if self.dry_sequence_breakers is not None:
            fields["dry_sequence_breakers"] = list(self.dry_sequence_breakers)
        if self.repetition_detection is not None:
            fields["repetition_detection"] = vars(self.repetition_detection)
        _add_constraint(fields, self.structured_outputs)
        return _core.SamplingParams(fields)


# Fields that the engine has under the same name, with their defaults.
_CORE_FIELDS: Sequence[tuple[str, Any]] = (
    ("presence_penalty", 0.0),
    ("frequency_penalty", 0.0),
    ("repetition_penalty", 1.0),
    ("top_p", 1.0),
    ("top_k", 0),
    ("min_p", 0.0),
    ("seed", None),
    ("ignore_eos", False),
    ("min_tokens", 0),
    ("thinking_token_budget", None),
    ("logprobs", None),
    ("prompt_logprobs", None),
    ("skip_special_tokens", True),
    ("spaces_between_special_tokens", True),
    ("include_stop_str_in_output", False),
    ("typical_p", 1.0),
    ("top_n_sigma", 0.0),
    ("min_keep", 0),
    ("dynatemp_range", 0.0),
    ("dynatemp_exponent", 1.0),
    ("xtc_probability", 0.0),
    ("xtc_threshold", 0.1),
    ("dry_multiplier", 0.0),
    ("dry_base", 1.75),
    ("dry_allowed_length", 2),
    ("dry_penalty_last_n", -1),
    ("mirostat_mode", 0),
    ("mirostat_tau", 5.0),
    ("mirostat_eta", 0.1),
)


@dataclass
class BeamSearchParams:
    """Parameters of `LLM.beam_search`.

    Attributes:
        beam_width: Number of beams, and of returned sequences.
        max_tokens: Maximum number of generated tokens.
        ignore_eos: Continue after end-of-sequence tokens.
        temperature: Ignored: beams are ranked by the model's probabilities.
        length_penalty: Sequences are ranked by cumulative log-probability / length^length_penalty.
        skip_special_tokens: Leave special tokens out of the texts.
        allowed_token_ids: All other tokens are excluded.
    """

    beam_width: int
    max_tokens: int
    ignore_eos: bool = False
    temperature: float = 0.0
    length_penalty: float = 1.0
    include_stop_str_in_output: bool = False
    structured_outputs: StructuredOutputsParams | None = None
    skip_special_tokens: bool = True
    watermarking: bool | None = None
    allowed_token_ids: list[int] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.beam_width, int) or not 1 <= self.beam_width <= _MAX_N:
            raise ValidationError(f"beam_width must be an integer from 1 to {_MAX_N}, but is {self.beam_width!r}")
        if not isinstance(self.max_tokens, int) or self.max_tokens < 1:
            raise ValidationError(f"max_tokens must be at least 1, but is {self.max_tokens!r}")

    def _to_core(self) -> _core.SamplingParams:
        fields: dict[str, Any] = {
            "n": self.beam_width,
            "use_beam_search": True,
            "beam_width": self.beam_width,
            # As vLLM, which searches until no beam is left or max_tokens is reached.
            "early_stopping": "never",
            "max_tokens": self.max_tokens,
            "length_penalty": float(self.length_penalty),
            "ignore_eos": self.ignore_eos,
            "skip_special_tokens": self.skip_special_tokens,
            "logprobs": 0,
        }
        if self.allowed_token_ids is not None:
            fields["allowed_token_ids"] = self.allowed_token_ids
        _add_constraint(fields, self.structured_outputs)
        return _core.SamplingParams(fields)
