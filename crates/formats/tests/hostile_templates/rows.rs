//! The templates, one a row, and what comes of each.

pub struct Row {
    pub name: &'static str,
    pub source: String,
    /// What the sentence holds.
    pub expected: &'static str,
}

const MUCH: &str = "makes far more of this conversation than it can need";
const LONG: &str = "does not come to an end";
const DEEP: &str = "its values nest too deeply";
const PART: &str = "cannot be put into another value";
const WIDE: &str = "is the largest width";

/// A text that grows with each turn of a loop, until more than the budget would be needed.
fn grows(step: &str) -> String {
    format!(
        "{{% macro pair(x) %}}{{{{ x }}}}{{{{ x }}}}{{% endmacro %}}{{% macro around() %}}{{{{ caller() }}}}{{{{ caller() }}}}{{% endmacro %}}\
         {{% set ns = namespace(x='a<%é\\n\\\\', l=['a'], t=('a',), d={{'a': 1}}) %}}{{% for i in range(2000) %}}{step}{{% endfor %}}{{{{ ns.x|length }}}}"
    )
}

/// Values inside each other, as deep as there are turns.
fn nests(step: &str) -> String {
    format!("{{% set ns = namespace(x='a') %}}{{% for i in range(90000) %}}{step}{{% endfor %}}done")
}

/// A value whose parts are the same ones, so that going through it takes far longer than making it, and what is done to it.
fn shared(use_of_it: &str) -> String {
    format!(
        "{{% set ns = namespace(x=['a'], y=['a']) %}}{{% for i in range(60) %}}{{% set ns.x = [ns.x, ns.x] %}}\
         {{% set ns.y = [ns.y, ns.y] %}}{{% endfor %}}{use_of_it}"
    )
}

/// Something done again and again with large texts that are equal.
fn again(what: &str) -> String {
    format!(
        "{{% set big = 'ab' * 2000000 %}}{{% set big2 = 'ab' * 2000000 %}}{{% set many = [big, big2] * 50 %}}\
         {{% for i in range(99999) %}}{{% set r = {what} %}}{{% endfor %}}"
    )
}

/// Something around something, many times.
fn around(open: &str, inside: &str, close: &str, times: usize) -> String {
    format!("{}{inside}{}", open.repeat(times), close.repeat(times))
}

pub fn rows() -> Vec<Row> {
    let row = |name: &'static str, source: String, expected: &'static str| Row { name, source, expected };
    let plain = |name: &'static str, source: &str, expected: &'static str| row(name, source.to_owned(), expected);
    let deep = 100_000;
    vec![
        // Large at once.
        plain("a slice into many", "{{ []|slice(10**12)|list }}", MUCH),
        plain("a batch filled up", "{{ [1]|batch(10**12, 'x')|list }}", MUCH),
        plain(
            "a batch filled up by name",
            "{{ [1]|batch(10**12, fill_with='x')|list }}",
            MUCH,
        ),
        plain("a width of printf", "{{ '%1000000000000d'|format(1) }}", WIDE),
        plain("a precision of printf", "{{ '%.1000000000000f'|format(1.5) }}", WIDE),
        plain("a width after a percent sign", "{{ '%99999999999s' % 'a' }}", WIDE),
        plain("a width of format", "{{ '{:1000000000000}'.format(1) }}", WIDE),
        plain("a precision of format", "{{ '{:.999999999f}'.format(1.5) }}", WIDE),
        plain("a share in format", "{{ '{:.999999999%}'.format(1.5) }}", WIDE),
        plain("many widths", "{{ ('%9999d' * 99999)|format(*([1] * 99999)) }}", MUCH),
        plain("many fields", "{{ ('{0:>9999}' * 99999).format(1) }}", MUCH),
        plain("an indent", "{{ 'a\nb'|indent(10**18) }}", "rendered 1003 bytes"),
        plain(
            "an indent of many lines",
            "{{ ('\n' * 1000000)|indent(1000, true, true) }}",
            MUCH,
        ),
        plain("an indent of JSON", "{{ [[[[1]]]]|tojson(indent=10**18) }}", "rendered"),
        plain(
            "a long indent of JSON",
            "{{ ([[[[1]]]] * 1000)|tojson(indent='x' * 100000) }}",
            MUCH,
        ),
        plain(
            "long separators of JSON",
            "{{ ([1] * 100000)|tojson(separators=('x' * 100000, 'y')) }}",
            MUCH,
        ),
        plain("a repeated text", "{{ 'x' * 10**10 }}", MUCH),
        plain("a repeated text from the right", "{{ 10**10 * 'x' }}", MUCH),
        plain("a repeated list", "{{ [0] * 10**10 }}", MUCH),
        plain("a repeated tuple", "{{ (0,) * 10**8 }}", MUCH),
        plain("a repeated list of a name", "{{ messages * 10**9 }}", MUCH),
        plain("a range", "{{ range(10**15)|list }}", "too many elements"),
        plain("a range beyond integers", "{{ range(10**30)|list }}", "cannot"),
        plain("a power of a power", "{{ 10**10**10 }}", "unable to calculate"),
        plain("a product", "{{ 2**126 * 4 }}", "too large"),
        plain(
            "a wide text",
            "{% for i in range(9999) %}{{ 'x'.center(10**18) }}{% endfor %}",
            MUCH,
        ),
        plain(
            "a wide text by a filter",
            "{% for i in range(9999) %}{{ 'x'|center(10**18) }}{% endfor %}",
            MUCH,
        ),
        plain(
            "a text filled with zeros",
            "{% for i in range(9999) %}{{ '1'.zfill(10**18) }}{% endfor %}",
            MUCH,
        ),
        plain("tabs", "{{ ('\t' * 1000000).expandtabs(1000) }}", MUCH),
        plain("many words", "{{ ('a ' * 20000000).split()|length }}", MUCH),
        plain("many parts", "{{ ('a,' * 20000000).split(',')|length }}", MUCH),
        plain("many lines", "{{ ('\n' * 20000000).splitlines()|length }}", MUCH),
        plain("many characters", "{{ ('ab' * 20000000)|list|length }}", MUCH),
        plain(
            "a list of the characters of slices",
            "{{ ('ab' * 30000000)[::-1]|length }}",
            MUCH,
        ),
        plain(
            "replaced by more",
            "{{ ('a' * 1000000)|replace('a', 'b' * 1000) }}",
            MUCH,
        ),
        plain(
            "replaced by more, by a method",
            "{{ ('a' * 1000000).replace('', 'b' * 1000) }}",
            MUCH,
        ),
        plain("joined by much", "{{ range(99999)|join('b' * 100000) }}", MUCH),
        plain(
            "joined by much, by a method",
            "{{ ('b' * 100000).join(['a'] * 99999) }}",
            MUCH,
        ),
        plain("a date of many directives", "{{ strftime_now('%c' * 10000000) }}", MUCH),
        plain("arguments of a list", "{{ dict(*([[1, 2]] * 9999999)) }}", MUCH),
        plain("a source of more than a MiB", &"x".repeat(1_100_000), "more than 1 MiB"),
        // Growing.
        row(
            "texts that are concatenated",
            grows("{% set ns.x = ns.x ~ ns.x %}"),
            MUCH,
        ),
        row("texts that are added", grows("{% set ns.x = ns.x + ns.x %}"), MUCH),
        row("texts that are multiplied", grows("{% set ns.x = ns.x * 2 %}"), MUCH),
        row(
            "texts that are captured",
            grows("{% set t %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = t %}"),
            MUCH,
        ),
        row("texts through a macro", grows("{% set ns.x = pair(ns.x) %}"), MUCH),
        row(
            "texts through a call",
            grows("{% set t %}{% call around() %}{{ ns.x }}{% endcall %}{% endset %}{% set ns.x = t %}"),
            MUCH,
        ),
        row(
            "texts through a filter block",
            grows("{% set t %}{% filter upper %}{{ ns.x }}{{ ns.x }}{% endfilter %}{% endset %}{% set ns.x = t %}"),
            MUCH,
        ),
        row(
            "texts that are printed",
            grows("{% set ns.x = ns.x ~ ns.x %}{{ ns.x }}"),
            MUCH,
        ),
        row(
            "texts through printf",
            grows("{% set ns.x = '%s%s'|format(ns.x, ns.x) %}"),
            MUCH,
        ),
        row(
            "texts through a percent sign",
            grows("{% set ns.x = '%s%s' % (ns.x, ns.x) %}"),
            MUCH,
        ),
        row(
            "texts through format",
            grows("{% set ns.x = '{0}{0}'.format(ns.x) %}"),
            MUCH,
        ),
        row("texts through join", grows("{% set ns.x = [ns.x, ns.x]|join %}"), MUCH),
        row(
            "texts through replace",
            grows("{% set ns.x = ns.x|replace('a', 'aa') %}"),
            MUCH,
        ),
        row(
            "texts through JSON",
            grows("{% set ns.x = ns.x|tojson(ensure_ascii=true) %}"),
            MUCH,
        ),
        row(
            "texts through a printed list",
            grows("{% set ns.x = [ns.x]|string %}"),
            MUCH,
        ),
        row(
            "texts through escapes",
            grows("{% set ns.x = ns.x|forceescape|string|replace('&', '&&') %}"),
            MUCH,
        ),
        row(
            "texts through addresses",
            grows("{% set ns.x = (ns.x ~ '%')|urlencode ~ ns.x|urlencode %}"),
            MUCH,
        ),
        row(
            "texts through sum",
            grows("{% set ns.x = [ns.x, ns.x]|sum(start='') %}"),
            MUCH,
        ),
        row("texts through pprint", grows("{% set ns.x = [ns.x]|pprint %}"), MUCH),
        row("lists that are added", grows("{% set ns.l = ns.l + ns.l %}"), MUCH),
        row(
            "lists that are added and joined",
            grows("{% set ns.l = ns.l + ns.l %}{% set ns.x = ns.l|join %}"),
            MUCH,
        ),
        row(
            "lists through sum",
            grows("{% set ns.l = [ns.l, ns.l]|sum(start=[]) %}"),
            MUCH,
        ),
        row("lists that are multiplied", grows("{% set ns.l = ns.l * 2 %}"), MUCH),
        row("tuples that are added", grows("{% set ns.t = ns.t + ns.t %}"), MUCH),
        row(
            "lists as arguments",
            grows("{% set ns.l = cycler(*ns.l, *ns.l) and ns.l + ns.l %}"),
            MUCH,
        ),
        row(
            "dictionaries",
            grows("{% for j in range(9999) %}{% set ns.d = dict(ns.d, **dict([[i ~ '-' ~ j, 1]])) %}{% endfor %}"),
            MUCH,
        ),
        row(
            "text of the template's own",
            format!("{{% for i in range(99999) %}}{}{{% endfor %}}", "x".repeat(100_000)),
            MUCH,
        ),
        row(
            "text of the template's own in a condition",
            format!(
                "{{% set t %}}{{% for i in range(99999) %}}{{% if true %}}{}{{% endif %}}{{% endfor %}}{{% endset %}}",
                "x".repeat(100_000)
            ),
            MUCH,
        ),
        row(
            "raw text",
            format!(
                "{{% for i in range(99999) %}}{{% raw %}}{}{{% endraw %}}{{% endfor %}}",
                "x".repeat(100_000)
            ),
            MUCH,
        ),
        row(
            "macros of much text",
            format!(
                "{{% macro m() %}}{}{{% endmacro %}}{{% set l = [{}] %}}",
                "x".repeat(900_000),
                "m(),".repeat(900)
            ),
            MUCH,
        ),
        plain(
            "macros defined in a loop",
            "{% for i in range(99999) %}{% for j in range(99) %}{% macro m() %}{{ i }}{% endmacro %}{% endfor %}{% endfor %}",
            MUCH,
        ),
        // Deep values.
        row("lists in lists", nests("{% set ns.x = [ns.x] %}"), DEEP),
        row("tuples in tuples", nests("{% set ns.x = (ns.x,) %}"), DEEP),
        row(
            "dictionaries in dictionaries",
            nests("{% set ns.x = {'a': ns.x} %}"),
            DEEP,
        ),
        row("dictionaries of names", nests("{% set ns.x = dict(a=ns.x) %}"), DEEP),
        row("batches of batches", nests("{% set ns.x = ns.x|batch(1) %}"), DEEP),
        row("slices of slices", nests("{% set ns.x = ns.x|slice(1) %}"), DEEP),
        row("items of items", nests("{% set ns.x = {'a': ns.x}.items() %}"), DEEP),
        row("items by a filter", nests("{% set ns.x = {'a': ns.x}|items %}"), DEEP),
        row(
            "groups of groups",
            nests("{% set ns.x = [{'a': 1, 'b': ns.x}]|groupby('a') %}"),
            DEEP,
        ),
        row(
            "what is mapped",
            nests("{% set ns.x = [[ns.x]]|map('reverse') %}"),
            DEEP,
        ),
        row("cyclers in cyclers", nests("{% set ns.x = cycler(ns.x) %}"), DEEP),
        row(
            "joiners in joiners",
            nests("{% set ns.x = joiner(ns.x) %}"),
            "`sep` is no text",
        ),
        row("slices that look back", nests("{% set ns.x = ns.x[0:] %}"), "rendered"),
        row(
            "repeated lists that look back",
            nests("{% set ns.x = [1] * 1 %}"),
            "rendered",
        ),
        row(
            "chains of lists",
            nests("{% set ns.x = ns.x|chain([1]) %}"),
            "chain is unknown",
        ),
        row(
            "namespaces in namespaces",
            nests("{% set ns.x = namespace(a=ns) %}"),
            PART,
        ),
        row("a namespace in itself", nests("{% set ns.x = ns %}"), PART),
        row("a namespace in a list", nests("{% set ns.x = [ns] %}"), PART),
        row("a loop in a namespace", nests("{% set ns.x = loop %}"), PART),
        // Shared values.
        row("a shared value printed", shared("{{ ns.x }}"), MUCH),
        row("a shared value as JSON", shared("{{ ns.x|tojson }}"), LONG),
        row("a shared value concatenated", shared("{{ ns.x ~ 'a' }}"), MUCH),
        row("shared values compared", shared("{{ ns.x == ns.y }}"), LONG),
        row("shared values in order", shared("{{ ns.x < ns.y }}"), LONG),
        row(
            "shared values compared in a row",
            shared("{{ 1 < 2 == ns.x == ns.y }}"),
            LONG,
        ),
        row("shared values tested", shared("{{ ns.x is eq ns.y }}"), LONG),
        row(
            "shared values selected",
            shared("{{ [ns.x]|select('eq', ns.y)|list }}"),
            LONG,
        ),
        row("a shared value looked for", shared("{{ ns.x in [ns.y] }}"), LONG),
        row("a shared value as a key", shared("{{ {ns.x: 1} }}"), LONG),
        row("a shared value as a subscript", shared("{{ {'a': 1}[ns.x] }}"), LONG),
        row("a shared value asked for", shared("{{ {'a': 1}.get(ns.x) }}"), LONG),
        row("a shared value counted", shared("{{ [ns.x].count(ns.y) }}"), LONG),
        plain(
            "a namespace of many names",
            "{{ namespace(dict(range(9999)|map('string')|batch(2))) }}",
            "more than 256 names",
        ),
        row("many names set", "{% set ns.a = 1 %}".repeat(300), "more than 256 tags"),
        row(
            "lists made again and again",
            again("([1] * 99999)|map('string')|list"),
            MUCH,
        ),
        plain(
            "a loop over a large text",
            "{% set big = 'ab' * 9999999 %}{% for i in range(99999) %}{% for c in big %}{% break %}{% endfor %}{% endfor %}",
            LONG,
        ),
        plain(
            "a group's last value",
            "{% set g = (range(9999)|map('string')|map('list')|groupby('x'))[0].list %}{% for i in range(99999) %}\
             {% set r = g[9998] %}{% endfor %}",
            "rendered 0 bytes",
        ),
        row("shared values sorted", shared("{{ [ns.x, ns.y]|sort }}"), LONG),
        row("shared values once", shared("{{ [ns.x, ns.y]|unique|list }}"), LONG),
        row("the least of shared values", shared("{{ [ns.x, ns.y]|min }}"), LONG),
        row(
            "groups of shared values",
            shared("{{ [{'a': ns.x}, {'a': ns.y}]|groupby('a') }}"),
            LONG,
        ),
        row(
            "a dictionary of shared values sorted",
            shared("{{ {'a': ns.x}|dictsort(by='value') }}"),
            LONG,
        ),
        row(
            "a loop that compares",
            shared("{% for i in [1, 2] %}{{ loop.changed(ns.x) }}{% endfor %}"),
            LONG,
        ),
        row(
            "a shared value as a field's name",
            shared("{{ [1]|selectattr(ns.x)|list }}"),
            "is expected, not",
        ),
        row(
            "a shared value as an error",
            shared("{{ raise_exception(ns.x) }}"),
            MUCH,
        ),
        row(
            "a shared value escaped",
            shared("{% autoescape true %}{{ ns.x }}{% endautoescape %}"),
            MUCH,
        ),
        row(
            "a shared value escaped as JSON",
            shared("{% autoescape 'json' %}{{ ns.x }}{% endautoescape %}"),
            "only HTML",
        ),
        row("a shared value debugged", shared("{{ debug() }}"), "debug is unknown"),
        // Long.
        plain(
            "loops in loops",
            "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
            LONG,
        ),
        plain(
            "macros that call two",
            "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
            LONG,
        ),
        row("large texts compared", again("big == big2"), LONG),
        row("a large text looked for", again("big in big2"), LONG),
        row("large texts in order", again("big < big2"), LONG),
        row("large texts sorted", again("many|sort"), MUCH),
        row("large texts once", again("many|unique|list"), MUCH),
        row("large texts tested", again("big is eq(big2)"), LONG),
        row("a large text as a key", again("{'a': 1}[big]"), LONG),
        row("a large text's last character", again("big[-1]"), LONG),
        row("a large text's length", again("big|length"), LONG),
        row("a large text's words", again("big|wordcount"), MUCH),
        row("a large text's kind", again("big.isalnum()"), LONG),
        row("what a large text ends with", again("big.endswith(big2)"), LONG),
        row("how often a large text has another", again("big.count('b')"), LONG),
        row("a large text in upper case", again("big|upper"), MUCH),
        row("a large text in a list", again("many.index(big ~ 'c')"), "…"),
        row("a list's last value", again("many[:20]|last"), MUCH),
        row("an argument that is looked for", again("many.count(big)"), LONG),
        // Deep templates.
        row(
            "brackets",
            format!("{{{{ {} }}}}", around("(", "1", ")", deep)),
            "brackets inside each other",
        ),
        row(
            "lists",
            format!("{{{{ {} }}}}", around("[", "x", "]", deep)),
            "brackets inside each other",
        ),
        row(
            "dictionaries of the source",
            format!("{{{{ {} }}}}", around("{1:", "x", "}", deep)),
            "inside each other",
        ),
        row(
            "brackets within the limit",
            format!("{{{{ {} }}}}", around("(", "x", ")", 99)),
            "recursion limits",
        ),
        row(
            "signs",
            format!("{{{{ {}1 }}}}", "-".repeat(3_900)),
            "inside each other",
        ),
        row(
            "negations",
            format!("{{{{ {}1 }}}}", "not ".repeat(3_900)),
            "inside each other",
        ),
        row(
            "conditions",
            format!("{{{{ {}1 }}}}", "1 if 0 else ".repeat(990)),
            "inside each other",
        ),
        row(
            "a chain of operators",
            format!("{{{{ 1{} }}}}", "~1".repeat(deep)),
            "4,000 tokens",
        ),
        row(
            "a chain of attributes",
            format!("{{{{ x{} }}}}", ".y".repeat(1_990)),
            "undefined",
        ),
        row(
            "a chain of filters",
            format!("{{{{ 1{} }}}}", "|abs".repeat(1_990)),
            "rendered 1 bytes",
        ),
        row(
            "signs by turns",
            format!("{{{{ 1{} }}}}", "+1-1".repeat(990)),
            "recursion limits",
        ),
        row(
            "blocks",
            around("{% if true %}", "x", "{% endif %}", 40_000),
            "recursion limits",
        ),
        row(
            "loops",
            around("{% for a in [1] %}", "x", "{% endfor %}", 30_000),
            "recursion limits",
        ),
        row(
            "macros in macros",
            around("{% macro m() %}", "x", "{% endmacro %}", 30_000),
            "recursion limits",
        ),
        row(
            "branches",
            format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(50_000)),
            "200 branches",
        ),
        row(
            "many branches",
            format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(200)),
            "rendered 0 bytes",
        ),
        plain(
            "a macro that calls itself",
            "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
            "recursion limit",
        ),
        plain(
            "macros that call each other",
            "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
            "recursion limit",
        ),
        plain(
            "a call in a call",
            "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{{ caller() }}{% endmacro %}{% call m() %}{% endcall %}",
            "recursion limit",
        ),
        plain(
            "a loop that calls itself",
            "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
            "recursion limit",
        ),
        plain(
            "a template that includes itself",
            "{% include 'chat_template' %}",
            "reads another template",
        ),
        plain(
            "a template that imports itself",
            "{% import 'chat_template' as t %}",
            "reads another template",
        ),
        plain(
            "a template that takes from itself",
            "{% from 'chat_template' import t %}",
            "reads another template",
        ),
        plain(
            "a template that extends itself",
            "{% extends 'chat_template' %}",
            "reads another template",
        ),
        // Around what bounds it.
        plain(
            "a step of its own",
            "{% macro __step__(n) %}{% endmacro %}",
            "a name that Hearth uses itself",
        ),
        plain(
            "a filter by its hidden name",
            "{{ [1]|map('sort!')|list }}",
            "unknown filter",
        ),
        plain(
            "an operator in another place",
            "{{ 1 }}{% endfor 1 ~ 2 %}",
            "cannot be read",
        ),
        plain(
            "a cycle of nothing",
            "{% for i in [1] %}{{ loop.cycle() }}{% endfor %}",
            "cannot be carried out",
        ),
    ]
}
