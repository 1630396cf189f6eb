"""Train quire-tiny.

    python train.py --data DIR --out CHECKPOINT --minutes 70 --threads 1

--init MODEL_DIR continues from an exported model, with new optimizers and a new schedule.
The learning rate schedule (warm-up, plateau, linear decay to zero) follows the used fraction of the
budget, so it ends exactly when --minutes or --steps are used up. Matrices are
trained with Muon, embeddings and norms with AdamW. Uses a GPU if there is one.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from model import Config, Llama


def orthogonalize(g, rounds=5):
    """Newton-Schulz iteration: the nearest (semi-)orthogonal matrix, roughly."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(rounds):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if tall else x).to(g.dtype)


class Muon(torch.optim.Optimizer):
    """Momentum whose update is orthogonalized; matrices of the same shape are batched."""

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            shapes = {}
            for p in group["params"]:
                state = self.state[p]
                if "buf" not in state:
                    state["buf"] = torch.zeros_like(p)
                state["buf"].lerp_(p.grad, 1 - group["momentum"])
                shapes.setdefault(p.shape, []).append((p, p.grad.lerp(state["buf"], group["momentum"])))
            for shape, members in shapes.items():
                updates = orthogonalize(torch.stack([u for _, u in members]))
                scale = 0.2 * max(shape) ** 0.5
                for (p, _), update in zip(members, updates):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(update, alpha=-group["lr"] * scale)


def make_optimizers(model, args):
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    embed = [p for n, p in model.named_parameters() if "embed" in n]
    norms = [p for n, p in model.named_parameters() if p.ndim < 2]
    adam = torch.optim.AdamW([{"params": embed, "lr": args.embed_lr}, {"params": norms, "lr": args.lr}],
                             betas=(0.9, 0.95), weight_decay=0.0)
    muon = Muon(matrices, lr=args.lr, weight_decay=0.05)
    for group in adam.param_groups + muon.param_groups:
        group["base"] = group["lr"]
    return [adam, muon]


def schedule(share, step, args):
    """Learning rate factor: up over the first steps, flat, then linearly down."""
    warm = min(1.0, (step + 1) / args.warmup)
    return warm * min(1.0, max(0.0, 1.0 - share) / args.decay)


class Batches:
    """Random windows of the token stream; every fourth batch has windows twice as long."""

    def __init__(self, path, args, device):
        self.data = np.fromfile(path, dtype=np.uint16).astype(np.int64)
        self.args, self.device = args, device
        self.rng = np.random.default_rng(args.seed)
        self.order = np.empty(0, dtype=np.int64)

    def _next_starts(self, count, length):
        """Windows in a random order without repeats; reshuffled with a new offset each epoch."""
        block = self.args.seq
        while len(self.order) < count * length // block:
            offset = self.rng.integers(0, block)
            fresh = np.arange(offset, len(self.data) - 2 * block - 1, 2 * block)
            self.rng.shuffle(fresh)
            pairs = np.stack((fresh, fresh + block), axis=1).ravel()
            self.order = np.concatenate((self.order, pairs))
        need = count * length // block
        starts, self.order = self.order[:need], self.order[need:]
        return starts if length == block else starts[::2]

    def next(self, step):
        length = self.args.seq * 2 if step % 4 == 3 else self.args.seq
        count = self.args.batch * self.args.seq // length
        windows = np.stack([self.data[s:s + length + 1] for s in self._next_starts(count, length)])
        ids = torch.from_numpy(windows).to(self.device)
        return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


@torch.no_grad()
def validate(model, data_dir, args, device, limit=None):
    """Mean loss, in nats per token, over each held-out stream and over all of them."""
    result, total, tokens = {}, 0.0, 0
    for path in sorted(data_dir.glob("valid-*.bin")):
        ids = np.fromfile(path, dtype=np.uint16).astype(np.int64)
        loss = seen = 0
        for start in range(0, len(ids) - 1, args.seq):
            if limit and seen >= limit:
                break
            window = torch.from_numpy(ids[start:start + args.seq + 1]).to(device)[None]
            with torch.autocast(device, dtype=torch.bfloat16):
                loss += float(model(window[:, :-1], window[:, 1:])) * (window.shape[1] - 1)
            seen += window.shape[1] - 1
        result[path.stem.removeprefix("valid-")] = loss / seen
        total, tokens = total + loss, tokens + seen
    result["all"] = total / tokens
    return result


def save(path, model, optimizers, state):
    temporary = path.with_suffix(".new")
    torch.save({"config": model.cfg.to_dict(), "model": model.state_dict(),
                "optimizers": [o.state_dict() for o in optimizers], "state": state}, temporary)
    temporary.replace(path)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="output directory of encode.py")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint file")
    parser.add_argument("--minutes", type=float, default=0, help="wall-clock budget, compilation not counted")
    parser.add_argument("--steps", type=int, default=0, help="budget in steps instead")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8, help="sequences of --seq tokens per step")
    parser.add_argument("--seq", type=int, default=512)
    parser.add_argument("--lr", type=float, default=0.008, help="for the matrices")
    parser.add_argument("--embed-lr", type=float, default=0.004)
    parser.add_argument("--warmup", type=int, default=30)
    parser.add_argument("--decay", type=float, default=0.65, help="fraction of the budget, at its end, in which the learning rate decays")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save-every", type=float, default=3, help="minutes between checkpoints")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--init", type=Path, help="model directory with the initial weights")
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    if not args.minutes and not args.steps:
        parser.error("give --minutes or --steps")
    return args


def setup(args, device):
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    cfg = Config(hidden_size=args.hidden, num_hidden_layers=args.layers, num_attention_heads=args.hidden // 64,
                 num_key_value_heads=max(1, args.hidden // 128), intermediate_size=(args.hidden * 8 // 3 + 15) // 16 * 16)
    model = Llama(cfg).to(device)
    if args.init:
        model.load_state_dict(load_file(args.init / "model.safetensors", device=device))
    optimizers = make_optimizers(model, args)
    state = {"step": 0, "seconds": 0.0, "tokens": 0}
    if args.resume and args.out.exists():
        saved = torch.load(args.out, map_location=device)
        model.load_state_dict(saved["model"])
        for optimizer, values in zip(optimizers, saved["optimizers"]):
            bases = [g["base"] for g in optimizer.param_groups]
            optimizer.load_state_dict(values)
            for group, base in zip(optimizer.param_groups, bases):
                group["base"] = base
        state = saved["state"]
    return model, optimizers, state


def train_step(forward, batch, optimizers, factor, device):
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["base"] * factor
        optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = forward(*batch)
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return loss.item()


def warm_up(forward, model, args, device):
    """Compile for both sequence lengths before the clock starts."""
    for rows, length in ((args.batch, args.seq), (args.batch // 2, args.seq * 2)):
        ids = torch.zeros(rows, length, dtype=torch.int64, device=device)
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = forward(ids, ids)
        loss.backward()
    model.zero_grad(set_to_none=True)


def main():
    args = parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, optimizers, state = setup(args, device)
    print(f"{model.count()} parameters on {device}, {args.threads} threads", flush=True)
    forward = model if args.no_compile else torch.compile(model, dynamic=False)
    batches = Batches(args.data / "train.bin", args, device)
    for done in range(state["step"]):
        batches.next(done)
    warm_up(forward, model, args, device)
    start, saved_at, average, seconds_before = time.time(), time.time(), None, state["seconds"]
    while True:
        seconds = seconds_before + time.time() - start
        share = state["step"] / args.steps if args.steps else seconds / (args.minutes * 60)
        if share >= 1:
            break
        loss = train_step(forward, batches.next(state["step"]), optimizers, schedule(share, state["step"], args), device)
        average = loss if average is None else 0.95 * average + 0.05 * loss
        state["step"] += 1
        state["tokens"] += args.batch * args.seq
        state["seconds"] = seconds_before + time.time() - start
        if state["step"] % 10 == 0 or state["step"] < 4:
            speed = state["tokens"] / state["seconds"]
            left = state["seconds"] * (1 / max(share, 1e-3) - 1) / 60
            print(f"step {state['step']}  loss {loss:.3f}  mean {average:.3f}  {speed:.0f} tok/s  "
                  f"tokens {state['tokens'] / 1e6:.2f}M  {state['seconds'] / 60:.1f} min  left {left:.1f} min", flush=True)
        if time.time() - saved_at > args.save_every * 60:
            save(args.out, model, optimizers, state)
            saved_at = time.time()
    save(args.out, model, optimizers, state)
    state["valid"] = validate(model, args.data, args, device)
    save(args.out, model, optimizers, state)
    print("validation loss, nats a token:", json.dumps({k: round(v, 4) for k, v in state["valid"].items()}), flush=True)


if __name__ == "__main__":
    main()
