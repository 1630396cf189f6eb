"""Train the byte-level BPE tokenizer of quire-tiny and write it with its chat template.

    python train_tokenizer.py --corpus DIR --out MODEL_DIR [--vocab 4096]
"""

import argparse
import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

END, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
# Words with their leading space, digits one at a time, punctuation runs, white space.
SPLIT = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] | trim + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def chat_text(messages):
    """A finished chat as the template renders it, without the leading <|endoftext|>."""
    return "".join(f"{IM_START}{role}\n{text.strip()}{IM_END}\n" for role, text in messages)


def document_text(doc):
    return chat_text(doc["messages"]) if doc["kind"] == "dialogue" else doc["text"]


def plain_texts(path, limit):
    """Text to learn merges from: no markup, every document kind."""
    with open(path) as lines:
        for number, line in enumerate(lines):
            if number >= limit:
                return
            doc = json.loads(line)
            if doc["kind"] == "dialogue":
                yield from (text for _, text in doc["messages"])
            else:
                yield doc["text"]


def train(texts, vocab):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=[END, IM_START, IM_END],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=f"{END} $A", pair=f"{END} $A {END} $B:1",
                                      special_tokens=[(END, tokenizer.token_to_id(END))]),
    ])
    return tokenizer


def write_configs(out, tokenizer):
    added = {str(tokenizer.token_to_id(t)): {"content": t, "lstrip": False, "normalized": False, "rstrip": False,
                                             "single_word": False, "special": True} for t in (END, IM_START, IM_END)}
    config = {"add_bos_token": True, "add_prefix_space": False, "added_tokens_decoder": added, "bos_token": END, "chat_template": CHAT_TEMPLATE,
              "clean_up_tokenization_spaces": False, "eos_token": END, "model_max_length": 1024, "pad_token": END,
              "additional_special_tokens": [IM_START, IM_END], "tokenizer_class": "PreTrainedTokenizerFast", "unk_token": None}
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    generation = {"bos_token_id": tokenizer.token_to_id(END), "eos_token_id": [tokenizer.token_to_id(END), tokenizer.token_to_id(IM_END)],
                  "pad_token_id": tokenizer.token_to_id(END), "do_sample": True, "temperature": 0.7, "top_p": 0.9}
    (out / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--vocab", type=int, default=4096)
    parser.add_argument("--documents", type=int, default=40000, help="number of documents for learning the merges")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer = train(plain_texts(args.corpus / "train.jsonl", args.documents), args.vocab)
    tokenizer.save(str(args.out / "tokenizer.json"))
    write_configs(args.out, tokenizer)
    print(f"{tokenizer.get_vocab_size()} tokens in {args.out}")


if __name__ == "__main__":
    main()
