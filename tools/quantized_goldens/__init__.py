"""Formats of the quantized golden models. tools/make_quantized_goldens.py computes the goldens."""
