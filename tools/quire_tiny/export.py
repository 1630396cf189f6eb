"""Writes a checkpoint as a model directory for transformers and quire.

    python export.py --checkpoint FILE --out MODEL_DIR [--check]
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from model import Config, Llama


def config_json(cfg):
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": 0, "eos_token_id": [0, 2], "pad_token_id": 0, "head_dim": cfg.head_dim, "hidden_act": "silu",
        "hidden_size": cfg.hidden_size, "initializer_range": cfg.initializer_range, "intermediate_size": cfg.intermediate_size,
        "max_position_embeddings": cfg.max_position_embeddings, "mlp_bias": False, "num_attention_heads": cfg.num_attention_heads,
        "num_hidden_layers": cfg.num_hidden_layers, "num_key_value_heads": cfg.num_key_value_heads, "pretraining_tp": 1,
        "rms_norm_eps": cfg.rms_norm_eps, "rope_scaling": None, "rope_theta": cfg.rope_theta, "tie_word_embeddings": True,
        "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": cfg.vocab_size,
    }


def check(model, out):
    """Checks that transformers computes the same logits from the exported directory."""
    from transformers import AutoModelForCausalLM
    theirs = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32)
    ids = torch.randint(0, model.cfg.vocab_size, (2, 700), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        rounded = {k: v.bfloat16().float() for k, v in model.state_dict().items()}
        model.load_state_dict(rounded)
        difference = (model(ids) - theirs(ids).logits).abs().max().item()
    print(f"largest difference of a logit: {difference:.2e}")
    assert difference < 1e-3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    saved = torch.load(args.checkpoint, map_location="cpu")
    model = Llama(Config(**saved["config"])).eval()
    model.load_state_dict(saved["model"])
    weights = {name: tensor.bfloat16().contiguous() for name, tensor in model.state_dict().items()}
    save_file(weights, args.out / "model.safetensors", metadata={"format": "pt"})
    (args.out / "config.json").write_text(json.dumps(config_json(model.cfg), indent=2) + "\n")
    print(f"{model.count()} parameters, {saved['state']}")
    if args.check:
        check(model, args.out)


if __name__ == "__main__":
    main()
