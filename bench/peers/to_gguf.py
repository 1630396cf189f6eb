#!/usr/bin/env python3
"""llama.cpp's own converter on a checkpoint of make_model.py, whose tokenizer it cannot know by name.

    to_gguf.py LLAMA_CPP_SOURCE CHECKPOINT OUTFILE OUTTYPE
"""
import sys

source, checkpoint, outfile, outtype = sys.argv[1:]
sys.path.insert(0, source)
sys.argv = ["convert_hf_to_gguf.py", checkpoint, "--outfile", outfile, "--outtype", outtype]

import convert_hf_to_gguf  # noqa: E402
import conversion.base  # noqa: E402

# The splitter of text has no part in the measurements: prompts are token ids.
conversion.base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
convert_hf_to_gguf.main()
