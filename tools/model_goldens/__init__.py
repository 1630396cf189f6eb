"""Configurations of the golden models, by family. tools/make_model_goldens.py computes the goldens."""
