"""Converts the corpus to token streams for train.py.

    python encode.py --corpus DIR --tokenizer MODEL_DIR

Writes train.bin and valid-{story,dialogue,prose}.bin next to the corpus, 16-bit token ids;
every document starts with <|endoftext|>, and the stream ends with one.
"""

import argparse
import json
from itertools import islice
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from train_tokenizer import END, document_text


def encode(tokenizer, docs):
    """One array of ids; add_special_tokens puts <|endoftext|> before each document."""
    pieces = []
    for start in range(0, len(docs), 4096):
        for item in tokenizer.encode_batch([document_text(d) for d in docs[start:start + 4096]]):
            pieces.append(np.array(item.ids, dtype=np.uint16))
    pieces.append(np.array([tokenizer.token_to_id(END)], dtype=np.uint16))
    return np.concatenate(pieces)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=None, help="maximum number of training documents")
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(args.tokenizer / "tokenizer.json"))
    with open(args.corpus / "train.jsonl") as lines:
        train = [json.loads(line) for line in islice(lines, args.documents)]
    valid = [json.loads(line) for line in open(args.corpus / "valid.jsonl")]
    ids = encode(tokenizer, train)
    ids.tofile(args.corpus / "train.bin")
    sizes = {"train": len(ids)}
    for kind in ("story", "dialogue", "prose"):
        docs = [d for d in valid if d["kind"] == kind]
        if docs:
            ids = encode(tokenizer, docs)
            ids.tofile(args.corpus / f"valid-{kind}.bin")
            sizes["valid " + kind] = len(ids)
    for kind in ("story", "dialogue", "prose"):
        sizes["training documents, " + kind] = sum(d["kind"] == kind for d in train)
    print(json.dumps(sizes, indent=1))


if __name__ == "__main__":
    main()
