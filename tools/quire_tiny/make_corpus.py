"""Writes the training corpus of quire-tiny: stories, dialogues and a little public-domain prose.

    python make_corpus.py --out DIR [--stories N] [--dialogues N] [--seed S] [--prose FILE ...]

Writes train.jsonl and valid.jsonl with one document per line: {"kind": ..., "text": ...} for
stories and prose, {"kind": "dialogue", "messages": [[role, text], ...]} for chats. The same
seed gives the same corpus. The prose files are plain text in the public domain (for the
released model: a translation of War and Peace); without them the corpus has generated text only.
"""

import argparse
import json
import random
import re
from pathlib import Path

from plots import PLOTS

NOT_AGAIN = {"new_friend", "first_day", "goodbye", "birthday", "odd_one", "small_hero"}

TITLES = ("The [{x}|Story of {H}]", "{H} and the {P}", "{H}", "A [Good|Special|Strange|Wonderful] Day", "{H} and {F}", "The {K} [and the {P}|]")


def make_title(rng, world):
    from engine import choose_alternatives
    c = world.ctx
    title = choose_alternatives(rng, rng.choice(TITLES))
    hero = "My Story" if world.first_person else c["h"].name
    for slot, value in (("{x}", str(c["x"])), ("{H}", hero), ("{F}", c["f"].name), ("{P}", c["pl"].bare), ("{K}", c["h"].k)):
        title = title.replace(slot, value)
    small = {"the", "and", "of", "a", "an", "my"}
    words = [word if word.lower() in small and i else word[:1].upper() + word[1:] for i, word in enumerate(title.split())]
    return " ".join(words)


def make_story(rng):
    from world import World
    world = World(rng)
    plot = rng.choice(PLOTS)
    plot(world)
    episodes = rng.choice((2, 2, 3, 4)) if rng.random() < 0.10 else 1
    for _ in range(episodes - 1):
        following = rng.choice([p for p in PLOTS if p.__name__ not in NOT_AGAIN and p is not plot])
        if following.__name__ in ("sick_friend", "quarrel", "boasting") and not world.known("f"):
            continue
        following(world)
        plot = following
    paragraphs = [" ".join(p) for p in world.paras if p]
    if rng.random() < 0.05 and len(paragraphs) > 2:
        paragraphs = paragraphs[1:]
    joint = rng.choice(("\n\n",) * 7 + ("\n", " ", " "))
    text = joint.join(paragraphs)
    chance = rng.random()
    if chance < 0.06:
        text = make_title(rng, world) + "\n\n" + text
    elif chance < 0.09:
        text = text[0].lower() + text[1:]
    elif chance < 0.10:
        text = text.lower()
    return text


def clean_prose(path):
    """Paragraphs of a plain text, with ASCII punctuation and unwrapped lines."""
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    for old, new in (("\u2018", "'"), ("\u2019", "'"), ("\u201c", '"'), ("\u201d", '"'), ("\u2014", " - "), ("\u2013", "-"), ("\u2026", "..."), ("\r", "")):
        text = text.replace(old, new)
    text = re.sub(r"[^\x20-\x7e\n]", lambda m: {"\u00e9": "e", "\u00e8": "e", "\u00ea": "e", "\u00e0": "a", "\u00e7": "c", "\u00ef": "i", "\u00f4": "o"}.get(m.group(0), ""), text)
    verse = sum(len(line) < 60 for line in text.split("\n") if line) > 0.8 * text.count("\n") and "First Citizen:" in text[:200]
    for paragraph in re.split(r"\n\s*\n", text):
        joined = paragraph.strip() if verse else re.sub(r"\s+", " ", paragraph).strip()
        if joined and (verse or len(joined) > 40) and not joined.isupper():
            yield joined


def make_prose(paths, words=260):
    """Groups consecutive paragraphs into documents of about `words` words."""
    for path in paths:
        pending, size = [], 0
        for paragraph in clean_prose(path):
            pending.append(paragraph)
            size += len(paragraph.split())
            if size >= words:
                yield "\n\n".join(pending)
                pending, size = [], 0


def documents(args):
    from chat import dialogue
    seen = set()
    for index in range(args.stories):
        text = make_story(random.Random(f"{args.seed} story {index}"))
        if text not in seen:
            seen.add(text)
            yield {"kind": "story", "text": text}
    for index in range(args.dialogues):
        messages = dialogue(random.Random(f"{args.seed} dialogue {index}"))
        yield {"kind": "dialogue", "messages": messages}
    for text in make_prose(args.prose):
        yield {"kind": "prose", "text": text}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--stories", type=int, default=150000)
    parser.add_argument("--dialogues", type=int, default=150000)
    parser.add_argument("--prose", nargs="*", default=[], metavar="FILE")
    parser.add_argument("--seed", default="quire-tiny 1")
    parser.add_argument("--valid", type=float, default=0.004, help="fraction of held-out documents")
    args = parser.parse_args()

    docs = list(documents(args))
    rng = random.Random(args.seed + " split")
    rng.shuffle(docs)
    args.out.mkdir(parents=True, exist_ok=True)
    # A document that also occurs among the held-out ones is dropped from training.
    held = {json.dumps(d, sort_keys=True) for d in docs[:int(len(docs) * args.valid)]}
    with open(args.out / "valid.jsonl", "w") as valid, open(args.out / "train.jsonl", "w") as train:
        for line in sorted(held):
            valid.write(line + "\n")
        kept = 0
        for doc in docs:
            line = json.dumps(doc, sort_keys=True)
            if line not in held:
                train.write(line + "\n")
                kept += 1
    print(f"{kept} training and {len(held)} validation documents in {args.out}")


if __name__ == "__main__":
    main()
