"""torchao."""

import json
import tempfile

import numpy as np
import safetensors
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from quantized_goldens.common import CONFIG, f32, is_quantized

def torchao_weight(tensors, name, description):
    """The dequantized weight of a checkpoint that torchao wrote."""
    module = name.removesuffix(".weight")
    values, scale = f32(tensors[module + "._weight_qdata"]), f32(tensors[module + "._weight_scale"])
    if "zero_point" in description["_tensor_data_names"]:
        values = values - np.repeat(f32(tensors[module + "._weight_zero_point"]), description["_data"]["block_size"][1], 1)
    return values * np.repeat(np.repeat(scale, values.shape[0] // scale.shape[0], 0), values.shape[1] // scale.shape[1], 1)


def torchao(path, model, configs, dtype=torch.float16):
    """Quantizes with transformers and torchao; configs: torchao configurations and settings by name pattern."""
    import torchao.quantization as ao

    def settings(options):
        return {key: getattr(ao.granularity, value[0])(*value[1:]) if key.endswith("granularity") else value
                for key, value in options.items()}
    made = {name: getattr(ao, kind)(**settings(options)) for name, (kind, options) in configs.items()}
    config = transformers.TorchAoConfig(quant_type=made["_default"] if len(made) == 1 else ao.FqnToConfig(made))
    with tempfile.TemporaryDirectory() as plain:
        model.to(dtype).save_pretrained(plain)
        quantized = AutoModelForCausalLM.from_pretrained(plain, quantization_config=config, dtype=dtype, device_map="cpu")
        quantized.save_pretrained(path)
    with safetensors.safe_open(path / "model.safetensors", "pt") as file:
        described = {name: json.loads(text) for name, text in file.metadata().items() if text.startswith("{")}
    tensors = load_file(path / "model.safetensors")
    dense = {name: torchao_weight(tensors, name, one) for name, one in described.items() if one["_type"] != "Tensor"}
    for name, w in dense.items():
        theirs = quantized.get_parameter(name)
        theirs = theirs.dequantize() if type(theirs) is ao.IntxUnpackedToInt8Tensor else theirs.dequantize(torch.float32)
        assert torch.equal(torch.from_numpy(w).to(theirs.dtype), theirs), name
    return dense


def torchao_int4(path, model):
    """Format of Int4WeightOnlyConfig, whose kernels need a GPU: groups of 32; one matrix in the tiled layout, which torchao pads to
    1024 columns."""
    import torchao.quantization as ao
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    state, dense = {}, {}
    for name, value in model.state_dict().items():
        if name == "lm_head.weight" or not is_quantized(name):
            state |= {name: value.half()} if name != "lm_head.weight" else {}
            continue
        n, k = value.shape
        groups = f32(value).reshape(n, -1, 32)
        low, high = groups.min(-1), groups.max(-1)
        scale = torch.from_numpy((high - low) / 15).bfloat16()
        zero = torch.from_numpy(low + 8 * f32(scale)).bfloat16()
        codes = np.clip(np.round((groups - f32(zero)[..., None]) / f32(scale)[..., None]), -8, 7).astype(np.int8).reshape(n, k)
        if "layers.0.self_attn.q_proj" in name:
            words = np.zeros((n // 8, 1024 // 128, 32, 4), np.uint32)
            for row, column in np.ndindex(n, k):
                pair = column % 32 // 2
                place = row // 8, column // 128, row % 8 * 4 + pair % 4, column // 32 % 4
                words[place] |= np.uint32(int(codes[row, column] + 8) << (4 * (pair // 4 + column % 2 * 4)))
            both = torch.zeros(1024 // 32, n, 2, dtype=torch.bfloat16)
            both[:k // 32, :, 0], both[:k // 32, :, 1] = scale.T, zero.T
            state[name] = ao.Int4TilePackedTo4dTensor(torch.from_numpy(words.view(np.int32)), both, [1, 32], value.shape)
        else:
            packed = torch.from_numpy(codes[:, ::2] & 15 | codes[:, 1::2] << 4)
            state[name] = ao.Int4Tensor(packed, scale.T.contiguous(), zero.T.contiguous(), [1, 32], value.shape)
        dense[name] = codes.astype(np.float32) * np.repeat(f32(scale), 32, 1) + np.repeat(f32(zero), 32, 1)
    tensors, metadata = flatten_tensor_state_dict(state)
    save_file(tensors, path / "model.safetensors", metadata=metadata | {"format": "pt"})
    config = transformers.TorchAoConfig(quant_type=ao.Int4WeightOnlyConfig(group_size=32)).to_dict()
    (path / "config.json").write_text(json.dumps(CONFIG | dict(quantization_config=config), indent=1) + "\n")
    return dense


TOOLS = {
    "torchao-int8": (torchao, dict(configs={"_default": ("Int8WeightOnlyConfig", {})})),
    "torchao-int8-dynamic": (torchao, dict(configs={"_default": ("Int8DynamicActivationInt8WeightConfig", {})})),
    "torchao-int4-dynamic": (torchao, dict(configs={"_default": (
        "Int8DynamicActivationIntxWeightConfig", dict(weight_dtype=torch.int4, weight_granularity=("PerGroup", 32)))})),
    "torchao-int4": (torchao_int4, {}),
    "torchao-fp8": (torchao, dict(configs={"_default": ("Float8WeightOnlyConfig", {})})),
    "torchao-fp8-tensor": (torchao, dict(configs={"_default": ("Float8WeightOnlyConfig", dict(granularity=("PerTensor",)))})),
}
