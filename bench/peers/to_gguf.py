#!/usr/bin/env python3
"""Runs llama.cpp's converter on a checkpoint of make_model.py, whose tokenizer is not in the converter's list.

    to_gguf.py LLAMA_CPP_SOURCE CHECKPOINT OUTFILE OUTTYPE
"""
import sys

source, checkpoint, outfile, outtype = sys.argv[1:]
sys.path.insert(0, source)
sys.argv = ["convert_hf_to_gguf.py", checkpoint, "--outfile", outfile, "--outtype", outtype]

import convert_hf_to_gguf  # noqa: E402
import conversion.base  # noqa: E402

# The pre-tokenizer does not affect the measurements, because prompts are token ids.
conversion.base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
convert_hf_to_gguf.main()
