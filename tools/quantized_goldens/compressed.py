"""compressed-tensors."""

import json

import numpy as np
import torch
from safetensors.torch import load_file

from quantized_goldens.common import E2M1, dequantize_groups, f32, unpack_bits

def read_compressed(tensors, args):
    dense = {}
    for name in tensors:
        if not name.endswith(".weight_scale"):
            continue
        module = name.removesuffix("_scale")
        scale = tensors[name]
        packed = tensors.get(module + "_packed")
        if packed is None:
            w = tensors[module]
            values = f32(w)
            if module + "_zero_point" in tensors:
                values = values - f32(tensors[module + "_zero_point"])
            s = f32(scale).reshape(-1, 1) if scale.numel() in (1, w.shape[0]) else np.repeat(
                np.repeat(f32(scale), args["block_structure"][0], 0), args["block_structure"][1], 1)[:w.shape[0], :w.shape[1]]
            dense[module] = values * s
        elif packed.dtype == torch.uint8:
            codes = np.stack([packed.numpy() & 15, packed.numpy() >> 4], -1).reshape(packed.shape[0], -1)
            if module + "_global_scale" in tensors:
                s = np.float32(1) / f32(tensors[module + "_global_scale"]).reshape(1, 1) * f32(scale)
            else:
                s = np.exp2(scale.numpy().astype(np.float32) - 127)
            dense[module] = E2M1[codes] * np.repeat(s, codes.shape[1] // s.shape[1], 1)
        else:
            n, k = tensors[module + "_shape"].tolist()
            bits = args["num_bits"]
            codes = unpack_bits(packed, bits, k)
            zero = np.full(scale.shape, 2 ** (bits - 1))
            if module + "_zero_point" in tensors:
                zero = unpack_bits(tensors[module + "_zero_point"].T.contiguous(), bits, n).T
            size = k // scale.shape[1]
            if module + "_g_idx" in tensors:
                g = tensors[module + "_g_idx"].numpy()
                dense[module] = (codes - zero[:, g]).astype(np.float32) * f32(scale)[:, g]
            else:
                dense[module] = dequantize_groups(codes, f32(scale), zero, size)
    return dense


def compressed_tensors(path, model, preset, **changes):
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config, preset_name_to_scheme
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
    model = model.to(torch.float16)
    scheme = preset_name_to_scheme(preset, ["Linear"])
    scheme.weights = type(scheme.weights)(**(scheme.weights.model_dump() | changes))
    config = QuantizationConfig(config_groups={"group_0": scheme}, ignore=["lm_head"])
    apply_quantization_config(model, config)
    args = scheme.weights
    for module in model.modules():
        if getattr(module, "quantization_scheme", None) is None:
            continue
        w = module.weight.data.float()
        n, k = w.shape
        outer = None
        if args.strategy in ("group", "tensor_group"):
            groups = w.reshape(n, k // args.group_size, args.group_size)
            low, high = groups.amin(-1), groups.amax(-1)
        elif args.strategy == "block":
            rows, columns = args.block_structure
            blocks = w.reshape(n // rows, rows, k // columns, columns)
            low, high = blocks.amin((1, 3)), blocks.amax((1, 3))
        elif args.strategy == "channel":
            low, high = w.amin(-1, keepdim=True), w.amax(-1, keepdim=True)
        else:
            low, high = w.amin().reshape(1), w.amax().reshape(1)
        if args.strategy == "tensor_group":
            outer = generate_gparam(w.amin().reshape(1), w.amax().reshape(1))
            module.weight_global_scale.data.copy_(outer)
        scale, zero = calculate_qparams(low, high, args, global_scale=outer)
        module.weight_scale.data = scale.to(module.weight_scale.dtype).reshape(module.weight_scale.shape)
        if getattr(module, "weight_zero_point", None) is not None:
            module.weight_zero_point.data.copy_(zero.reshape(module.weight_zero_point.shape))
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    model.save_pretrained(path)
    compressor.update_config(path)
    tensors = load_file(path / "model.safetensors")
    return read_compressed(tensors, json.loads(args.model_dump_json()))


TOOLS = {
    "compressed-w4a16": (compressed_tensors, dict(preset="W4A16", group_size=32)),
    "compressed-w4a16-zeros": (compressed_tensors, dict(preset="W4A16_ASYM", group_size=32)),
    "compressed-w8a16": (compressed_tensors, dict(preset="W8A16", group_size=32, strategy="group")),
    "compressed-w8a8": (compressed_tensors, dict(preset="W8A8")),
    "compressed-fp8": (compressed_tensors, dict(preset="FP8_DYNAMIC")),
    "compressed-fp8-block": (compressed_tensors, dict(preset="FP8_BLOCK", block_structure=[32, 32])),
    "compressed-nvfp4": (compressed_tensors, dict(preset="NVFP4A16")),
    "compressed-mxfp4": (compressed_tensors, dict(preset="MXFP4A16")),
}
