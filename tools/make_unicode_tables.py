"""Writes src/text/unicode/tables.cc, the character tables of the tokenizers.

usage: make_unicode_tables.py OUT.cc      (pip install unicodedata2==16.0.0 tokenizers==0.23.*)

General categories come from unicodedata2 16.0.0: over all code points they agree with the regular expressions of the
`tokenizers` package (Oniguruma, Unicode 16).  Parts of that package that do not use regular expressions follow other
versions (its BERT normalizer Unicode 8, its NFC Unicode 9, its digits Unicode 17), so those sets, and the lower-case
mapping, are queried from the package itself, one code point at a time.
"""
import sys
import unicodedata2 as ucd
from tokenizers import normalizers, pre_tokenizers

CATEGORIES = ["Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No",
              "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"]
WHITE_SPACE = {*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
BLOCK = 128
SURROGATES = range(0xD800, 0xE000)


def forms(cp):
    return [f(chr(cp)) for f in NORMAL_FORMS]


NORMAL_FORMS = [normalizers.NFC().normalize_str, normalizers.NFD().normalize_str, normalizers.NFKC().normalize_str,
                normalizers.NFKD().normalize_str]


def reorders(cp):
    """Returns whether cp has a nonzero combining class in the package's normalizer, detected by the reordering of marks."""
    nfd = normalizers.NFD().normalize_str
    return any(nfd(a) != a for a in ("a\u0345" + chr(cp), "a" + chr(cp) + "\u0334"))


def main(out_path):
    cps = range(0x110000)
    cls, flags, lower = bytearray(len(cps)), bytearray(len(cps)), []
    splits = lambda p, c: len(p.pre_tokenize_str("a" + chr(c) + "a")) > 1
    punctuation, digits = pre_tokenizers.Punctuation(), pre_tokenizers.Digits()
    bert = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    clean = normalizers.BertNormalizer(**{**bert, "clean_text": True}).normalize_str
    accents = normalizers.BertNormalizer(**{**bert, "strip_accents": True}).normalize_str
    marks, lowercase = normalizers.StripAccents().normalize_str, normalizers.Lowercase().normalize_str

    seconds = set()  # characters that may compose with the preceding character
    for cp in cps:
        d = ucd.decomposition(chr(cp)).split()
        if len(d) == 2 and not d[0].startswith("<") and NORMAL_FORMS[0](chr(int(d[0], 16)) + chr(int(d[1], 16))) == chr(cp):
            seconds.add(int(d[1], 16))
    seconds.update(range(0x1161, 0x1176), range(0x11A8, 0x11C3))  # Hangul vowels and final consonants

    for cp in cps:
        c = chr(cp)
        cls[cp] = CATEGORIES.index(ucd.category(c)) | (0x20 if cp in WHITE_SPACE else 0)
        if cp in SURROGATES:
            continue
        nfc, nfd, nfkc, nfkd = forms(cp)
        combining = ucd.combining(c) != 0
        knows_class = combining and reorders(cp)
        ucd_forms = [ucd.normalize(f, c) for f in ("NFC", "NFD", "NFKC", "NFKD")]
        inert = [nfc, nfd, nfkc, nfkd] != ucd_forms or (combining and not knows_class)
        f = 0
        f |= 0x01 if splits(punctuation, cp) else 0
        f |= 0x02 if clean("a" + c + "a") == "aa" else 0
        f |= 0x04 if accents("a" + c) == "a" else 0
        f |= 0x08 if marks("a" + c) == "a" else 0
        f |= 0x10 if splits(digits, cp) else 0
        f |= 0x20 if inert else 0
        f |= 0x40 if not inert and (nfc != c or combining or cp in seconds) else 0
        f |= 0x80 if not inert and (nfkd != c or combining or cp in seconds) else 0
        flags[cp] = f
        low = lowercase(c)
        if low != c:
            lower.append((cp, low))

    def two_stage(data):
        index, blocks, where = [], [], {}
        for i in range(0, len(data), BLOCK):
            b = bytes(data[i:i + BLOCK])
            if b not in where:
                where[b] = len(blocks)
                blocks.append(b)
            index.append(where[b])
        return index, b"".join(blocks)

    def emit(kind, name, values):
        out.append(f"const {kind} {name}[{len(values)}] = {{")
        line = "   "
        for v in values:
            s = f" {v},"
            if len(line) + len(s) > 110:
                out.append(line)
                line = "   "
            line += s
        out.append(line + "\n};\n")

    out = ["// Written by tools/make_unicode_tables.py: Unicode " + ucd.unidata_version +
           " categories, and the sets of older tables that `tokenizers` uses.",
           '#include "text/unicode/tables.h"\n', "namespace quire::unicode::tables {\n", "// clang-format off"]
    for name, data in (("Class", cls), ("Flag", flags)):
        index, blocks = two_stage(data)
        emit("uint16_t", f"k{name}Index", index)
        emit("uint8_t", f"k{name}Blocks", list(blocks))
    # Lower case: runs with a constant offset (step 1 or 2), then the few characters that become several.
    single = [(cp, ord(low) - cp) for cp, low in lower if len(low) == 1]
    runs = []
    for cp, d in single:
        if runs and runs[-1][3] == d and cp - runs[-1][1] in (1, 2):
            step = cp - runs[-1][1]
            if runs[-1][0] == runs[-1][1]:
                runs[-1][2] = step
            if runs[-1][2] == step:
                runs[-1][1] = cp
                continue
        runs.append([cp, cp, 1, d])
    out.append(f"const LowerRun kLowerRuns[{len(runs)}] = {{")
    out.extend(f"    {{0x{a:X}, 0x{b:X}, {s}, {d}}}," for a, b, s, d in runs)
    out.append(f"}};\nconst size_t kNumLowerRuns = {len(runs)};\n")
    many = [(cp, low) for cp, low in lower if len(low) != 1]
    assert [cp for cp, _ in many] == [0x130] and many[0][1] == "i\u0307", many
    out.append("// clang-format on\n}  // namespace quire::unicode::tables\n")
    open(out_path, "w", encoding="ascii").write("\n".join(out))
    print("class", len(two_stage(cls)[1]), "flags", len(two_stage(flags)[1]), "lower runs", len(runs))


if __name__ == "__main__":
    main(sys.argv[1])
