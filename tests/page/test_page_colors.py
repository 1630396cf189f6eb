"""The colors of the live view differ, for people with each kind of color blindness, too."""

import itertools

import numpy as np
import pytest
from engine_page import theme_colors

# Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of color vision deficiency" (2009), severity 1, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
}
# Ottosson's OKLab, where about 0.02 is the smallest difference that is noticed side by side.
TO_CONES = np.array([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566], [0.0883024619, 0.2817188376, 0.6299787005]])
TO_LAB = np.array([[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099], [0.0259040371, 0.7827717662, -0.8086757660]])

OWNERS = [f"owner-{i}" for i in range(7)]
BLOCKS = ["shared", "idle", "panel"]
PHASES = ["idle", "prefill", "decode", "preempted", "surface"]


def perceived(color, vision):
    srgb = np.array([int(part) for part in color.split(",")]) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    return TO_LAB @ np.cbrt(TO_CONES @ np.clip(VISION[vision] @ linear, 0, 1))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("vision", VISION)
def test_colors_differ_for_everyone(server, visit, scheme, vision):
    colors = theme_colors(visit(server.url, color_scheme=scheme).page)
    lab = {name: perceived(color, vision) for name, color in colors.items()}

    def nearest(pairs):
        return min((np.linalg.norm(lab[a] - lab[b]), a, b) for a, b in pairs)

    assert nearest(itertools.combinations(BLOCKS, 2))[0] > 0.12, nearest(itertools.combinations(BLOCKS, 2))
    assert nearest(itertools.combinations(PHASES, 2))[0] > 0.12, nearest(itertools.combinations(PHASES, 2))
    reserved = itertools.product(OWNERS, {*BLOCKS, *PHASES})
    assert (found := nearest(reserved))[0] > 0.1, found
    assert (found := nearest(itertools.combinations(OWNERS, 2)))[0] > (0.12 if vision == "normal" else 0.03), found
