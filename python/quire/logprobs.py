"""Log-probabilities of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Optional, Union, overload

#: Of one position, as the extension returns it: token ids, log-probabilities, ranks and texts of equal length.
_Position = tuple[list[int], list[float], list[int], list[Optional[str]]]


@dataclass
class Logprob:
    """Log-probability of one token at one position.

    Attributes:
        logprob: Natural logarithm of the probability, from the raw logits.
        rank: Rank in the vocabulary; 1 = most probable token.
        decoded_token: Text of the token.
    """

    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


LogprobsOnePosition = dict[int, Logprob]


@dataclass
class FlatLogprobs(Sequence[Optional[LogprobsOnePosition]]):
    """Log-probabilities of all positions in flat lists, which cost fewer objects than dictionaries.

    Entries `start_indices[i]` to `end_indices[i]` (exclusive) belong to position i. Indexing and iterating create
    the dictionaries that `SamplingParams(flat_logprobs=False)` returns; an empty position gives `{}`.
    """

    start_indices: list[int] = field(default_factory=list)  # [num_positions]
    end_indices: list[int] = field(default_factory=list)  # [num_positions]
    token_ids: list[int] = field(default_factory=list)  # [num_entries]
    logprobs: list[float] = field(default_factory=list)  # [num_entries]
    ranks: list[int | None] = field(default_factory=list)  # [num_entries]
    decoded_tokens: list[str | None] = field(default_factory=list)  # [num_entries]

    def __len__(self) -> int:
        return len(self.start_indices)

    @overload
    def __getitem__(self, index: int) -> LogprobsOnePosition: ...

    @overload
    def __getitem__(self, index: slice) -> FlatLogprobs: ...

    def __getitem__(self, index: Union[int, slice]) -> Union[LogprobsOnePosition, FlatLogprobs]:
        if isinstance(index, slice):
            part = FlatLogprobs()
            for i in range(*index.indices(len(self))):
                begin, end = self.start_indices[i], self.end_indices[i]
                part._add(self.token_ids[begin:end], self.logprobs[begin:end], self.ranks[begin:end],
                          self.decoded_tokens[begin:end])
            return part
        return {
            self.token_ids[i]: Logprob(self.logprobs[i], self.ranks[i], self.decoded_tokens[i])
            for i in range(self.start_indices[index], self.end_indices[index])
        }

    def __iter__(self) -> Iterator[LogprobsOnePosition]:
        return (self[i] for i in range(len(self)))

    def _add(self, token_ids: Iterable[int], logprobs: Iterable[float], ranks: Iterable[int | None],
             texts: Iterable[str | None]) -> None:
        self.start_indices.append(len(self.token_ids))
        self.token_ids.extend(token_ids)
        self.logprobs.extend(logprobs)
        self.ranks.extend(ranks)
        self.decoded_tokens.extend(texts)
        self.end_indices.append(len(self.token_ids))

    def _add_all(self, other: FlatLogprobs) -> None:
        for i in range(len(other)):
            begin, end = other.start_indices[i], other.end_indices[i]
            self._add(other.token_ids[begin:end], other.logprobs[begin:end], other.ranks[begin:end],
                      other.decoded_tokens[begin:end])


#: One entry per prompt token; the first is None (an empty position if flat).
PromptLogprobs = Union[FlatLogprobs, list[Optional[LogprobsOnePosition]]]
#: One entry per generated token.
SampleLogprobs = Union[FlatLogprobs, list[LogprobsOnePosition]]


def _extend(target: SampleLogprobs, positions: Iterable[_Position]) -> None:
    if isinstance(target, FlatLogprobs):
        for tokens, logprobs, ranks, texts in positions:
            target._add(tokens, logprobs, ranks, texts)
    else:
        for tokens, logprobs, ranks, texts in positions:
            target.append({t: Logprob(p, r, s) for t, p, r, s in zip(tokens, logprobs, ranks, texts)})


def _sample_logprobs(positions: Iterable[_Position] | None, flat: bool) -> SampleLogprobs:
    result: SampleLogprobs = FlatLogprobs() if flat else []
    _extend(result, positions or ())
    return result


def _prompt_logprobs(positions: Iterable[_Position] | None, flat: bool) -> PromptLogprobs:
    if flat:
        flat_result = FlatLogprobs()
        flat_result._add((), (), (), ())
        _extend(flat_result, positions or ())
        return flat_result
    sampled: list[LogprobsOnePosition] = []
    _extend(sampled, positions or ())
    return [None, *sampled]
