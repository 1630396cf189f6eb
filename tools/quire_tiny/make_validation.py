"""Write validation.txt: held-out documents of the generator, for perplexity tests.

    python make_validation.py --corpus DIR --out MODEL_DIR/validation.txt

Documents are separated by a line that contains only <|endoftext|>. Stories are plain text,
dialogues are in the chat format with its <|im_start|> and <|im_end|> marks. No prose.
"""

import argparse
import json
import random
from pathlib import Path

from train_tokenizer import END, document_text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--bytes", type=int, default=98000)
    args = parser.parse_args()
    docs = [json.loads(line) for line in open(args.corpus / "valid.jsonl")]
    docs = [d for d in docs if d["kind"] != "prose"]
    random.Random(1).shuffle(docs)
    parts, size, separator = [], 0, f"\n{END}\n"
    for doc in docs:
        text = document_text(doc).strip()
        size += len(text.encode()) + len(separator)
        if size > args.bytes:
            break
        parts.append(text)
    args.out.write_text(separator.join(parts) + "\n")
    print(f"{len(parts)} documents, {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
