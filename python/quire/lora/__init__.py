"""LoRA adapters, as in vllm.lora."""
