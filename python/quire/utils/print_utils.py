"""Output of examples."""

from __future__ import annotations

from collections.abc import Sequence


def print_embeddings(embeds: Sequence[float], prefix: str = "Embeddings") -> None:
    """Prints the first values of a vector and its size."""
    values = [float(value) for value in embeds[:4]]
    rest = ", ...]" if len(embeds) > len(values) else "]"
    print(f"{prefix}: {str(values)[:-1]}{rest} (size={len(embeds)})")
