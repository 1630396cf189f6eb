"""Formats that are packed here from their descriptions. Each function returns pack(name, weight, generator), which gives the stored parts
by suffix and the dequantized weight, and the quantization_config."""

import numpy as np
import torch

from quantized_goldens.common import CONFIG, E2M1, dequantize_groups, f32, pack_bits, quantize_groups, to_e4m3

def gptq(bits, group, symmetric=True, act_order=False, v2=False):
    def pack(name, w, generator):
        n, k = w.shape
        size = k if group == -1 else group
        order = torch.randperm(k, generator=generator).numpy() if act_order else np.arange(k)
        codes, scale, zero = quantize_groups(w[:, order], bits, size, symmetric)
        dense = np.empty_like(w)
        dense[:, order] = dequantize_groups(codes, scale, zero, size)
        stored, g_idx = np.empty_like(codes), np.empty(k, np.int32)
        stored[:, order] = codes
        g_idx[order] = np.arange(k) // size
        zeros = zero.T if v2 else (zero.T - 1) & (2**bits - 1)
        return {".qweight": pack_bits(stored, bits).T.contiguous(), ".qzeros": pack_bits(zeros, bits),
                ".scales": torch.from_numpy(scale.T.copy()), ".g_idx": torch.from_numpy(g_idx)}, dense
    return pack, dict(quant_method="gptq", bits=bits, group_size=group, sym=symmetric, desc_act=act_order,
                      checkpoint_format="gptq_v2" if v2 else "gptq")


def auto_round(bits, group, symmetric, packing, wider=()):
    """Packs with the classes of auto-round; modules in `wider` have 8 bits, set in extra_config."""
    def pack(name, w, generator):
        from auto_round.export.export_to_awq.utils import WQLinear_GEMM
        from auto_round_extension.torch import qlinear_torch, qlinear_torch_zp
        n, k = w.shape
        own = 8 if any(part in name for part in wider) else bits
        codes, scale, zero = quantize_groups(w, own, group, symmetric)
        dense = dequantize_groups(codes, scale, zero, group)
        linear = torch.nn.Linear(k, n, bias=False)
        linear.weight.data = torch.from_numpy(dense)
        scales, zeros = torch.from_numpy(scale.astype(np.float32)), torch.from_numpy(zero.astype(np.float32))
        if "awq" in packing:
            layer = WQLinear_GEMM.from_linear(linear, own, group, scales=scales.t().contiguous(), zeros=zeros.t().contiguous())
        else:
            kind = qlinear_torch_zp if packing == "auto_round:auto_gptq" else qlinear_torch
            layer = kind.QuantLinear(own, group, k, n, False)
            layer.device = "cpu"
            layer.pack(linear, scales, zeros)
        return {"." + key: value for key, value in layer.state_dict().items()}, dense
    names = [f"model.layers.{i}.{part}" for i in range(CONFIG["num_hidden_layers"]) for part in wider]
    return pack, dict(quant_method="auto-round", bits=bits, group_size=group, sym=symmetric, packing_format=packing,
                      extra_config={name: {"bits": 8} for name in names})


def squeezellm(bits, table_dtype, outliers=0, full_rows=0):
    """Lookup tables from each row's quantiles; the given numbers of largest weights and of whole rows are stored as outliers."""
    def pack(name, w, generator):
        n, k = w.shape
        places = (np.arange(2**bits) + 0.5) / 2**bits
        table = np.quantile(w, places, axis=1).T.astype(table_dtype)
        codes = np.abs(w[..., None] - table.astype(np.float32)[:, None]).argmin(-1)
        dense = np.take_along_axis(table.astype(np.float32), codes, 1)
        parts = {".qweight": pack_bits(codes, bits).T.contiguous(), ".lookup_table": torch.from_numpy(table)}
        if outliers:
            columns = np.sort(np.argsort(-np.abs(w - dense), 1)[:, :outliers], 1)
            # Adjacent rows have different numbers of outliers.
            kept = [row[:outliers - i % 2] for i, row in enumerate(columns)]
            values = [w[i, row] - dense[i, row] for i, row in enumerate(kept)]
            for i, row in enumerate(kept):
                dense[i, row] += values[i]
            bounds = np.cumsum([0] + [len(row) for row in kept]).astype(np.int32)
            parts |= {".rows": torch.from_numpy(bounds), ".cols": torch.from_numpy(np.concatenate(kept).astype(np.int32)),
                      ".vals": torch.from_numpy(np.concatenate(values).astype(np.float32)),
                      ".startrows": torch.zeros(8, dtype=torch.int32)}
        if full_rows:
            rows = np.sort(torch.randperm(n, generator=generator).numpy()[:full_rows]).astype(np.int32)
            values = (w[rows] - dense[rows]).astype(np.float32)
            dense[rows] += values
            parts |= {".full_rows": torch.from_numpy(values.T.copy()), ".full_row_indices": torch.from_numpy(rows)}
        return parts, dense
    return pack, dict(quant_method="squeezellm", wbits=bits)


def awq(group):
    def pack(name, w, generator):
        codes, scale, zero = quantize_groups(w, 4, group, False)
        order = [0, 2, 4, 6, 1, 3, 5, 7]

        def words(m):  # [lines, n]
            return pack_bits(m.reshape(m.shape[0], -1, 8)[..., order].reshape(m.shape), 4)
        return {".qweight": words(codes.T), ".qzeros": words(zero.T), ".scales": torch.from_numpy(scale.T.copy())}, \
            dequantize_groups(codes, scale, zero, group)
    return pack, dict(quant_method="awq", bits=4, group_size=group, zero_point=True, version="gemm")


def fp8_blocks(rows, columns, scale_type):
    def pack(name, w, generator):
        n, k = w.shape
        padded = np.zeros((-(-n // rows) * rows, -(-k // columns) * columns), np.float32)
        padded[:n, :k] = w
        blocks = padded.reshape(padded.shape[0] // rows, rows, -1, columns)
        scale = torch.from_numpy(np.abs(blocks).max((1, 3)) / 448).to(scale_type)
        spread = np.repeat(np.repeat(f32(scale), rows, 0), columns, 1)[:n, :k]
        codes, values = to_e4m3(w / spread)
        return {".weight": codes, ".weight_scale_inv": scale}, values * spread
    return pack, dict(quant_method="fp8", activation_scheme="dynamic", weight_block_size=[rows, columns])


def fp8_tensor(method):
    def pack(name, w, generator):
        scale = torch.tensor(np.abs(w).max() / 448)
        codes, values = to_e4m3(w / scale.item())
        return {".weight": codes, ".weight_scale": scale, ".input_scale": torch.tensor(0.02)}, values * np.float32(scale.item())
    config = dict(quant_method="modelopt", quant_algo="FP8") if method == "modelopt" else dict(
        quant_method="fp8", activation_scheme="static")
    return pack, config


def nvfp4_modelopt():
    def pack(name, w, generator):
        n, k = w.shape
        outer = np.float32(np.abs(w).max() / (6 * 448))
        groups = w.reshape(n, k // 16, 16)
        scale, values = to_e4m3(np.abs(groups).max(-1) / 6 / outer)
        spread = (outer * values)[..., None]
        codes = np.abs(groups[..., None] / np.maximum(spread, 1e-30)[..., None] - E2M1).argmin(-1).reshape(n, k)
        packed = torch.from_numpy((codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8))
        return {".weight": packed, ".weight_scale": scale, ".weight_scale_2": torch.tensor(outer),
                ".input_scale": torch.tensor(0.02)}, (E2M1[codes].reshape(groups.shape) * spread).reshape(n, k)
    return pack, dict(quant_method="modelopt", quant_algo="NVFP4")


def bitnet(linear_class):
    def pack(name, w, generator):
        size = np.abs(w).mean()
        codes = np.clip(np.round(w / size), -1, 1).astype(np.int64)
        size *= 2  # so that the layers' outputs are not negligible compared with the embedding
        stored = torch.tensor([size if linear_class == "autobitlinear" else 1 / size], dtype=torch.float32)
        scale = stored.numpy() if linear_class == "autobitlinear" else np.float32(1) / stored.numpy()
        parts = (codes + 1).reshape(4, -1, w.shape[1])
        packed = sum(part << (2 * i) for i, part in enumerate(parts)).astype(np.uint8)
        return {".weight": torch.from_numpy(packed), ".weight_scale": stored}, codes.astype(np.float32) * scale
    return pack, dict(quant_method="bitnet", linear_class=linear_class, quantization_mode="offline")


PACKED = {
    "gptq-4bit": gptq(4, 32),
    "gptq-4bit-act-order": gptq(4, 32, act_order=True),
    "gptq-4bit-zeros": gptq(4, 16, symmetric=False),
    "gptq-4bit-zeros-v2": gptq(4, 32, symmetric=False, v2=True),
    "gptq-8bit": gptq(8, -1),
    "gptq-3bit": gptq(3, 32, symmetric=False),
    "gptq-2bit": gptq(2, 16, symmetric=False, act_order=True),
    "awq": awq(32),
    "auto-round-4bit": auto_round(4, 32, True, "auto_round:auto_gptq", wider=["self_attn.v_proj"]),
    "auto-round-4bit-zeros": auto_round(4, 16, False, "auto_round:auto_gptq"),
    "auto-round-2bit-zeros": auto_round(2, 32, False, "auto_round"),
    "auto-round-awq": auto_round(4, 32, False, "auto_round:auto_awq"),
    "squeezellm-4bit": squeezellm(4, np.float16),
    "squeezellm-3bit-outliers": squeezellm(3, np.float32, outliers=3, full_rows=2),
    "fp8-blocks": fp8_blocks(32, 32, torch.float32),
    "fp8-blocks-bfloat16": fp8_blocks(40, 32, torch.bfloat16),
    "fp8-tensor": fp8_tensor("fp8"),
    "modelopt-fp8": fp8_tensor("modelopt"),
    "modelopt-nvfp4": nvfp4_modelopt(),
    "bitnet": bitnet("bitlinear"),
    "bitnet-auto": bitnet("autobitlinear"),
}
