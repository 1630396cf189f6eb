"""bitsandbytes: nf4, fp4 and int8."""

import json
import tempfile

import numpy as np
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from quantized_goldens.common import f32

def read_bitsandbytes(tensors):
    """The dequantized weights of a checkpoint that bitsandbytes wrote."""
    dense, used = {}, set()
    for name in tensors:
        if name.endswith(".SCB"):
            weight = name.removesuffix(".SCB") + ".weight"
            scale = (f32(tensors[name]) / np.float32(127))[:, None]
            dense[weight] = f32(tensors[weight]) * scale
        elif ".quant_state.bitsandbytes__" in name:
            weight = name.split(".quant_state.")[0]
            state = json.loads(bytes(tensors[name].tolist()))
            absmax = tensors[weight + ".absmax"]
            if absmax.dtype == torch.uint8:
                values = f32(tensors[weight + ".nested_quant_map"])[absmax.numpy()]
                outer = np.repeat(f32(tensors[weight + ".nested_absmax"]), state["nested_blocksize"])[:len(values)]
                absmax = values * outer + np.float32(state["nested_offset"])
            else:
                absmax = f32(absmax)
            packed = tensors[weight].numpy().ravel()
            codes = np.stack([packed >> 4, packed & 15], -1).ravel()
            scale = np.repeat(absmax, state["blocksize"])[:len(codes)]
            dense[weight] = (f32(tensors[weight + ".quant_map"])[codes] * scale).reshape(state["shape"])
    return dense


def bitsandbytes(path, model, **options):
    """Quantizes with transformers and bitsandbytes; returns the dequantized weights."""
    with tempfile.TemporaryDirectory() as plain:
        model.half().save_pretrained(plain)
        config = transformers.BitsAndBytesConfig(**options)
        quantized = AutoModelForCausalLM.from_pretrained(plain, quantization_config=config, dtype=torch.float16, device_map="cpu")
        quantized.save_pretrained(path)
    return read_bitsandbytes(load_file(path / "model.safetensors"))


TOOLS = {
    "bitsandbytes-nf4": (bitsandbytes, dict(load_in_4bit=True, bnb_4bit_quant_type="nf4")),
    "bitsandbytes-nf4-double": (bitsandbytes, dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True)),
    "bitsandbytes-fp4": (bitsandbytes, dict(load_in_4bit=True, bnb_4bit_quant_type="fp4")),
    "bitsandbytes-int8": (bitsandbytes, dict(load_in_8bit=True)),
}
