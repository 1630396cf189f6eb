"""Writes tests/fixtures/tokenizers: tiny tokenizers, and difficult strings as encoded by the `tokenizers` package.

usage: make_tokenizer_fixtures.py OUT_DIR      (pip install tokenizers==0.23.* sentencepiece)

Everything is trained on the text below, which was written for this purpose. Seeded: the same package version writes the same files.
"""
import io
import json
import random
import sys
import tempfile
from pathlib import Path

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers)

TEXT = """
The baker opens her shop at five in the morning, before the first tram rolls down the hill. She sells rye bread, rolls
with caraway, and on Fridays a cake that she doesn't name; people ask for "that one, please" and she'll nod. In 1987 she
paid 14,250 for the oven, and it still holds 230 degrees to within 2. Her daughter writes programs: for (int i = 0; i < n;
++i) { total += price[i] * 0.95; } and says that they're much like dough. You've got to let them rest, she'd say.
Der Bäcker öffnet früh; die Straße ist noch naß. Le boulanger connaît déjà tout le monde. El niño compró pan de maíz.
Пекарь открывает лавку рано утром, когда город ещё спит. 面包师在早上五点开门。パン屋は五時に開きます。 빵집은 다섯 시에 문을 연다.
def bake(minutes=35, *, heat=230):\n    if minutes > 60:\n        raise ValueError("burnt")\n    return {"bread": True}
""".strip()

CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = CL100K.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+")

POOL = ("'sStTmMdDrReEvVlLſaAbBéß0123456789²½٣    \t\n\r\n\u00a0\u2003\u3000\u0085\u000b\u200b.,!?()[]{}<>|/#’\"-_=+*&^%$@~`"
        "\u0301\u0323\u0308\u0345日本語中文한국어กำไทยनमस्तेمالسلام😀👩\u200d👧🇩🇪ǅʰªºⅣ①ﬁΣςİı\ufffd\u0007\ue000\ufeff▁Ġ")
PIECES = ["don't", "I'LL", "we'Ve", "HTTPServer", "fooBar", "1234567", "e\u0301a\u0323\u0307", "  ", "\n\n", " \n ", "\t\t", "x'ſ"]


def strings(seed, count, longest=24):
    rnd = random.Random(seed)
    one = lambda: rnd.choice(PIECES) if rnd.random() < 0.2 else (
        rnd.choice(POOL) if rnd.random() < 0.85 else chr(rnd.choice([rnd.randrange(0x20, 0xD800), rnd.randrange(0xE000, 0x20000)])))
    return ["".join(one() for _ in range(rnd.randrange(1, longest))) for _ in range(count)]


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf8")


def goldens(tokenizer, texts):
    cases = []
    for text in texts:
        e = tokenizer.encode(text)
        cases.append({"text": text, "ids": e.ids, "ids_no_special": tokenizer.encode(text, add_special_tokens=False).ids,
                      "decoded": tokenizer.decode(e.ids, skip_special_tokens=False),
                      "decoded_skip_special": tokenizer.decode(e.ids, skip_special_tokens=True)})
    return cases


def save(out, name, tokenizer, extra=()):
    directory = out / name
    directory.mkdir(parents=True, exist_ok=True)
    write(directory / "tokenizer.json", json.loads(tokenizer.to_str()))
    lines = [line for line in TEXT.split("\n")][:3]
    write(directory / "goldens.json", goldens(tokenizer, lines + strings(1, 24) + list(extra)))


def byte_level(out):
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CL100K), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                                      special_tokens=["<|begin|>", "<|end|>"], show_progress=False))
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<|begin|> $A", special_tokens=[("<|begin|>", t.token_to_id("<|begin|>"))])])
    save(out, "byte-level", t, ["a<|end|>b<|end", "<|begin|><|end|>"])


def llama2(out):
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")  # for the training only: no merges across words
    t.train_from_iterator([TEXT], trainers.BpeTrainer(
        vocab_size=480, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)], show_progress=False))
    t.pre_tokenizer = None
    j = json.loads(t.to_str())
    j["added_tokens"] = [a for a in j["added_tokens"] if a["id"] < 3]
    t = Tokenizer.from_str(json.dumps(j))
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    save(out, "llama2", t, ["a </s> b", "<s>", "  two  spaces  "])


def metaspace_first(out):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False))
    t.normalizer = normalizers.NFKC()
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    t.decoder = decoders.Metaspace(prepend_scheme="first")
    t.train_from_iterator([TEXT[:900]], trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>", "<sep>"], show_progress=False))
    t.add_tokens([AddedToken("lemma", single_word=True), AddedToken("<mask>", lstrip=True), AddedToken("<end>", rstrip=True),
                  AddedToken("Ⅳ", normalized=True), AddedToken("ab", normalized=False)])
    save(out, "metaspace", t, ["one <mask> two", "x  <mask>  y <end>  z", "lemma dilemma lemma. lemmata _lemma", "IV Ⅳ iv", "cabin ab",
                               "<sep>a<sep> b", " <end> \n<end>\u2003x"])


def word_piece(out):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator([TEXT], trainers.WordPieceTrainer(vocab_size=350, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"],
                                                            show_progress=False))
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    save(out, "word-piece", t, ["a" * 30, "[SEP] baker's [sep]", "do not , don't ."])


def unigram(out):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Lowercase(),
                                         normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.decoder = decoders.Metaspace()
    t.train_from_iterator([TEXT], trainers.UnigramTrainer(vocab_size=300, unk_token="<unk>", special_tokens=["<unk>", "</s>"],
                                                          show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", t.token_to_id("</s>"))])
    save(out, "unigram", t)


def suffix_bpe(out):
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.decoder = decoders.BPEDecoder()
    t.train_from_iterator([TEXT[:900]], trainers.BpeTrainer(vocab_size=250, special_tokens=["<unk>"], end_of_word_suffix="</w>",
                                                            show_progress=False))
    t.post_processor = processors.RobertaProcessing(("<unk>", 0), ("<unk>", 0))
    save(out, "suffix-bpe", t)


def sentence_piece(out):
    # Settings that the shared model (mistral-v3) does not have: Unigram, no byte fallback, extra spaces kept or removed.
    rules = Path(tempfile.mkdtemp()) / "rules.tsv"  # a charsmap of a few rules; the usual ones are 240 kB each
    rules.write_text("41\t61\nFB01\t66 69\n65 301\tE9\n3000\t20\n9\t20\nA\t20\n200B\t\n")
    for name, options in {
        "sp-unigram": dict(model_type="unigram", user_defined_symbols=["<user>", "Brot"], control_symbols=["<ctl>"],
                           normalization_rule_tsv=str(rules)),
        "sp-unigram-bytes": dict(model_type="unigram", byte_fallback=True, normalization_rule_name="identity", vocab_size=420),
        "sp-bpe": dict(model_type="bpe", user_defined_symbols=["<user>", "ba▁k"], remove_extra_whitespaces=False, normalization_rule_name="identity"),
        "sp-bpe-suffix": dict(model_type="bpe", treat_whitespace_as_suffix=True, normalization_rule_tsv=str(rules)),
    }.items():
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(TEXT.split("\n")), model_writer=model, minloglevel=2, num_threads=1,
            **{"vocab_size": 260, "hard_vocab_limit": False, "character_coverage": 0.98, **options})
        directory = out / name
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "tokenizer.model").write_bytes(model.getvalue())
        p = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        texts = TEXT.split("\n")[:3] + strings(2, 24) + ["a <user> b<user>", "Brot und Brote", "ba k ba  k", "<s> x </s><ctl>", "   ", ""]
        rnd = random.Random(3)
        ids = [[rnd.randrange(p.vocab_size()) for _ in range(n)] for n in (1, 1, 1, 3, 3, 8, 8, 20)]
        write(directory / "goldens.json", [{"text": s, "ids_no_special": p.encode(s), "decoded": p.decode(p.encode(s))} for s in texts] +
              [{"ids_no_special": i, "decoded": p.decode(i)} for i in ids])


def steps(out):
    """Single pre-tokenizers, normalizers and decoders, each with strings."""
    def entry(kind, part, inputs, run):
        return {"kind": kind, "config": json.loads(part.__getstate__()), "cases": [[i, run(part, i)] for i in inputs]}

    pieces = lambda p, s: [x for x, _ in p.pre_tokenize_str(s)]
    P, N, D = pre_tokenizers, normalizers, decoders
    ps = [P.Split(Regex(r), "isolated") for r in (CL100K, QWEN2, QWEN35, O200K, DEEPSEEK)]
    ps += [P.Split(Regex(r"[\p{L}_]+|\d"), b, i) for b in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")
           for i in (False, True)]
    ps += [P.Split("'", "merged_with_previous"), P.Split(" ", "merged_with_next"), P.Whitespace(), P.WhitespaceSplit(),
           P.Digits(True), P.Digits(False), P.Punctuation(), P.Punctuation("contiguous"), P.Punctuation("removed"), P.BertPreTokenizer(),
           P.Metaspace(), P.Metaspace(prepend_scheme="never"), P.Metaspace(replacement="_", prepend_scheme="first", split=False),
           P.ByteLevel(), P.ByteLevel(add_prefix_space=False, use_regex=False), P.CharDelimiterSplit("e"), P.FixedLength(3),
           P.Split(Regex(r"\p{Lu}\p{Ll}*|\s+$"), "isolated"),
           P.Split(Regex(r"[^\w\s]+|\W\d|(?<=\w)\h"), "isolated"), P.Split(Regex(r"^.|\P{L}+|[\p{^L}&]x"), "removed"),
           P.Sequence([P.Split(Regex(r"\p{N}{1,3}"), "isolated"), P.Split(Regex("[一-龥぀-ゟ゠-ヿ]+"), "isolated"),
                       P.Split(Regex(DEEPSEEK), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)]),
           P.Sequence([P.Punctuation("contiguous"), P.ByteLevel(add_prefix_space=False), P.Digits(False),
                       P.Split(Regex("[0-9][0-9][0-9]"), "isolated")]),
           P.Sequence([P.WhitespaceSplit(), P.Metaspace()])]
    regexes = {i for i in range(5)}
    result = [entry("pre_tokenizer", p, strings(100 + i, 40 if i in regexes else 12), pieces) for i, p in enumerate(ps)]
    ns = [N.NFC(), N.NFD(), N.NFKC(), N.NFKD(), N.Lowercase(), N.Strip(), N.Strip(left=False), N.StripAccents(), N.BertNormalizer(),
          N.BertNormalizer(clean_text=False, lowercase=False, strip_accents=True), N.Replace("e", "ee"), N.Replace(Regex(r"\s+"), " "),
          N.Prepend("▁"), N.Nmt(), N.ByteLevel(), N.Sequence([N.NFD(), N.StripAccents()])]
    marks = ["a\u0323\u0307\u0301\u0334", "q\u0307\u0323", "\u1100\u1161\u11a8", "\uac01\u11a8", "ạ̄̇", "\u212b\u2126", "\u0f73\u0f71", "𝅘𝅥𝅮", "\u0344",
             "ﷺ", "ẛ̣", "\u09c7\u09be", "\u11935\u11930", "\U00011935\U00011930", "\u32ff", "\u1e9b\u0323x\u0301"]
    result += [entry("normalizer", n, strings(200 + i, 12) + marks, lambda n, s: n.normalize_str(s)) for i, n in enumerate(ns)]
    tokens = [["▁Hey", "▁friend", "!"], ["<0xE4>", "<0xBD>", "<0xA0>", "x", "<0xE4>", "y", "<0x41>"], ["Ġa", "Ã", "¤", "Ġ日", "Ã"], ["a", "##b", "##", "c", ".", "n't"],
              ["lo</w>", "w", "er</w>"], ["<pad>", "h", "h", "<pad>", "e", "|", "|", "y"], ["  x ", "y  "], [], [""], ["▁", "▁▁a", "b▁c"]]
    ds = [D.ByteLevel(), D.Metaspace(), D.Metaspace(prepend_scheme="never"), D.WordPiece(), D.WordPiece(prefix="", cleanup=False),
          D.ByteFallback(), D.BPEDecoder(), D.CTC(), D.Replace("▁", " "), D.Replace(Regex("[ab]"), "-"), D.Fuse(), D.Strip(" ", 1, 1),
          D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 2)]),
          D.Sequence([D.Fuse(), D.Replace("▁H", "-")]), D.Sequence([D.ByteLevel(), D.Strip(" ", 2, 1)])]
    # The reference panics if Strip gets an empty token or strips a whole token.
    plain = [t for t in tokens if t and all(x.strip() for x in t)]
    result += [entry("decoder", d, plain if "Strip" in str(d) else tokens, lambda d, t: d.decode(t)) for d in ds]
    write(out / "steps.json", result)


if __name__ == "__main__":
    root = Path(sys.argv[1])
    for make in (byte_level, llama2, metaspace_first, word_piece, unigram, suffix_bpe, sentence_piece, steps):
        make(root)
    print("bytes:", sum(p.stat().st_size for p in root.rglob("*") if p.is_file()))
