"""Logits of models whose checkpoints ask for int8 activations with one scale per token."""

import torch

# Models with such logits, and what their configuration changes: the input of down_proj is longer than a group of quire's activations.
TOKEN_SCALES = {"compressed-w8a8": dict(intermediate_size=160)}


def rounded_logits(model, prompt, shape):
    """Logits after `prompt`, with the inputs of all layers but the head rounded to int8 as in vLLM, and the distance of the input nearest to
    a tie, in steps. shape: reshapes an input to [groups with a scale, elements]."""
    margins = []

    def round_input(_, inputs):
        x = shape(inputs[0])
        steps = x / (x.abs().amax(-1, keepdim=True) / 127)
        margins.append((0.5 - (steps - steps.round()).abs()).min().item())
        return ((steps.round() * (x.abs().amax(-1, keepdim=True) / 127)).reshape(inputs[0].shape),)

    layers = [m for m in model.modules() if isinstance(m, torch.nn.Linear) and m is not model.lm_head]
    hooks = [layer.register_forward_pre_hook(round_input) for layer in layers]
    with torch.no_grad():
        logits = model(torch.tensor([prompt]), use_cache=False).logits[0, -1].float()
    for hook in hooks:
        hook.remove()
    return logits, min(margins)


def rounded_cases(model, vocab_size, generator):
    """Prompts without an input that float32 errors could round to another integer, and for which other scales give clearly other logits."""
    cases = []
    for _ in range(1000):
        prompt = torch.randint(0, vocab_size, (5,), generator=generator).tolist()
        logits, margin = rounded_logits(model, prompt, lambda x: x.reshape(-1, x.shape[-1]))
        if margin < 3e-4:
            continue
        others = [rounded_logits(model, prompt, shape)[0]
                  for shape in (lambda x: x.reshape(1, -1), lambda x: x.reshape(-1, 32) if x.shape[-1] > 128 else x)]
        if min((other - logits).abs().max() / logits.abs().max() for other in others) > 20e-4:
            cases.append(dict(prompt=prompt, logits=[round(x, 6) for x in logits.tolist()]))
        if len(cases) == 3:
            return cases
    raise SystemExit("no prompts without borderline activations")
