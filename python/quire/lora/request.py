"""The LoRA adapter of a request, as in vllm.lora.request."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(eq=False)
class LoRARequest:
    """An adapter in the format of PEFT or in a GGUF file, which is loaded when a request first uses it.

    Args:
        lora_name: The name of the adapter. A later request with the same name and another path replaces it; requests
            that are running keep the one that they began with.
        lora_int_id: A positive number, for `remove_lora` and `list_loras`. Adapters are identified by their content.
        lora_path: A directory with adapter_config.json and adapter_model.safetensors, or a GGUF file.
        base_model_name: Not used.
        load_inplace: Read the adapter again although one with this name and path is loaded.
    """

    lora_name: str
    lora_int_id: int
    lora_path: str = ""
    base_model_name: str | None = None
    tensorizer_config_dict: dict[str, Any] | None = None
    load_inplace: bool = False
    is_3d_lora_weight: bool = False

    def __post_init__(self) -> None:
        if self.lora_int_id < 1:
            raise ValueError(f"id must be > 0, got {self.lora_int_id}")
        if not self.lora_path:
            raise ValueError("lora_path cannot be empty")

    @property
    def adapter_id(self) -> int:
        return self.lora_int_id

    @property
    def name(self) -> str:
        return self.lora_name

    @property
    def path(self) -> str:
        return self.lora_path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoRARequest) and self.lora_name == other.lora_name

    def __hash__(self) -> int:
        return hash(self.lora_name)
