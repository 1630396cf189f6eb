"""Classes under vLLM's module names."""
