"""Mutations of JSON values and templates, and a search that keeps what costs most per byte."""

import copy
import random

TEXTS = ["a", " ", "\u00e9", "\u4e2d", "\U0001f600", "\u0301", "0", "\n", "ab ", "'", "<s>", "{{", "aA1 ", "\x00"]
NUMBERS = [0, 1, -1, 2, 3, 100, 65535, 10**6, 2**31 - 1, 2**31, 2**63, 1e300, 0.5, -0.0]
# Fields that decide how much is generated. Generated tokens are work that a client asks for; the limit is on everything else.
KEPT = {"max_tokens", "stream"}


def places(value, path=()):
    """The paths of all values in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if key not in KEPT:
            yield from places(inner, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def mutated_leaf(rng, value):
    kind = rng.randrange(5)
    if isinstance(value, str) and kind < 3:
        if kind == 0 or not value:
            return value + rng.choice(TEXTS) * rng.choice([1, 10, 1000, 20000])
        if kind == 1:
            return (value * rng.choice([2, 8, 64]))[:200_000]
        return "".join(rng.choice(TEXTS) for _ in range(rng.choice([1, 30, 3000])))
    if isinstance(value, (int, float)) and kind < 3:
        return rng.choice(NUMBERS)
    if isinstance(value, list) and value and kind < 3:
        return (value * rng.choice([2, 4, 16, 128]))[:20_000]
    if isinstance(value, dict) and value and kind < 2:
        return {f"{key}{i}" if i else key: inner for i in range(rng.choice([2, 8])) for key, inner in list(value.items())[:200]}
    return rng.choice([None, True, [value], {"a": value}, rng.choice(NUMBERS), rng.choice(TEXTS), [], {}])


def mutated(rng, value):
    """A copy with one to three changes."""
    root = [copy.deepcopy(value)]
    for _ in range(rng.choice([1, 1, 2, 3])):
        path = rng.choice([path for path in places(root) if path])
        parent = at(root, path[:-1])
        if rng.random() < 0.1 and len(path) > 1:
            del parent[path[-1]]
        else:
            parent[path[-1]] = mutated_leaf(rng, parent[path[-1]])
    return root[0]


STATEMENTS = [
    "{% for i in range(@) %}#{% endfor %}", "{% for m in messages * @ %}#{% endfor %}", "{% set ns.x = ns.x ~ ns.x %}", "{% set ns.x = ns.x * @ %}",
    "{% set ns.x = [ns.x, ns.x] %}", "{% set ns.d = dict(ns.d, **{ns.x|string: @}) %}", "{{ ns.x }}", "{% if ns.x == ns.d %}#{% endif %}",
    "{% macro m(k) %}#{% if k %}{{ m(k - 1) }}{{ m(k - 1) }}{% endif %}{% endmacro %}{{ m(@) }}", "{{ ns.x|tojson }}", "{{ ns.x|string|replace('a', 'bb') }}",
    "{% set ns.x = ns.x|string|upper %}", "{% set ns.x = ns.x|list %}", "{% set ns.x = ns.x|string|reverse|list|join('ab') %}", "{{ '%@d' % 1 }}",
    "{% set ns.x = (ns.x|string).split('a') %}", "{% set ns.x = ns.x|string|indent(@) %}", "{% set ns.x = ns.x|list|sort %}",
    "{% set ns.x = ns.x|list|unique|list %}", "{% set ns.x = ns.x|string|trim %}", "{% set ns.y = ns.x[::-1] %}", "{% set ns.y = ns.x[1:] %}",
    "{% set ns.x = ns.x|list|batch(@)|list %}", "{% set ns.x = messages|map(attribute='content')|list * @ %}", "{% if 'ab' in ns.x|string %}#{% endif %}",
    "{% set ns.x = messages|groupby('role')|list %}", "{{ (ns.x|string).count('a') }}", "{% set ns.x = ns.x|string|title|center(@) %}",
]


def some_template(rng, depth=0):
    """Statements with numbers, nested in each other."""
    parts = []
    for _ in range(rng.choice([1, 2, 4])):
        text = rng.choice(STATEMENTS).replace("@", str(rng.choice([2, 3, 20, 400, 9999, 99999, 10**7])))
        inner = some_template(rng, depth + 1) if depth < 3 and rng.random() < 0.6 else "a"
        parts.append(text.replace("#", inner))
    return "".join(parts) if depth else "{% set ns = namespace(x='ab', y=1, d={}) %}" + "".join(parts)


class Search:
    """Mutates the inputs that cost most per byte, in any of several costs."""

    def __init__(self, seeds, rng):
        self.rng, self.seeds = rng, seeds
        self.best = {}

    def parent(self):
        kept = self.best[self.rng.choice(list(self.best))] if self.best else []
        return self.rng.choice(kept)[1] if kept and self.rng.random() < 0.6 else self.rng.choice(self.seeds)

    def report(self, value, size, costs):
        for name, cost in costs.items():
            kept = self.best.setdefault(name, [])
            kept.append((cost / (size + 200), value))
            kept.sort(key=lambda entry: -entry[0])
            del kept[12:]


def generator(seed):
    return random.Random(seed)
