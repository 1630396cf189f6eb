"""Distributions of the weights of golden models, and their description as in tools/golden_weights.py."""

import golden_weights
import torch

DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64", torch.uint8: "U8"}


def distributions(model):
    """Mean and deviation of parameters and buffers, large enough that logits differ and attention is not uniform. Buffers that are
    not named here keep their values."""
    # The factor of the embeddings must not make the outputs of the layers negligible.
    config = model.config.get_text_config()
    large = config.model_type.startswith("gemma") or getattr(config, "mup_enabled", False) or getattr(config, "scale_embedding", False)
    multiplier = config.hidden_size**0.5 if large else getattr(config, "embedding_multiplier", getattr(config, "scale_emb", 1.0))
    found = {}
    for name, parameter in model.named_parameters():
        if "correction" in name:
            found[name] = 0.0, 0.1
        elif "A_log" in name:
            found[name] = -1.5, 0.7  # states that decay over several tokens
        elif parameter.dim() >= 2:
            scale = 0.7 / multiplier if "embed" in name or "wte" in name else 0.3 if "wpe" in name else 1.6 / parameter.shape[-1] ** 0.5
            limited = config.model_type == "deepseek_v4" and any(part in name for part in ("gate_up_proj", "experts.gate_proj", "experts.up_proj"))
            found[name] = 0.0, scale * (4.0 if limited else 1.0)  # gates reach their limit
        else:
            found[name] = 0.0 if name.endswith("bias") else 1.0, 0.2
    for name, _ in model.named_buffers():
        if "correction" in name or "expert_bias" in name:
            found[name] = 0.0, 0.1
        if "layer_scalar" in name:
            found[name] = 1.0, 0.1
    return found


def tensors_of(model):
    return dict(model.named_parameters()) | dict(model.named_buffers())


def fill(model, seed):
    """Initializes a model that is not compared with the one that is read from its golden directory."""
    tensors = tensors_of(model)
    for name, (mean, deviation) in distributions(model).items():
        shape = tuple(tensors[name].shape)
        tensors[name].data.copy_(torch.from_numpy(golden_weights.normal(seed, name, shape, mean, deviation)))
    for name, buffer in model.named_buffers():
        if "tid2eid" in name:
            table = golden_weights.distinct(seed, name, tuple(buffer.shape), model.config.get_text_config().n_routed_experts)
            buffer.data.copy_(torch.from_numpy(table))


def describe(model, stored, dtype):
    """The description of the tensors that `stored` returns for the model. The distribution of each tensor is found by converting a model
    whose weights are their means, and one whose weights are one deviation larger. The conversion may rename, split and join tensors."""
    tensors, found = tensors_of(model), distributions(model)

    def converted(factor):
        for name, (mean, deviation) in found.items():
            tensors[name].data.fill_(mean + factor * deviation)
        return stored(model)

    low = {name: value.clone() for name, value in converted(0.0).items()}
    high = converted(1.0)
    described, places = {}, {}
    for name, value in low.items():
        shape = list(value.shape)
        if "tid2eid" in name:
            described[name] = ["I64", shape, "distinct", model.config.get_text_config().n_routed_experts]
        elif not value.is_floating_point():
            described[name] = [DTYPES[value.dtype], shape, "values", *value.flatten().tolist()]
        else:
            described[name] = [DTYPES[dtype], shape, *distribution_of(name, value.flatten(), high[name].flatten())]
            tied = places.setdefault((high[name].data_ptr(), high[name].shape), name)
            if tied != name:
                described[name].append(tied)
    return golden_weights.collapse(described)


def distribution_of(name, low, high):
    means, deviations = ([float(f"{x:.4g}") for x in values.unique().tolist()] for values in (low, high - low))
    if deviations == [0.0]:
        return ["constant", means[0]] if len(means) == 1 else ["values", *(float(str(x)) for x in low.numpy())]
    if len(set(means)) > 1 or len(set(deviations)) > 1:
        raise ValueError(f"{name} has elements of several distributions: {means} {deviations}")
    return ["normal", means[0], deviations[0]]
