"""The template engine: alternatives in [a|b], world entities in {h.s}, sentence case repaired at the end."""

import re

SPEECH = ("said|asked|cried|called|whispered|shouted|laughed|replied|answered|smiled|yelled|sang|"
          "barked|thought|begged|sighed|giggled|added|told|squeaked|roared|chirped")
_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{(\w+)(?:\.(\w+))?\}")
_AFTER_STOP = re.compile(r'(^|[.!?] |[.]" |\n|(?:^|\n|[.!?:"] )")([a-z])')
_AFTER_CRY = re.compile(r'([!?]" )([a-z])([^.!?"]*)')
_QUOTED = re.compile(r'"([^"]*)"( [a-z])?')
_ASKING = re.compile(r"^(Who|Where|Why|Can|May|Will|Would|Could|Do you|Did|Does|Are|Is|Shall|When (?:will|can|do|is)|"
                     r"How (?:can|do|is|far|big|are|did|does)|What (?:is|are|do|can|will|should|shall|have|did|happened|would))\b")
_TELLING = re.compile(r"^(I|Oh|My|Please|Let|This|It|Look|We|One|Now|Everyone|Maybe|Give)\b")
_TAG = re.compile(r"^(?:\S+ ){0,4}(?:%s)\b" % SPEECH)


def article(phrase):
    vowel = phrase[0].lower() in "aeiou" and not phrase.startswith(("uni", "use", "one"))
    return ("an " if vowel else "a ") + phrase


def choose_alternatives(rng, text):
    """Resolve [a|b|c], innermost first; an empty alternative means 'leave it out'."""
    while True:
        found = _CHOICE.search(text)
        if not found:
            return text
        text = text[:found.start()] + rng.choice(found.group(1).split("|")) + text[found.end():]


def fill(ctx, text):
    def one(match):
        entity = ctx[match.group(1)]
        attribute = match.group(2)
        return str(getattr(entity, attribute)) if attribute else str(entity)
    return _SLOT.sub(one, text)


def _case_after_cry(match):
    rest = match.group(2) + match.group(3)
    if _TAG.match(rest):
        return match.group(0)
    return match.group(1) + rest[0].upper() + rest[1:]


def _end_mark(match):
    """Questions in quotes end in a question mark, and statements do not."""
    inside, after = match.group(1), match.group(2) or ""
    last = re.split(r"(?<=[.!?]) ", inside)[-1]
    if last[-1:] in (",", ".") and _ASKING.match(last):
        inside = inside[:-1] + "?"
    elif last.endswith("?") and _TELLING.match(last):
        inside = inside[:-1] + ("," if after else ".")
    return '"' + inside + '"' + after


def tidy(text):
    """Spaces, articles and capital letters."""
    text = re.sub(r"[ \t]+", " ", text).strip()
    text = re.sub(r" ([,.!?])", r"\1", text)
    text = re.sub(r"\b([Aa]) (?=[aeiou])(?!uni|use|one\b)", r"\1n ", text)
    text = re.sub(r"([,]) ?([.!?,])", r"\2", text)
    text = _QUOTED.sub(_end_mark, text)
    text = _AFTER_STOP.sub(lambda m: m.group(1) + m.group(2).upper(), text)
    return _AFTER_CRY.sub(_case_after_cry, text)


def expand(rng, text, ctx):
    """A template with alternatives and slots becomes plain text."""
    return tidy(fill(ctx, choose_alternatives(rng, text)))


class Who:
    """Someone in a story. str() is how later sentences name them."""

    def __init__(self, name, kind, gender, named=True, adjective=""):
        self.kind, self.gender, self.named = kind, gender, named
        self.adj = adjective
        if gender == "I":
            self.name, self.k = "I", kind
            self.s, self.o, self.p, self.r = "I", "me", "my", "myself"
            self.ps, self.vc, self.a, self.call = "my", "", "I", "me"
            self.first, self.iam = "I", "nice to meet you"
            return
        self.s, self.o, self.p, self.r = {
            "f": ("she", "her", "her", "herself"),
            "m": ("he", "him", "his", "himself"),
            "n": ("it", "it", "its", "itself")}[gender]
        full = (adjective + " " + kind).strip()
        self.k = kind
        self.call = name if named else kind
        self.name = name if named else "the " + full
        self.ps = self.name + "'s"
        self.vc = ", " + (name if named else full)
        self.a = article(full)
        if named:
            self.first, self.iam = name, "my name is " + name
        else:
            self.first, self.iam = self.a, "I am " + article(kind)

    def __str__(self):
        return self.name


class Elder(Who):
    """A relative of the hero ('her mother') or an old wise someone ('the old owl')."""

    def __init__(self, phrase, gender, call):
        super().__init__(phrase, "elder", gender)
        self.vc = ", " + call
        self.call = call


class Thing:
    def __init__(self, noun, adjective=""):
        self.n, self.adj = noun, adjective
        self.full = (adjective + " " + noun).strip()
        self.a = article(self.full)
        self.an = article(noun)

    def __str__(self):
        return self.full


class Place:
    def __init__(self, row):
        self.n, self.prep, self.to = row
        self.at = self.prep + " " + self.n
        self.been = "to " + self.n
        self.bare = self.n.removeprefix("the ")

    def __str__(self):
        return self.n
