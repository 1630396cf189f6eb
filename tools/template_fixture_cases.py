"""The templates of make_template_fixtures.py, by group, and the variables of their context."""

CONTEXT = {
    "s": "Hello, World", "u": "Grüße, 世界 😀", "n": 7, "f": 2.5, "b": True, "nil": None,
    "xs": [3, 1, 2], "names": ["bob", "Alice", "carol", "alice"],
    "d": {"a": 1, "b": [1, 2.0, None], "c": {"x": "y"}, "items": "shadowed"},
    "users": [{"name": "Ann", "age": 30, "city": {"zip": "A1"}}, {"name": "bob", "age": 25, "city": {"zip": "b2"}},
              {"name": "Cid", "age": 30, "city": {"zip": "A1"}}],
}


def exprs(text):
    return ["{{ " + line.strip() + " }}" for line in text.strip().splitlines()]


GROUPS = {
    "whitespace": [
        "a\n  {% if true %}\n  b\n  {% endif %}\n c\n",
        "a\n  {%- if true -%}\n  b\n  {%- endif -%}\n c\n",
        "a\n  {%+ if true %}\n  b\n  {%+ endif %}\n c",
        "a {{- ' x ' -}} b",
        "a {# note #} b\n{# whole line #}\nc",
        "a {#- trimmed -#} b", "x\n   {#+ kept #}\ny",
        "{% raw %}{{ not }} {% parsed %}{% endraw %}", "  {% raw %}\n  {{ x }}\n  {% endraw %}\nz",
        "a {%- raw -%}  {{ x }}  {%- endraw -%} b",
        "{% if true %}\n\n\nx{% endif %}\n", "line1\r\nline2\rline3\n", "ends with two\n\n",
        "{% if true +%}\nkept newline{% endif %}", "    {% set x = 1 %}    {{ x }}\n", "{{ '}}' }}{{ '%}' }}",
        "{% set x = {'a': {'b': 1}} %}{{ x.a['b'] }}", "text {% if b %} inline {% endif %} text",
        "{#", "", "{", "{ {", "a{% if b %}\n  {{ n }}\n{% else %}\nno\n{% endif %}b",
    ],
    "literals": exprs(r"""
        1
        1_000
        0x1F + 0b101 + 0o17
        1.5
        1e3
        1.0e-7
        'single' "double"
        "it's"
        'tab\tnl\nq\'x\\y'
        '\x41\u00e9\U0001F600\101'
        'unknown \d escape'
        [1, 'a', none, true, 2.0]
        (1, 2, 3)
        (1,)
        ()
        {'a': 1, 2: 'b', (1, 2): 'c', none: 0}
        {1: 'a', 1.0: 'b', true: 'c'}
        true, false, none
        True, False, None
        [1, 2,]
        1.5.1
        9223372036854775807
        12345678901234567890
    """),
    "arithmetic": exprs(r"""
        1 + 2 * 3 - 4
        7 / 2
        6 / 2
        7 // 2, -7 // 2, 7 // -2
        7 % 3, -7 % 3, 7 % -3
        7.5 // 2, -7.5 % 2
        2 ** 10, 2 ** -1, 2 ** 3 ** 2
        -2 ** 2
        2 ** 0.5
        1 / 3
        0.1 + 0.2
        1e16, 1e15, 123456789.0, 1e-5, 0.0001
        1e22, 1.5e300 * 10, 5e-324
        -n, +n, -f
        'a' * 3, 3 * 'ab', [1] * 3, 'a' * -1
        'a' + 'b', [1] + [2], (1,) + (2,)
        true + true
        1 ~ 2 ~ 'x' ~ none ~ [1]
        'x' ~ nosuch ~ 'y'
        1 / 0
        1 // 0
        1 % 0
        'a' + 1
        1 + 'a'
        [1] + (2,)
        none + 1
        'a' - 'b'
        nosuch + 1
        -'a'
        1.0 * 3
        10 // 3.0
        7 / 0.0
    """),
    "comparison": exprs(r"""
        1 < 2 < 3, 1 < 3 < 2
        1 == 1.0, 1 == true, '1' == 1, none == none
        [1, 2] == [1, 2], {'a': 1} == {'a': 1.0}, (1, 2) == [1, 2]
        'a' < 'b', 'Z' < 'a', 'é' > 'z'
        [1, 2] < [1, 3], (1, 2) < (1, 2, 0)
        'a' in 'cat', 'x' not in 'cat', '' in ''
        1 in [1, 2], 'a' in d, 'zzz' in d
        2 in range(3), 5 in range(3)
        1 in 'a'
        1 in none
        1 < 'a'
        none < 1
        [1] < ['a']
        {} < {}
        not true, not 0, not '', not []
        1 and 2, 0 and 2, 1 or 2, 0 or '', none or 'x'
        true and not false or false
        'yes' if n > 5 else 'no'
        'yes' if n > 50
        ('a' if false) is defined
        1 if false else 2 if false else 3
        nosuch == nosuch2, nosuch == none, nosuch != 1
        1 < nosuch
        nosuch in [1]
        1 in nosuch
        1 != 2 != 1
        0.1 + 0.2 == 0.3
        9007199254740993 == 9007199254740992.0
    """),
    "access": exprs(r"""
        d.a, d['a'], d.b[1], d.c.x
        d.items is string, d['items']
        d.get('a'), d.get('z'), d.get('z', 5)
        d.nosuch
        d.nosuch is defined
        d.nosuch.deeper
        d['nosuch']['deeper']
        xs[0], xs[-1], xs[10] is defined
        xs.0, xs.1
        s[0], s[-1], u[0], u[-1], u[7]
        s[1:4], s[:5], s[7:], s[::-1], s[-5:], s[::3], s[10:2:-2]
        u[2:9], u[::-1]
        xs[1:], xs[::-1], xs[5:], xs[-2:]
        (1, 2, 3)[1:], range(10)[2:8:3]
        xs[none:2]
        d[1:2]
        none[0]
        none.x is defined
        none.x
        nil['a']['b']
        n[1:2]
        n.real, f.imag
        'abc'['upper']()
        d['keys']()|list
        xs['append'] is defined
        xs.append(1)
        d.update({})
        d.pop('a')
        d.__class__
        s.__class__.__mro__
        nosuch
        nosuch.x
        nosuch['x']
        nosuch()
        xs[::0]
        d[[1]]
        d[(1, 2)] is defined
        users[0].name, users[1]['city'].zip
        xs['0'] is defined
        xs[1, 2] is defined
        xs[true]
    """),
    "string_methods": exprs(r"""
        '  x  '.strip(), 'xxaxx'.strip('x'), '  x '.lstrip(), ' x  '.rstrip()|length
        'abcba'.lstrip('ab'), 'héé'.rstrip('é')
        'a,b,c'.split(','), 'a b  c '.split(), 'a,b,c'.split(',', 1), ''.split(), ''.split(',')
        ' a b  c '.split(none, 1), ' a b  c '.rsplit(none, 1)
        'a,b,c'.rsplit(',', 1), 'aXXbXXc'.split('XX')
        'a'.split('')
        'a\nb\r\nc\u2028d'.splitlines(), 'a\nb\n'.splitlines(true)
        s.startswith('Hell'), s.endswith(('x', 'ld')), s.startswith('lo', 3)
        'abc'.startswith(1)
        s.upper(), s.lower(), 'straße'.upper(), 'ΑΣ'.lower(), 'ǆ'.title(), 'İ'.lower()|length
        'hello wORLD it\'s'.title(), 'hELLO'.capitalize(), 'ßa'.capitalize(), 'aBc'.swapcase()
        s.replace('l', 'L'), s.replace('l', 'L', 1), 'abc'.replace('', '-')
        s.find('o'), s.rfind('o'), s.find('zz'), s.index('W'), u.find('世'), u.rfind('😀'), s.find('o', 5), s.find('', 99)
        s.index('zz')
        s.count('l'), 'aaaa'.count('aa'), 'abc'.count('')
        ','.join(['a', 'b']), '-'.join('abc')
        ','.join([1])
        '12'.isdigit(), '²'.isdigit(), '²'.isdecimal(), 'a1'.isalnum(), 'é'.isalpha(), ''.isalpha(), ' '.isspace()
        'ab'.islower(), 'AB'.isupper(), 'Ab'.istitle(), 'a_1'.isidentifier(), '½'.isnumeric()
        '7'.zfill(3), '-7'.zfill(4), 'x'.center(5), 'x'.center(4, '*'), 'x'.ljust(3) ~ '|', 'x'.rjust(3)
        'a=b=c'.partition('='), 'a=b=c'.rpartition('='), 'abc'.partition('x')
        'prefix-x'.removeprefix('prefix-'), 'x.py'.removesuffix('.py')
        '{} {}'.format(1, 'a'), '{1} {0}'.format(1, 2), '{x}'.format(x=3), '{{}}'.format()
        '{:>5}|{:<5}|{:^5}|'.format('a', 'b', 'c'), '{:05d} {:+} {:,}'.format(42, 7, 1234567)
        '{:.2f} {:e} {:g} {:%}'.format(3.14159, 12345.678, 0.00001, 0.25)
        '{0[a]} {0.a}'.format(d), '{!r} {!s}'.format('a', 'b'), '{:{}}|'.format('x', 4)
        '{:x} {:#x} {:b} {:o} {:X} {:c}'.format(255, 255, 5, 8, 255, 65)
        '{:*^9}'.format('mid'), '{:08.3f}'.format(3.14159), '{:_}'.format(1234567), '{:.3}'.format('abcdef')
        '{:.3} {:.1} {:10}|'.format(2.5, 12.0, 2.5)
        '{'.format()
        '}'.format()
        '{}'.format()
        '{:d}'.format('a')
        'a\tb'.expandtabs(4), 'ß'.casefold(), 'abc'.isascii()
        'x'.nosuch
        'x'.nosuch()
        'x'.encode is callable
    """),
    "percent_format": exprs(r"""
        '%s and %s' % (1, 'a')
        '%d %5d|%-5d|%05d %+d' % (1, 2, 3, 4, 5)
        '%.2f %e %g %10.3f' % (3.14159, 12345.678, 0.0001, 2.5)
        '%x %X %o %#x' % (255, 255, 8, 255)
        '%(a)s %(b)s' % d
        '%s' % 'x'
        '%s' % [1, 2]
        '%r %%' % ('a',)
        '%c%c' % (65, 'b')
        '%*d' % (5, 42)
        '%5s|%-5s|%.2s' % ('a', 'b', 'cde')
        '%d' % 3.99
        '%d' % 'x'
        '%s %s' % (1,)
        '%s' % (1, 2)
        'x' % 1
        '%z' % 1
        '%s' % nosuch
        '%s %s'|format('a', 1), '%(x)s'|format(x=2)
    """),
    "text": exprs(r"""
        [1, 'a', "it's", 'q"q', none, true, 1.0, [2], {'k': 'v'}]
        {'a': 'x\n\t\\', 'b': '\x00\x7f\xa0\u200b'}
        'é世😀'|list
        d.c, d.keys(), d.values()|list|length
        range(3), range(1, 10, 2)
        namespace(a=1).a
        (1, 'x')|string, none|string, 1.50|string, true|string
        [nosuch]
        {}.items(), {}.keys()
        1.0, 100000.0, 1e100, -0.0, 1.1e-10
        u|length, u|upper, u|reverse
    """),
    "tests": exprs(r"""
        n is odd, n is even, 6 is divisibleby 3, 6 is divisibleby(4)
        nosuch is defined, n is defined, nosuch is undefined, n is not defined
        nil is none, n is none, nil is not none
        s is string, n is string, u is not string
        d is mapping, xs is mapping, xs is sequence, s is sequence, d is sequence, n is sequence, nosuch is sequence
        xs is iterable, s is iterable, n is iterable, d.items() is iterable, (xs|map('string')) is iterable
        n is number, f is number, b is number, s is number
        n is integer, b is integer, f is integer, f is float, n is float
        b is boolean, n is boolean, b is true, b is false, 1 is true
        range is callable, s is callable, s.upper is callable
        'abc' is lower, 'ABC' is upper, 'Abc' is lower, '1' is upper
        3 is eq 3, 3 is equalto(4), 3 is ne 4, 3 is lt 4, 3 is gt 4, 3 is ge 3, 3 is le 2
        3 is in [1, 2, 3], 'a' is in 'abc'
        nil is sameas none, b is sameas true
        'upper' is filter, 'nosuch' is filter, 'odd' is test
        not n is odd, n is not odd
        n is odd and f is float
        xs|length is eq 3
        nosuch is none, nosuch is string, nosuch is iterable
        'a' is odd
        s is escaped, (s|safe) is escaped
        1 is nosuchtest
    """),
    "sequence_filters": exprs(r"""
        xs|sort, xs|sort(reverse=true), names|sort, names|sort(case_sensitive=true)
        users|sort(attribute='age,name')|map(attribute='name')|list, users|sort(attribute='city.zip')|map(attribute='name')|list
        xs|first, xs|last, []|first is defined, ''|last is defined, 'abc'|first, 'abc'|last
        xs|length, d|count, s|length
        xs|join, xs|join(', '), users|join('-', attribute='name'), [none, 1.5]|join('|')
        xs|map('string')|list, names|map('upper')|join(','), users|map(attribute='city.zip')|list
        users|map(attribute='nosuch', default='?')|list, names|map('replace', 'a', 'b')|list
        xs|select('odd')|list, xs|reject('odd')|list, [0, 1, '', 'a']|select|list, [0, 1]|reject|list
        users|selectattr('age', 'eq', 30)|map(attribute='name')|list, users|rejectattr('age', 'gt', 26)|map(attribute='name')|list
        users|selectattr('nosuch')|list, users|selectattr('name', 'in', ['Ann'])|list|length
        users|selectattr('nosuch', 'defined')|list
        xs|sum, users|sum(attribute='age'), xs|sum(start=10), [[1], [2]]|sum(start=[])
        xs|max, xs|min, names|max, names|min(case_sensitive=true), []|max is defined, users|max(attribute='age')
        names|unique|list, names|unique(case_sensitive=true)|list, [1, 1.0, true, 2]|unique|list
        xs|reverse|list, 'abc'|reverse, (1, 2)|reverse|list, d|reverse|list
        range(7)|batch(3)|list, range(7)|batch(3, 'x')|list, range(7)|slice(3)|list, range(7)|slice(3, 'x')|list
        d|dictsort, {'b': 1, 'A': 2}|dictsort, {'b': 1, 'A': 2}|dictsort(true), {'b': 1, 'A': 2}|dictsort(by='value'), {'b': 1, 'A': 2}|dictsort(reverse=true)
        users|groupby('age'), users|groupby('city.zip')|map(attribute='list')|map('length')|list
        (users|groupby('age'))[0].grouper, (users|groupby('nosuch', default=1))[0].list|length
        d|items|list|length, nosuch|items|list
        xs|items|list
        xs|list, 'ab'|list, d|list, nosuch|list
        n|list
        none|length
        (xs|map('string'))|length
        (xs|select)[0]
        xs|map('nosuchfilter')|list
        xs|map|list
        [1, 'a']|sort
        [1, none]|max
        ['a']|sum
        [{}]|unique|list
        xs|tojson, (xs|map('string'))|tojson
        nosuch|join(','), nosuch|length, nosuch|first is defined
        none|join(',')
        (1, 2)|join('-'), {'a': 1, 'b': 2}|join(',')
        xs|batch
        {'b': 1}|dictsort(by='x')
    """),
    "string_filters": exprs(r"""
        s|upper, s|lower, 'hello world-foo (bar)'|title, "it's o'neil"|title, 'hELLO'|capitalize
        '  x '|trim, 'xxaxx'|trim('x'), none|trim, 12|trim
        s|replace('l', 'L'), s|replace('l', 'L', 1), 123|replace(2, 9)
        'a\nb\n\nc'|indent, 'a\nb'|indent(2), 'a\nb'|indent(2, true), 'a\n\nb'|indent(2, blank=true), 'a\nb'|indent('> '), ''|indent
        'a\n'|indent(2) ~ '|'
        none|indent
        'x'|center(7), 'ab'|center(7)
        ('word ' * 20)|truncate(20), ('word ' * 20)|truncate(20, true), ('word ' * 20)|truncate(20, false, '~'), 'short'|truncate(4), 'longer text'|truncate(5, leeway=0)
        'the quick brown fox jumps'|wordwrap(10), 'abcdefghij'|wordwrap(4), 'a-b well-known fact'|wordwrap(7), 'one\ntwo'|wordwrap(5)
        'the quick'|wordcount, ''|wordcount, "it's a"|wordcount
        '<a href="x">T\'s &amp;</a>'|escape, '<b>'|e, '<b>'|safe, '<b>'|e|e, '<b>'|e|forceescape
        ('<b>'|e) + '<i>', '<i>' + ('<b>'|safe), ('<b>'|safe) ~ '<i>'
        '<p>a <!-- c --> <b>b</b>\n c &lt;</p>'|striptags
        'a b/c?d=é&'|urlencode, {'a b': 'c/d', 'x': 1}|urlencode, [('k', 'v w')]|urlencode
        {'class': 'a', 'id': none, 'x': '<1>'}|xmlattr, {'a': 1}|xmlattr(false)
        {'a b': 1}|xmlattr
        none|string, none|upper, 5|lower
        s|string is string
        'x'|nosuchfilter
        'äöü'|capitalize, 'ñandú'|title
    """),
    "value_filters": exprs(r"""
        -3|abs, -2.5|abs, (-3)|abs, true|abs
        nosuch|default('x'), ''|default('x'), ''|default('x', true), nil|default('x'), nil|d('x', boolean=true), nosuch|default
        d.nosuch|default('y'), d.a|default('y')
        nosuch.x|default('y')
        '42'|int, ' 42 '|int, '4.7'|int, 'x'|int, 'x'|int(7), '0x1F'|int(base=16), 3.99|int, none|int, '1_000'|int, true|int, '1e3'|int, [1]|int(3)
        '3.5'|float, 'x'|float, 'x'|float(1.5), 3|float, '1e3'|float, 'inf'|float, none|float, '1_0.5'|float
        2.5|round, 3.5|round, 2.567|round(2), 2.567|round(1, 'floor'), 2.1|round(0, 'ceil'), 42|round, 1234|round(-2), -2.5|round, 2.675|round(2)
        1|filesizeformat, 999|filesizeformat, 1000|filesizeformat, 1500000|filesizeformat, 2048|filesizeformat(true)
        d|attr('a') is defined, s|attr('upper') is defined, d|attr('keys') is defined
        nosuch|int
        'a'|round
        'a'|abs
        1|round(0, 'x')
        d|pprint, [1, 2]|pprint, 'x'|pprint
        {'long_key_number_one': 'some value that is long', 'another_key': ['x' * 30, 'y' * 30]}|pprint
    """),
    "tojson": exprs(r"""
        d|tojson
        [1, 1.0, 1e-5, 1e16, 250.0, true, false, none, 'é世😀', '<&>\'"\\/', '\n\t\x01\x7f\u2028']|tojson
        d|tojson(indent=2)
        d|tojson(indent=4, sort_keys=true)
        {'b': 1, 'a': 2}|tojson(sort_keys=true)
        {'a': [1, 2]}|tojson(separators=(',', ':'))
        'é😀'|tojson(ensure_ascii=true)
        {1: 'a', none: 'b', true: 'c', 2.5: 'd'}|tojson
        []|tojson(indent=2), {}|tojson(indent=2), [[]]|tojson(indent=1)
        (1, 2)|tojson
        [1, [2, {'a': []}]]|tojson(indent='--')
        [1]|tojson(indent=0)
        {(1, 2): 3}|tojson
        nosuch|tojson
        range(3)|tojson
        d.items()|tojson
        namespace(a=1)|tojson
        {1: 2, 'a': 3}|tojson(sort_keys=true)
        12345678901234567890|tojson
        xs|tojson(nosuch=1)
        'x'|safe|tojson
    """),
    "globals": exprs(r"""
        range(3)|list, range(1, 4)|list, range(5, 0, -2)|list, range(0)|list, range(-3)|list
        range(100001)
        range(0, 10, 0)
        range('a')
        dict(a=1, b=2), dict({'x': 1}, y=2), dict([('k', 'v')])
        dict(1)
        strftime_now('%Y-%m-%d %H:%M:%S'), strftime_now('%d %b %Y'), strftime_now('%A %a %B %j %U %W %w %u %p %I %y')
        strftime_now('%-d/%-m %e %D %F %T %R %f %% %c %x %X %G-%V %h %n%t|%z%Z|')
        strftime_now('é %Y')
        raise_exception('stop: ' ~ n)
        raise_exception(none)
        joiner is callable, cycler is callable
        range(3) == range(3), range(2)[5] is defined
        nosuchfunction(1)
        namespace(_a=1)
        n()
    """) + [
        "{% set j = joiner('; ') %}{% for x in xs %}{{ j() }}{{ x }}{% endfor %}",
        "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set _ = c.reset() %}{{ c.next() }}",
        "{{ messages }}{{ tools }}{{ documents }}{{ add_generation_prompt }}",
    ],
    "if_for": [
        "{% if n > 10 %}big{% elif n > 5 %}mid{% else %}small{% endif %}",
        "{% if nosuch %}x{% endif %}{% if not nosuch %}y{% endif %}",
        "{% for x in xs %}{{ loop.index }}/{{ loop.length }}:{{ x }}{% if not loop.last %},{% endif %}{% endfor %}",
        "{% for x in xs %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }} {% endfor %}",
        "{% for x in [] %}x{% else %}empty{% endfor %}", "{% for x in nosuch %}x{% else %}none{% endfor %}",
        "{% for x in none %}x{% endfor %}", "{% for x in 5 %}x{% endfor %}",
        "{% for k, v in d.c.items() %}{{ k }}={{ v }}{% endfor %}", "{% for k in d %}{{ k }} {% endfor %}",
        "{% for a, b in [(1, 2), [3, 4], 'xy'] %}{{ a }}{{ b }} {% endfor %}",
        "{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}", "{% for a, b in [(1,)] %}{{ a }}{% endfor %}",
        "{% for a, b in [1] %}{{ a }}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
        "{% for x in xs if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% endfor %}",
        "{% for x in xs if x > 9 %}x{% else %}none{% endfor %}",
        "{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
        "{% for x in [1, 1, 2] %}{{ loop.changed(x) }} {% endfor %}", "{% for x in xs %}{{ loop.cycle('a', 'b') }}{% endfor %}",
        "{% for x in xs %}{% for y in xs %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}",
        "{% for x in xs %}{% set outer = loop %}{% for y in [1] %}{{ outer.index }}{% endfor %}{% endfor %}",
        "{% for t in [{'v': 1, 'c': [{'v': 2, 'c': []}]}] recursive %}{{ t.v }}@{{ loop.depth }}[{{ loop(t.c) }}]{% endfor %}",
        "{% for x in xs %}{{ loop(xs) }}{% endfor %}",
        "{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
        "{% for x in xs %}{% break %}{% else %}else{% endfor %}", "{% for x in xs %}{% continue %}{% else %}else{% endfor %}",
        "{% for x in xs %}{% set n = x %}{{ n }}{% endfor %}{{ n }}", "{% set y = 0 %}{% for x in xs %}{% set y = y + x %}{{ y }} {% endfor %}{{ y }}",
        "{% set ns = namespace(t=0) %}{% for x in xs %}{% set ns.t = ns.t + x %}{% endfor %}{{ ns.t }}",
        "{% for x in 'añ😀' %}{{ x }}|{% endfor %}", "{% for x in xs|map('string') %}{{ loop.last }}{{ x }} {% endfor %}",
        "{% for x in xs|select('odd') %}{{ loop.length }}{{ x }} {% endfor %}", "{% for x in xs %}{{ x }}{% endfor %}{{ x }}",
        "{% for x in xs %}{% if loop.first %}{% set q = 1 %}{% endif %}{{ q }}{% endfor %}",
        "{% set ns = namespace(seen=[]) %}{% for x in [1, 2, 1] if x not in ns.seen %}{% set ns.seen = ns.seen + [x] %}{{ x }}{% endfor %}",
        "{% for loop in xs %}{% endfor %}", "{{ loop }}", "{% for x in xs %}{{ loop }}{% endfor %}",
        "{% if true %}{% set z = 5 %}{% endif %}{{ z }}", "{% if false %}{% set z = 5 %}{% endif %}{{ z }}|{{ z is defined }}",
        "{% if false %}{% set n = 5 %}{% endif %}{{ n }}", "{% if false %}{{ 1|nosuchfilter }}{% endif %}ok", "{% if true %}{{ 1|nosuchfilter }}{% endif %}",
        "{% if false %}{% for x in xs %}{{ x|nosuchfilter }}{% endfor %}{% endif %}ok",
        "{% set g = xs|map('string') %}{{ g|list }}{{ g|list }}", "{% for x in xs recursive %}{{ x }}{% else %}none{% endfor %}",
    ],
    "set_macro": [
        "{% set a = 1 %}{{ a }}{% set a = a + 1 %}{{ a }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = [1] %}",
        "{% set x %}block {{ n }}{% endset %}[{{ x }}]", "{% set x | upper | trim %} block {% endset %}[{{ x }}]",
        "{% set n %}[{{ n }}]{% endset %}{{ n }}", "{{ n }}{% set n %}[{{ n }}]{% endset %}{{ n }}",
        "{% set ns = namespace(a=1, b='x') %}{% set ns.a = 5 %}{{ ns.a }}{{ ns.b }}{{ ns.nosuch is defined }}",
        "{% set ns = namespace({'k': 1}) %}{{ ns.k }}{{ ns['k'] }}", "{% set ns = namespace() %}{% set ns.x, ns.y = 1, 2 %}{{ ns.x + ns.y }}",
        "{% set d.a = 1 %}", "{% set nosuch.a = 1 %}", "{% set ns = namespace() %}{% set ns._x = 1 %}",
        "{% set ns = namespace() %}{% set ns.v %}text{% endset %}{{ ns.v }}",
        "{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=5, a=4) }} {{ m() }}",
        "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(x=2) }}",
        "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, k=3) }}",
        "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}", "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}",
        "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}body {{ n }}{% endcall %}",
        "{% macro m(x) %}{% for i in x %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(i) m(xs) %}[{{ i }}]{% endcall %}",
        "{% macro m() %}{{ caller }}{% endmacro %}{{ m() }}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
        "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}",
        "{% macro f(k) %}{% if k > 0 %}{{ k }}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
        "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
        "{% set v = 1 %}{% macro m() %}{{ v }}{% endmacro %}{% set v = 2 %}{{ m() }}",
        "{% macro m() %}{% set v = 9 %}{{ v }}{% endmacro %}{{ m() }}{{ v }}", "{% macro m() %}{{ n }}{% endmacro %}{% for n in xs %}{{ m() }}{% endfor %}",
        "{% for x in xs %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}",
        "{% macro m(a, b) %}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.caller }}", "{% macro m() %}{% endmacro %}{{ m }}",
        "{% macro m() %} x {% endmacro %}{{ m()|trim }}{{ m() is string }}", "{% macro m(messages) %}{{ messages }}{% endmacro %}{{ m(1) }}",
        "{{ m() }}{% macro m() %}{% endmacro %}", "{% macro m(*a) %}{% endmacro %}",
        "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'b': 4}) }}",
        "{% filter upper %}abc {{ n }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}abc{% endfilter %}",
        "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}",
        "{% with n = 1, m = n %}{{ n }}{{ m }}{% endwith %}", "{% generation %}gen {{ n }}{% endgeneration %}",
        "{% generation %}{% set q = 1 %}{% endgeneration %}{{ q is defined }}", "{% print n, s %}",
        "{% for x in xs %}{% filter upper %}{% if x == 1 %}{% break %}{% endif %}a{{ x }}{% endfilter %}{% endfor %}",
    ],
    "syntax_errors": [
        "{% if %}", "{% if x %}", "{% endif %}", "{% for x xs %}{% endfor %}", "{{ x", "{{ }}", "{{ 1 + }}", "{{ (1 }}", "{{ 1) }}", "{{ [1, }}",
        "{% nosuch %}", "{% for x in xs %}{% endif %}", "{% set 1 = 2 %}", "{% set x = %}", "{{ x. }}", "{{ x| }}", "{{ x is }}", "{{ 'a }}",
        "{{ f(a=1, 2) }}", "{{ f(a=1, a=2) }}", "{% macro m(a=1, b) %}{% endmacro %}", "{% break %}", "{# open", "{% raw %}x",
        "{{ a b }}", "{{ {'a' 1} }}", "{{ $ }}", "{% include 'x' %}", "{% extends 'x' %}", "{{ 1 is odd is even }}", "{{ not }}", "{% call x %}{% endcall %}",
        "{{ x|nosuchfilter }}", "{{ x is nosuchtest }}", "{% for x in xs %}{% set loop = 1 %}{% endfor %}", "{{ '\\x4' }}", "{{ a if }}", "{% if x %}{% else %}{% else %}{% endif %}",
    ],
}
