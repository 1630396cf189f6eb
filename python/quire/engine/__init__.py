"""Arguments and engines under vLLM's module names."""
