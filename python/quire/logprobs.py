"""Log-probabilities of tokens."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, MutableSequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Optional, Union, overload

#: Of one position, as the extension returns it: token ids, log-probabilities, ranks and texts of equal length.
_Position = tuple[list[int], list[float], list[int], list[Optional[str]]]


@dataclass
class Logprob:
    """Log-probability of one token at one position.

    Attributes:
        logprob: Natural logarithm of the probability, from the raw logits, or what `EngineArgs.logprobs_mode` selects.
        rank: Rank in the vocabulary; 1 = most probable token.
        decoded_token: Text of the token.
    """

    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


LogprobsOnePosition = dict[int, Logprob]


@dataclass
class FlatLogprobs(MutableSequence[Optional[LogprobsOnePosition]]):
    """Log-probabilities of all positions in flat lists, which cost fewer objects than dictionaries.

    Entries `start_indices[i]` to `end_indices[i]` (exclusive) belong to position i. Indexing and iterating create
    the dictionaries that `SamplingParams(flat_logprobs=False)` returns; an empty position gives `{}`. Positions can
    be added at the end, but not be changed or removed.
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
                part._copy(self, i)
            return part
        if not isinstance(index, int):
            raise TypeError(f"indices must be integers or slices, not {type(index).__name__}")
        return {
            self.token_ids[i]: Logprob(self.logprobs[i], self.ranks[i], self.decoded_tokens[i])
            for i in range(self.start_indices[index], self.end_indices[index])
        }

    def __iter__(self) -> Iterator[LogprobsOnePosition]:
        return (self[i] for i in range(len(self)))

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise TypeError("positions of FlatLogprobs cannot be changed")

    def __delitem__(self, index: Any) -> NoReturn:
        raise TypeError("positions of FlatLogprobs cannot be removed")

    def insert(self, index: int, value: Any) -> NoReturn:
        raise TypeError("positions of FlatLogprobs can be added at the end only")

    def append(self, value: LogprobsOnePosition | None) -> None:
        """Adds a position; None adds an empty one."""
        entries = (value or {}).values()
        self._add(value or (), [e.logprob for e in entries], [e.rank for e in entries],
                  [e.decoded_token for e in entries])

    def append_fast(self, token_ids: list[int], logprobs: list[float], ranks: Iterable[int | None],
                    decoded_tokens: Iterable[str | None]) -> None:
        """Adds a position from lists, up to the end of the shortest."""
        entries = list(zip(token_ids, logprobs, ranks, decoded_tokens))
        self._add([e[0] for e in entries], [e[1] for e in entries], [e[2] for e in entries], [e[3] for e in entries])

    def extend(self, values: Iterable[LogprobsOnePosition | None]) -> None:
        """Adds positions."""
        if isinstance(values, FlatLogprobs):
            for i in range(len(values)):
                self._copy(values, i)
        else:
            for value in values:
                self.append(value)

    def _copy(self, other: FlatLogprobs, position: int) -> None:
        begin, end = other.start_indices[position], other.end_indices[position]
        self._add(other.token_ids[begin:end], other.logprobs[begin:end], other.ranks[begin:end],
                  other.decoded_tokens[begin:end])

    def _add(self, token_ids: Iterable[int], logprobs: Iterable[float], ranks: Iterable[int | None],
             texts: Iterable[str | None]) -> None:
        self.start_indices.append(len(self.token_ids))
        self.token_ids.extend(token_ids)
        self.logprobs.extend(logprobs)
        self.ranks.extend(ranks)
        self.decoded_tokens.extend(texts)
        self.end_indices.append(len(self.token_ids))


#: One entry per prompt token; the first is None (an empty position if flat).
PromptLogprobs = Union[FlatLogprobs, list[Optional[LogprobsOnePosition]]]
#: One entry per generated token.
SampleLogprobs = Union[FlatLogprobs, list[LogprobsOnePosition]]


def create_prompt_logprobs(flat_logprobs: bool) -> PromptLogprobs:
    """Returns the log-probabilities of a prompt's first token, which has none."""
    result: PromptLogprobs = FlatLogprobs() if flat_logprobs else []
    result.append(None)
    return result


def create_sample_logprobs(flat_logprobs: bool) -> SampleLogprobs:
    """Returns an empty sequence of positions."""
    return FlatLogprobs() if flat_logprobs else []


def append_logprobs_for_next_position(
    request_logprobs: PromptLogprobs | SampleLogprobs,
    token_ids: list[int],
    logprobs: list[float],
    decoded_tokens: Iterable[str | None],
    rank: int,
    num_logprobs: int,
) -> None:
    """Adds a position. The first token has the given rank, the others have the ranks from 1 to `num_logprobs`; -1 = as
    many as there are."""
    last = len(logprobs) if num_logprobs == -1 else num_logprobs
    position = FlatLogprobs()
    position.append_fast(token_ids, logprobs, itertools.chain((rank,), range(1, last + 1)), decoded_tokens)
    for entries in position:
        request_logprobs.append(entries)


def _extend(target: PromptLogprobs | SampleLogprobs, positions: Iterable[_Position], texts: bool) -> None:
    """Adds positions; without the texts of tokens if `texts` is False."""
    for tokens, logprobs, ranks, spellings in positions:
        shown = spellings if texts else [None] * len(tokens)
        if isinstance(target, FlatLogprobs):
            target._add(tokens, logprobs, ranks, shown)
        else:
            target.append({t: Logprob(p, r, s) for t, p, r, s in zip(tokens, logprobs, ranks, shown)})


def _sample_logprobs(positions: Iterable[_Position] | None, flat: bool, texts: bool) -> SampleLogprobs:
    result = create_sample_logprobs(flat)
    _extend(result, positions or (), texts)
    return result


def _prompt_logprobs(positions: Iterable[_Position] | None, flat: bool, texts: bool) -> PromptLogprobs:
    result = create_prompt_logprobs(flat)
    _extend(result, positions or (), texts)
    return result
