"""AMD Quark."""

import fnmatch
import json

import numpy as np
import torch
from safetensors.torch import load_file

from quantized_goldens.common import CONFIG, E2M1, f32, unpack_bits

def small_floats(exponent_bits, mantissa_bits, bias):
    """Values of all bit patterns of a float type without infinities, with the sign in the highest bit."""
    codes = np.arange(2 ** (exponent_bits + mantissa_bits))
    exponent, mantissa = codes >> mantissa_bits, codes & (2**mantissa_bits - 1)
    whole = np.where(exponent == 0, mantissa, mantissa + 2**mantissa_bits)
    values = (whole * 2.0 ** (np.maximum(exponent, 1) - bias - mantissa_bits)).astype(np.float32)
    return np.concatenate([values, -values])


def quark_weight(tensors, module, spec, reorder):
    """The dequantized weight of a checkpoint that quark wrote; spec: its entry in the configuration."""
    w, scale, zero = (tensors.get(module + "." + part) for part in ["weight", "weight_scale", "weight_zero_point"])
    kind, groups = spec["dtype"], spec["qscheme"] == "per_group"
    places = np.argsort([0, 2, 4, 6, 1, 3, 5, 7]) if reorder else np.arange(8)

    def nibbles(t):  # [lines, n / 8] -> [n, lines]
        codes = unpack_bits(t, 4, t.shape[1] * 8).reshape(t.shape[0], -1, 8)[..., places].reshape(t.shape[0], -1).T
        return (codes ^ 8) - 8 if kind == "int4" else codes

    if kind in ("int4", "uint4"):
        values, scale = nibbles(w) - np.repeat(nibbles(zero), spec["group_size"], 1), f32(scale).T
    elif kind in ("int8", "uint8"):
        values = w.numpy().astype(np.int32)
        if groups:
            values, scale, zero = values.T, scale.T, zero.T
            values = values - np.repeat(zero.numpy().astype(np.int32), spec["group_size"], 1)
        else:
            assert not zero.any()
        scale = f32(scale).reshape(-1, scale.shape[1] if groups else 1)
    elif kind == "fp4":
        values = E2M1[np.stack([w.numpy() & 15, w.numpy() >> 4], -1).reshape(w.shape[0], -1)]
    elif kind.startswith("fp6"):
        table = small_floats(2, 3, 1) if kind == "fp6_e2m3" else small_floats(3, 2, 3)
        words = torch.from_numpy(w.numpy().view(np.int32).copy())
        values = table[unpack_bits(words, 6, w.shape[1] * 8 // 6)]
    else:
        values = f32(w)
    if isinstance(scale, torch.Tensor):
        if scale.dtype == torch.uint8:
            scale = np.exp2(scale.numpy().astype(np.float32) - 127)
        else:
            scale = f32(scale) if scale.ndim == 2 else f32(scale).reshape(-1, 1)
        if module + ".weight_scale_2" in tensors:
            scale = f32(tensors[module + ".weight_scale_2"]) * scale
    rows, columns = values.shape[0] // scale.shape[0], values.shape[1] // scale.shape[1]
    return values.astype(np.float32) * np.repeat(np.repeat(scale, rows, 0), columns, 1)


def quark(path, model, spec, layers=(), inputs=None, keys=None, order="reorder"):
    """Quantizes and exports with quark; returns the dequantized weights. spec, inputs, keys: names and settings of quark's specs
    for weights, activations, and keys and values; layers: specs of weights by name pattern."""
    from quark.torch import ModelQuantizer, export_safetensors
    from quark.torch.quantization.config import config as specs

    def made(spec):
        if isinstance(spec, list):  # weights, then their scales
            stages = [getattr(specs, kind)(**options) for kind, options in spec]
            return specs.ScaleQuantSpec(*stages).to_quantization_spec()
        return spec and getattr(specs, spec[0])(**spec[1]).to_quantization_spec()

    def layer(weight, **more):
        return specs.QLayerConfig(weight=made(weight), input_tensors=made(inputs), **more)

    kv = {name: layer(spec, output_tensors=made(keys)) for name in ["*k_proj", "*v_proj"]} if keys else {}
    config = specs.QConfig(
        global_quant_config=layer(spec), exclude=["lm_head"], kv_cache_quant_config=kv, kv_cache_group=list(kv),
        layer_quant_config={name: layer(weight) for name, weight in layers} | kv)
    prompts = torch.randint(0, CONFIG["vocab_size"], (4, 16), generator=torch.Generator().manual_seed(0))
    quantizer = ModelQuantizer(config)
    frozen = quantizer.freeze(quantizer.quantize_model(model.half(), torch.utils.data.DataLoader(prompts)))
    with torch.no_grad():
        export_safetensors(frozen, str(path), custom_mode="quark", weight_format="real_quantized", pack_method=order)
    tensors = load_file(path / "model.safetensors")
    said = json.loads((path / "config.json").read_text())["quantization_config"]
    dense = {}
    for name in tensors:
        if name.endswith(".weight_scale"):
            module = name.removesuffix(".weight_scale")
            own = next((c for pattern, c in said["layer_quant_config"].items() if fnmatch.fnmatch(module, pattern)),
                       said["global_quant_config"])["weight"]
            w = quark_weight(tensors, module, own[0] if isinstance(own, list) else own, order == "reorder")
            theirs = frozen.get_submodule(module)
            assert np.allclose(w, f32(theirs.weight_quantizer(theirs.weight.data)), rtol=2e-3, atol=1e-6), module  # in float16
            dense[module + ".weight"] = w
    return dense


FP8 = ("FP8E4M3PerTensorSpec", dict(observer_method="min_max", is_dynamic=False))
WHOLE = dict(symmetric=True, scale_type="float", round_method="half_even", is_dynamic=False)
GROUPS = dict(ch_axis=-1, group_size=32)
MX = dict(ch_axis=-1, is_dynamic=False)
TOOLS = {
    "quark-fp8": (quark, dict(spec=FP8, inputs=FP8, keys=FP8)),
    "quark-fp8-rows": (quark, dict(spec=("FP8E4M3PerChannelSpec", dict(is_dynamic=False, ch_axis=0)))),
    "quark-int8": (quark, dict(spec=("Int8PerChannelSpec", WHOLE | dict(ch_axis=0)),
                               inputs=("Int8PerTensorSpec", WHOLE | dict(observer_method="min_max")))),
    "quark-int8-groups": (quark, dict(spec=("Uint8PerGroupSpec", WHOLE | GROUPS | dict(symmetric=False)))),
    "quark-int4": (quark, dict(spec=("Int4PerGroupSpec", WHOLE | GROUPS), order="order")),
    "quark-uint4": (quark, dict(spec=("Uint4PerGroupSpec", WHOLE | GROUPS | dict(symmetric=False)),
                                layers=[("*v_proj", ("Int8PerChannelSpec", WHOLE | dict(ch_axis=0)))])),
    "quark-nvfp4": (quark, dict(spec=[("FP4PerGroupSpec", dict(ch_axis=-1, group_size=16, is_dynamic=False)), FP8])),
    "quark-mxfp4": (quark, dict(spec=("OCP_MXFP4Spec", MX),
                                layers=[("*down_proj", ("OCP_MXFP6E2M3Spec", MX)),
                                        ("*up_proj", ("OCP_MXFP6E3M2Spec", MX))])),
}
