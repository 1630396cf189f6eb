"""The quantized Llama, and conversions that several formats use."""

import numpy as np
import torch

from model_goldens.common import LLAMA

CONFIG = LLAMA | dict(hidden_size=64, intermediate_size=96, tie_word_embeddings=True, dtype="float16", num_hidden_layers=2)
E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def f32(t):
    return t.to(torch.float32).numpy()


def is_quantized(name):
    return "_proj." in name


def quantize_groups(w, bits, group, symmetric, dtype=np.float16):
    """Integers [n, k], scales and zero points [n, groups] of w [n, k], from the minimum and maximum weight of each group."""
    n, k = w.shape
    g = w.reshape(n, k // group, group)
    top = 2**bits - 1
    if symmetric:
        scale = (np.abs(g).max(-1) / (2 ** (bits - 1) - 0.5)).astype(dtype)
        zero = np.full(scale.shape, 2 ** (bits - 1))
    else:
        low, high = np.minimum(g.min(-1), 0), np.maximum(g.max(-1), 0)
        scale = ((high - low) / top).astype(dtype)
        zero = np.clip(np.round(-low / scale.astype(np.float32)), 0, top).astype(int)
    codes = np.clip(np.round(g / scale.astype(np.float32)[..., None]) + zero[..., None], 0, top).astype(np.int64)
    return codes.reshape(n, k), scale, zero


def dequantize_groups(codes, scale, zero, group):
    n, k = codes.shape
    values = (codes.reshape(n, k // group, group) - zero[..., None]).astype(np.float32)
    return (values * scale.astype(np.float32)[..., None]).reshape(n, k)


def pack_bits(codes, bits):
    """Packs integers [..., m] as a bit stream in int32 words [..., m * bits / 32]."""
    shifts = np.arange(bits)
    stream = ((codes[..., None] >> shifts) & 1).reshape(*codes.shape[:-1], -1, 32).astype(np.uint64)
    words = (stream << np.arange(32, dtype=np.uint64)).sum(-1).astype(np.uint32)
    return torch.from_numpy(words.view(np.int32).copy())


def unpack_bits(words, bits, count):
    """Unpacks int32 words [..., m] to integers [..., count]."""
    w = words.numpy().view(np.uint32)
    stream = ((w[..., None] >> np.arange(32, dtype=np.uint32)) & 1).reshape(*w.shape[:-1], -1)[..., :count * bits]
    return (stream.reshape(*w.shape[:-1], count, bits) << np.arange(bits)).sum(-1)


def to_e4m3(w):
    codes = torch.from_numpy(np.ascontiguousarray(w)).to(torch.float8_e4m3fn)
    return codes, f32(codes)
