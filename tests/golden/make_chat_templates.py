"""Writes tests/golden/chat_templates.json: short templates that use each part of Jinja which chat templates use, with what
transformers' own environment makes of them (null: it refuses), and the characters that generation blocks wrote.

Needs: pip install transformers jinja2 (5.24, 3.1.6).
usage: python3 make_chat_templates.py
"""
import json
import pathlib

from transformers.utils import chat_template_utils

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "  What is \"2 + 2\"?\nÜber {x} {{ y }} 日本😀 "},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nIt's 4.", "tool_calls": [
        {"id": "abc", "type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": [1.5, None, True, "é\u2028\x01"], "C": {}}}}]},
    {"role": "tool", "content": [{"type": "text", "text": "4"}, {"type": "image"}], "tool_call_id": "abc"},
]
TOOLS = [{"type": "function", "function": {"name": "add", "description": "Adds", "parameters": {"type": "object", "properties": {}}}}]
VALUES = {"n": 7, "f": 2.5, "big": 1e40, "word": "hello world", "odd": "a,b,,c", "items": [3, 1, 2], "map": {"b": 1, "A": 2, "items": 5},
          "rows": [{"k": "x", "v": 1, "in": {"d": [10, 20]}}, {"k": "Y", "v": 2}, {"v": 3}], "nothing": None, "yes": True, "empty": [], "neg": -7}

EXPRESSIONS = """
n + 1, n - 10, n * 2, n / 2, n // 2, neg // 2, n % 4, neg % 4, n ** 2, 2 ** -1, -n ** 2, f * 2, 7.0 // 2, -7.5 % 2
1 + 2 * 3 - 4, (1 + 2) * 3, 'a' ~ 1 ~ none ~ true ~ [1], 'a' 'b' "c", 'x' * 3, [1] * 2, [1] + [2], (1,) + (2, 3), 1 < 2 < 3, 1 < 3 < 2
true and 0, false or 'x', not n, not nothing, none == false, 1 == true, 1.0 == 1, '1' == 1, [1] == [1], {'a': 1} == {'a': 1.0}, missing == nope
'b' in map, 'items' in map, 2 in items, 9 not in items, 'lo' in word, 'x' in missing, [] in [[]]
'x' if n > 3 else 'y', 'x' if n > 9, ('x' if n > 9) is defined, 1 if false else 2 if false else 3
[1, 'a', none, true, 2.0, {'k': 'v', 1: 2}, (1,), (), [], {}], {'a': "it's", 'b': 'q"', 'c': '\\\\ \\n \\t é'}, 'it\\'s "q"', f, big, 1e16, 1e15, 1e-5, 0.1 + 0.2, 100.0
word[0], word[-1], word[1:4], word[::-1], word[:-6], word[100], word[2:100], items[0], items[-1], items[5], items[::2], items[1:], items[-2:], items[::-1], map['b'], map['nope'], (1, 2, 3)[1:], items[true]
map.b, map.items is callable, map['items'], map.nope, map.nope is undefined, nothing.x is defined, word.x is defined, n.x is defined, rows[0].in.d[1], rows.0.k
map.keys()|list, map.values()|list, map.items()|list, map.get('b'), map.get('z'), map.get('z', 3), map|items|list, map.copy()
word.upper(), word.title(), word.capitalize(), 'ABC'.lower(), ' a '.strip() ~ '|', 'xxaxx'.strip('x'), ' a'.lstrip(), 'a '.rstrip() ~ '|', word.split(), odd.split(','), odd.split(',', 1), ' a  b '.split(), odd.rsplit(',', 1), ' a b c '.split(none, 1), 'a\\nb\\r\\nc'.splitlines()
word.startswith('he'), word.startswith(('x', 'h')), word.endswith('ld'), word.replace('l', 'L'), word.replace('l', 'L', 1), word.replace('', '-'), word.find('o'), word.rfind('o'), word.find('z'), word.count('o'), 'é日'.find('日'), ','.join(['a', 'b']), word.partition(' '), word.rpartition('o'), word.removeprefix('he'), word.removesuffix('x')
'5'.isdigit(), 'a5'.isalnum(), 'ab'.isalpha(), ' '.isspace(), 'AB'.isupper(), 'Ab'.islower(), '7'.zfill(3), '-7'.zfill(4), 'a'.ljust(3) ~ '|', 'a'.rjust(3), 'ab'.center(5) ~ '|', 'abc'.center(6, '*'), '{} {0}'.format(1), '{} and {}'.format(1, 'x'), '{a}{{}}'.format(a=2), 'a-b'.index('-'), items.index(1), items.count(3)
word|upper, 'ABC'|lower, word|capitalize, "it's a-b"|title, ' x '|trim, 'xax'|trim('x'), missing|trim, n|string, word|length, items|count, map|length, missing|length, 'é日😀'|length, word|reverse, items|reverse|list, word|list, missing|list
missing|default('d'), ''|default('d'), ''|default('d', true), nothing|d('x'), missing|default, items|join, items|join(', '), rows|join('-', attribute='v'), items|first, items|last, empty|first, word|first, empty|last is defined
rows|map(attribute='v')|list, rows|map(attribute='k', default='-')|list, rows|map(attribute='in.d.0')|list, ['a', 'b']|map('upper')|list, ['a']|map('replace', 'a', 'z')|list, items|map('string')|join('+'), nothing|map('upper')|list
rows|selectattr('k')|map(attribute='v')|list, rows|selectattr('v', 'gt', 1)|map(attribute='v')|list, rows|rejectattr('k', 'defined')|list, rows|selectattr('k', 'equalto', 'x')|list|length, items|select('odd')|list, items|reject('==', 1)|list, [0, 1, '']|select|list, rows|selectattr('v', 'in', [1, 3])|map(attribute='v')|list, nothing|selectattr('x')|list
items|sort, items|sort(reverse=true), ['b', 'A', 'c']|sort, ['b', 'A']|sort(case_sensitive=true), rows|sort(attribute='v', reverse=true)|map(attribute='v')|list, map|dictsort, map|dictsort(true), map|dictsort(false, 'value', true), ['a', 'A', 'b']|unique|list, items|min, items|max, items|sum, rows|sum(attribute='v'), ['a', 'B']|max
'12'|int, ' 3 '|int, 'x'|int, 'x'|int(5), '3.7'|int, 2.9|int, '2.5'|float, 'x'|float, neg|abs, 2.567|round(1), 2.5|round, 3.5|round, 2.1|round(0, 'ceil'), 2.567|round(2, 'floor'), 7|round, true|int
'a\\nb\\n\\nc'|indent, 'a\\nb'|indent(2, true), 'a\\n\\nb'|indent(2, false, true), 'a\\nb'|indent('> '), word|replace('o', '0'), '%s=%d'|format('a', 3), '%s' % 'x', '%s %s' % (1, none), '%.2f|%5d|%%' % (f, n), '%r' % ['é']
map|tojson, rows|tojson, [1.0, 1e20, 1e-7, none, true, 'é\\u2028<&>', '\\x01\\x7f"\\\\']|tojson, {'é': 1}|tojson(ensure_ascii=true), '😀'|tojson(true), {'b': [], 'a': {}, 'c': [1, {'d': 2}]}|tojson(indent=2), map|tojson(sort_keys=true), items|tojson(separators=(',', ':')), {1: 2, none: 3, true: 4, 1.5: 5}|tojson, (1, 2)|tojson, items|tojson(indent=0)
n is odd, 4 is even, 9 is divisibleby 3, 9 is divisibleby(3), n is number, f is float, n is integer, true is integer, true is number, word is string, map is mapping, items is iterable, n is iterable, word is sequence, map is sequence, items is sequence, missing is sequence, range(3) is sequence, rows|map('string') is sequence, rows|map('string') is iterable
missing is defined, n is defined, nothing is none, n is not none, nothing is not defined, yes is boolean, yes is true, yes is false, word is lower, 'AB' is upper, word is in ['hello world'], 1 is sameas 1, none is sameas none, n is eq 7, n is ge(7), 'trim' is filter, 'nope' is filter, 'odd' is test, range is callable, namespace is defined, strftime_now is defined
range(3)|list, range(1, 4)|list, range(5, 0, -2)|list, range(0)|list, dict(a=1, b='x'), dict([('k', 1)]), dict({'a': 1}, b=2), namespace(a=1).a, strftime_now is callable, range(10)[2:4]|list, range(3)|length
0x10, 1_000, 10 // 3 * 3, '\\u00e9\\x41\\101\\q', 'a\\
b', 3.0e2, 1.5 == 3 / 2, -5 // 2, 2 - -1, +n, - 3|abs, (-3)|abs
word | upper | replace('L', 'l') | trim, (items|first) + 1, items | map('string') | list | first, (rows|selectattr('k', 'defined')|list)[0].k, n is odd and f is float, not n is odd, n in items or 3 in items
""".strip().replace("a\\\nb", "a\\\x00b").split("\n")

TEMPLATES = [
    "{% for m in messages %}{{ loop.index }}/{{ loop.length }} {{ loop.first }} {{ loop.last }} {{ loop.revindex }} {{ loop.revindex0 }} {{ m.role }} {{ loop.previtem.role if not loop.first }} {{ loop.nextitem is defined }};{% endfor %}",
    "{% for a in items %}{% for b in items if b > a %}{{ a }}{{ b }}{{ loop.length }}{{ loop.depth }} {% else %}none {% endfor %}{{ loop.cycle('x', 'y') }}{{ loop.changed(a > 1) }}{% endfor %}",
    "{% for k, v in map.items() %}{{ k }}={{ v }},{% endfor %}{% for (a, b), c in [((1, 2), 3)] %}{{ a + b + c }}{% endfor %}{% for c in 'aé' %}[{{ c }}]{% endfor %}{% for x in missing %}x{% else %}else{% endfor %}",
    "{% for i in range(6) %}{% if i == 1 %}{% continue %}{% elif i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% set x = 1 %}{% for i in items %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}{% if yes %}{% set x = 9 %}{% endif %}{{ x }}",
    "{% set ns = namespace(a=0, b=[]) %}{% for i in items %}{% set ns.a = ns.a + i %}{% set ns.b = ns.b + [i] %}{% endfor %}{{ ns.a }} {{ ns.b }} {{ ns.zz is defined }}",
    "{% set a, b = 1, (2, 3) %}{{ a }} {{ b }}{% set c %}  in {{ a }}{% set a = 5 %} block{% endset %}|{{ c }}|{{ a }}{% set d | upper | trim %} x {% endset %}{{ d }}",
    "{% macro f(a, b=2, c=none) %}{{ a }}-{{ b }}-{{ c }}{% if a > 0 %}>{{ f(a - 1, c=b) }}{% endif %}{% endmacro %}{{ f(2) }} {{ f(0, 'x') }} {{ f(b=1, a=0) }} {{ f(*[0, 5], **{'c': 6}) }}",
    "{% macro f() %}{{ varargs }}{{ kwargs }}{{ caller is defined }}{% endmacro %}{{ f(1, 2, x=3) }}{% macro g(x) %}<{{ caller(x) }}>{% endmacro %}{% call(y) g(4) %}{{ y }}!{% endcall %}{% call f() %}{% endcall %}",
    "{% macro f(a) %}{{ a is defined }}{{ late }}{% endmacro %}{% set late = 'L' %}{{ f() }}{% set late = 'M' %}{{ f(1) }}{{ f.name }}",
    "{% set ms = [f] %}{% macro g(x) %}{{ x }}{% endmacro %}{% set ms = [g, g] %}{% for m in ms %}{{ m(loop.index) }}{% endfor %}{{ g(1) | int + 1 }}",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% set q = 3 %}{% endwith %}{{ a is defined }}{{ q is defined }}{% filter upper | replace('X', 'z') %}x{{ n }}y{% endfilter %}{% print n, 2 %}",
    "a\n{% if yes %}\n  b\n{% endif %}\nc\n  {% if yes %}d{% endif %}  \n e{{ n }}\n{# x #}\nf  {#- y -#}  g\n{%- if yes -%}\n h \n{%- endif -%}\n i {{- n -}} j\n{{ n }}\n\n",
    "  {%+ if yes %}x{% endif +%}\ny{% raw %} {{ n }} {% if %} {% endraw %}\nz {%- raw -%}  q  {%- endraw -%} r",
    "{% if yes -%}\n\n   x\n   {%- else -%} y {%- endif %}\n\n  {% set a = 1 %}  \nb\r\nc\rd{{ 'e\r\nf' }}",
    "{% if n > 9 %}a{% elif n > 5 %}b{% else %}c{% endif %}{% if missing %}x{% elif nothing %}y{% endif %}{% if items %}z{% endif %}{% if rows|selectattr('nope') %}generator{% endif %}",
    "{% set it = rows|map(attribute='v') %}{{ it|list }}{{ it|list }}{% set it = rows|map(attribute='v') %}{{ it|first }}{{ it|list }}",
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}<a>{% generation %}{{ m.content }}é{% set q = 1 %}<e>{% endgeneration %}{{ q is defined }}\n{% else %}<{{ m['role'] }}>{{ m['content'] if m['content'] is string else m.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join('') }}{% endif %}{% endfor %}",
    "{%- for m in messages %}{%- if m.tool_calls is defined and m.tool_calls %}{%- for t in m.tool_calls %}{%- set t = t.function %}{{ t.name }}{{ t.arguments | tojson }}{{ t.arguments | tojson(indent=4) }}{%- endfor %}{%- endif %}{%- endfor %}{{ tools | tojson }}",
    "{{ messages[2].content.split('</think>')[-1].lstrip('\n') }}{{ messages[2].content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') }}{{ messages[1:][0].content | trim }}{{ messages[::-1][0].role }}",
    "{{ messages }}", "{{ tools }}{{ documents is none }}{{ add_generation_prompt }}", "{{ strftime_now('%d %b %Y %H:%M %A %j') }}",
    "{% for i in 'ab' recursive %}{{ i }}{% endfor %}" if False else "{{ none }}{{ true }}{{ missing }}{{ [missing] }}", "{{ word % () }}", "{{ '' if missing else '-' }}{{ missing ~ 'x' }}",
    # refused
    "{{ raise_exception('no ' ~ n) }}", "{{ missing.x }}", "{{ missing['x'] }}", "{{ missing() }}", "{{ missing + 'a' }}", "{{ 'a' + 1 }}", "{{ 1 + 'a' }}", "{{ none + 'a' }}", "{{ [1] + (2,) }}", "{{ 1 / 0 }}", "{{ 5 % 0 }}",
    "{{ 'a' < 1 }}", "{{ none < 1 }}", "{{ 1 in 5 }}", "{{ 1 in 'a' }}", "{{ 1 in none }}", "{% for x in none %}{% endfor %}", "{% for x in 5 %}{% endfor %}", "{% for a, b in [(1,)] %}{% endfor %}", "{{ items.append(1) }}", "{{ map.update({}) }}", "{{ map.pop('b') }}",
    "{{ n() }}", "{{ missing|tojson }}", "{{ rows|map('string')|tojson }}", "{{ rows|map('string')|length }}", "{{ 5|length }}", "{{ range(100001) }}", "{{ 'a'.nope() }}", "{{ 'a'|nope }}", "{{ 1 is nope }}", "{% set map.x = 1 %}", "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}{% endmacro %}{{ f(b=2) }}", "{{ word.__class__.x }}", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{{ items|join(1, 2, 3) }}", "{{ -missing }}", "{{ items|sum(start='a') }}", "{{ [1, 'a']|sort }}",
    # no template
    "{% if %}", "{% if n %}", "{% endif %}", "{% for x %}", "{% nope %}", "{{ n", "{{ }}", "{{ n } }}", "{{ (n }}", "{{ [1, }}", "{# n", "{% raw %} x", "{{ 'a }}", "{% set 1 = 2 %}", "{% set %}", "{{ n ! }}", "{% macro f(a=1, b) %}{% endmacro %}", "{% break %}", "{{ f(a=1, 2) }}",
    "{% for loop in items %}{{ loop }}{% endfor %}", "{{ n is odd is even }}", "{% set true = 1 %}", "{% generation %}", "{{ 1.2.3 }}", "{{ n. }}", "{% else %}", "{% call n %}{% endcall %}", "{{ a b }}", "{% if n %}{% endfor %}",
]


def split(line):
    """At the commas outside of brackets and quotes."""
    parts, depth, quote, part, at = [], 0, "", "", 0
    while at < len(line):
        c = line[at]
        if quote:
            if c == "\\":
                part, at = part + c, at + 1
                c = line[at]
            elif c == quote:
                quote = ""
        elif c in "'\"":
            quote = c
        else:
            depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth and not quote:
            parts.append(part)
            part = ""
        else:
            part += c
        at += 1
    return [one.strip() for one in [*parts, part]]


class Fixed(chat_template_utils.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


def made(template):
    try:
        compiled = chat_template_utils._compile_jinja_template(template)
        return chat_template_utils._render_with_assistant_indices(compiled, MESSAGES, TOOLS, None, False, bos_token="<s>", **VALUES)
    except Exception:
        return None, []


def main():
    chat_template_utils.datetime = Fixed
    cases = []
    for template in ["{{ " + one.replace("\x00", "\n") + " }}" for line in EXPRESSIONS for one in split(line)] + TEMPLATES:
        text, spans = made(template)
        cases.append({"template": template, "text": text, **({"generated": spans} if spans else {})})
    out = pathlib.Path(__file__).with_name("chat_templates.json")
    head = {"messages": MESSAGES, "tools": TOOLS, "values": VALUES}
    body = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    out.write_text(json.dumps(head, ensure_ascii=False)[:-1] + ',\n"cases": [\n' + body + "\n]}\n")
    print(len(cases), "templates,", sum(case["text"] is None for case in cases), "refused")


main()
