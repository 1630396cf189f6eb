"""The model's tokenizer, with the methods of Hugging Face's that scripts use most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Union, cast

from quire import _chat, _core


class Tokenizer:
    """Converts between text and token ids as the model's own tokenizer does."""

    def __init__(self, core: _core.Engine, info: dict[str, Any]) -> None:
        self._core = core
        self.name_or_path: str = info["path"] or info["name"]
        self.chat_template: str | None = info["chat_template"]
        self.model_max_length: int = info["max_model_len"]
        special = core.special_tokens()
        self.bos_token, self.bos_token_id = cast("tuple[str | None, int | None]", special["bos"])
        self.eos_token, self.eos_token_id = cast("tuple[str | None, int | None]", special["eos"])
        self.unk_token, self.unk_token_id = cast("tuple[str | None, int | None]", special["unk"])
        self.pad_token, self.pad_token_id = cast("tuple[str | None, int | None]", special["pad"])
        self.all_special_ids: list[int] = special["all"]

    @property
    def all_special_tokens(self) -> list[str]:
        return [self._core.id_to_token(token) for token in self.all_special_ids]

    @property
    def vocab_size(self) -> int:
        return len(self)

    @property
    def max_token_id(self) -> int:
        return len(self) - 1

    def __len__(self) -> int:
        return self._core.tokenizer_size()

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Returns the tokens of a text, [num_tokens]."""
        return self._core.encode(text, add_special_tokens)

    def decode(self, token_ids: Union[int, Sequence[int]], skip_special_tokens: bool = False) -> str:
        """Returns the text of tokens."""
        ids = [token_ids] if isinstance(token_ids, int) else list(token_ids)
        return self._core.decode(ids, skip_special_tokens)

    def batch_decode(self, sequences: Iterable[Sequence[int]], skip_special_tokens: bool = False) -> list[str]:
        """Returns the text of each sequence of tokens."""
        return [self.decode(ids, skip_special_tokens) for ids in sequences]

    def __call__(self, text: Union[str, Sequence[str]], add_special_tokens: bool = True) -> dict[str, Any]:
        """Returns `input_ids` and `attention_mask` of one text, or lists of them for several texts."""
        if isinstance(text, str):
            ids = self.encode(text, add_special_tokens)
            return {"input_ids": ids, "attention_mask": [1] * len(ids)}
        many = [self.encode(one, add_special_tokens) for one in text]
        return {"input_ids": many, "attention_mask": [[1] * len(ids) for ids in many]}

    def convert_ids_to_tokens(self, ids: Union[int, Sequence[int]]) -> Union[str, list[str]]:
        """Returns the vocabulary's spelling of tokens."""
        if isinstance(ids, int):
            return self._core.id_to_token(ids)
        return [self._core.id_to_token(token) for token in ids]

    def convert_tokens_to_ids(self, tokens: Union[str, Sequence[str]]) -> Any:
        """Returns the ids of spellings; None for one that is not in the vocabulary."""
        if isinstance(tokens, str):
            return self._core.token_to_id(tokens)
        return [self._core.token_to_id(token) for token in tokens]

    def get_vocab(self) -> dict[str, int]:
        """Returns the vocabulary: spelling to id."""
        return {self._core.id_to_token(token): token for token in range(len(self))}

    def apply_chat_template(
        self,
        conversation: Sequence[dict[str, Any]],
        tools: list[dict[str, Any]] | None = None,
        documents: list[dict[str, Any]] | None = None,
        chat_template: str | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool = False,
        tokenize: bool = True,
        **kwargs: Any,
    ) -> Union[str, list[int]]:
        """Renders a conversation. Returns token ids, or the text if `tokenize` is False."""
        text = _chat.render(
            self._core, conversation, chat_template=chat_template, add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message, tools=tools, documents=documents, kwargs=kwargs,
            keep_media=True)
        return self._core.encode_rendered(text) if tokenize else text
