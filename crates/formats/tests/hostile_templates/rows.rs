//! Hostile templates and the expected outcome of each.

/// A template and its expected outcome.
pub struct Row {
    pub name: &'static str,
    source: Source,
    /// A part of the expected outcome.
    pub expected: &'static str,
}

/// Construction of a row's source.
enum Source {
    Plain(&'static str),
    /// This statement in a loop, with values that grow until they exceed the memory limit.
    Growing(&'static str),
    /// This statement in a loop, which nests a value once more in each iteration.
    Nesting(&'static str),
    /// This expression over values whose items are shared: traversing them takes far longer than
    /// building them.
    Shared(&'static str),
    /// This expression in a loop, over large equal strings.
    Repeated(&'static str),
    Built(fn() -> String),
}

impl Row {
    /// The template.
    pub fn source(&self) -> String {
        match self.source {
            Source::Plain(source) => source.to_owned(),
            Source::Growing(step) => format!(
                "{{% macro pair(x) %}}{{{{ x }}}}{{{{ x }}}}{{% endmacro %}}\
                 {{% macro around() %}}{{{{ caller() }}}}{{{{ caller() }}}}{{% endmacro %}}\
                 {{% set ns = namespace(x='a<%é\\n\\\\', l=['a'], t=('a',), d={{'a': 1}}) %}}\
                 {{% for i in range(2000) %}}{step}{{% endfor %}}{{{{ ns.x|length }}}}"
            ),
            Source::Nesting(step) => {
                format!("{{% set ns = namespace(x='a') %}}{{% for i in range(90000) %}}{step}{{% endfor %}}done")
            }
            Source::Shared(use_of_it) => format!(
                "{{% set ns = namespace(x=['a'], y=['a']) %}}{{% for i in range(60) %}}{{% set ns.x = [ns.x, ns.x] %}}\
                 {{% set ns.y = [ns.y, ns.y] %}}{{% endfor %}}{use_of_it}"
            ),
            Source::Repeated(expression) => format!(
                "{{% set big = 'ab' * 2000000 %}}{{% set big2 = 'ab' * 2000000 %}}{{% set many = [big, big2] * 50 %}}\
                 {{% for i in range(99999) %}}{{% set r = {expression} %}}{{% endfor %}}"
            ),
            Source::Built(build) => build(),
        }
    }
}

const fn row(name: &'static str, source: Source, expected: &'static str) -> Row {
    Row { name, source, expected }
}

const fn plain(name: &'static str, source: &'static str, expected: &'static str) -> Row {
    row(name, Source::Plain(source), expected)
}

const fn growing(name: &'static str, step: &'static str, expected: &'static str) -> Row {
    row(name, Source::Growing(step), expected)
}

const fn nesting(name: &'static str, step: &'static str, expected: &'static str) -> Row {
    row(name, Source::Nesting(step), expected)
}

const fn shared(name: &'static str, use_of_it: &'static str, expected: &'static str) -> Row {
    row(name, Source::Shared(use_of_it), expected)
}

const fn repeated(name: &'static str, expression: &'static str, expected: &'static str) -> Row {
    row(name, Source::Repeated(expression), expected)
}

const fn built(name: &'static str, build: fn() -> String, expected: &'static str) -> Row {
    row(name, Source::Built(build), expected)
}

/// `inside` with `open` before and `close` after it, `times` times.
fn around(open: &str, inside: &str, close: &str, times: usize) -> String {
    format!("{}{inside}{}", open.repeat(times), close.repeat(times))
}

// Parts of the error messages of the limits.
const MEMORY: &str = "uses far more memory than this conversation needs";
const WORK: &str = "takes too long and was stopped";
const DEPTH: &str = "its values nest too deeply";
const NESTED: &str = "cannot be put into another value";
const WIDTH: &str = "widths above";

/// Brackets, operators or blocks far beyond the limits of a source.
const MANY: usize = 100_000;

/// All rows.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    [LARGE, GROWING, DEEP_VALUES, SHARED, SLOW, DEEP_SOURCES, BYPASSES]
        .into_iter()
        .flatten()
}

/// Values that are large at once.
const LARGE: &[Row] = &[
    plain("many slices", "{{ []|slice(10**12)|list }}", MEMORY),
    plain("a batch filled up", "{{ [1]|batch(10**12, 'x')|list }}", MEMORY),
    plain(
        "a batch filled up by name",
        "{{ [1]|batch(10**12, fill_with='x')|list }}",
        MEMORY,
    ),
    plain("a width of printf", "{{ '%1000000000000d'|format(1) }}", WIDTH),
    plain("a precision of printf", "{{ '%.1000000000000f'|format(1.5) }}", WIDTH),
    plain("a width after a percent sign", "{{ '%99999999999s' % 'a' }}", WIDTH),
    plain("a width of format", "{{ '{:1000000000000}'.format(1) }}", WIDTH),
    plain("a precision of format", "{{ '{:.999999999f}'.format(1.5) }}", WIDTH),
    plain("a percentage in format", "{{ '{:.999999999%}'.format(1.5) }}", WIDTH),
    plain("many widths", "{{ ('%9999d' * 99999)|format(*([1] * 99999)) }}", MEMORY),
    plain(
        "many replacement fields",
        "{{ ('{0:>9999}' * 99999).format(1) }}",
        MEMORY,
    ),
    plain("an indent", "{{ 'a\nb'|indent(10**18) }}", "rendered 1003 bytes"),
    plain(
        "an indent of many lines",
        "{{ ('\n' * 1000000)|indent(1000, true, true) }}",
        MEMORY,
    ),
    plain("an indent of JSON", "{{ [[[[1]]]]|tojson(indent=10**18) }}", "rendered"),
    plain(
        "a long indent of JSON",
        "{{ ([[[[1]]]] * 1000)|tojson(indent='x' * 100000) }}",
        MEMORY,
    ),
    plain(
        "long separators of JSON",
        "{{ ([1] * 100000)|tojson(separators=('x' * 100000, 'y')) }}",
        MEMORY,
    ),
    plain("a repeated text", "{{ 'x' * 10**10 }}", MEMORY),
    plain("a repeated text from the right", "{{ 10**10 * 'x' }}", MEMORY),
    plain("a repeated list", "{{ [0] * 10**10 }}", MEMORY),
    plain("a repeated tuple", "{{ (0,) * 10**8 }}", MEMORY),
    plain("a repeated list of a name", "{{ messages * 10**9 }}", MEMORY),
    plain("a range", "{{ range(10**15)|list }}", "too many elements"),
    plain("a range beyond integers", "{{ range(10**30)|list }}", "cannot"),
    plain("a power of a power", "{{ 10**10**10 }}", "unable to calculate"),
    plain("a product", "{{ 2**126 * 4 }}", "too large"),
    plain(
        "a wide text",
        "{% for i in range(9999) %}{{ 'x'.center(10**18) }}{% endfor %}",
        MEMORY,
    ),
    plain(
        "a wide text by a filter",
        "{% for i in range(9999) %}{{ 'x'|center(10**18) }}{% endfor %}",
        MEMORY,
    ),
    plain(
        "a text filled with zeros",
        "{% for i in range(9999) %}{{ '1'.zfill(10**18) }}{% endfor %}",
        MEMORY,
    ),
    plain("tabs", "{{ ('\t' * 1000000).expandtabs(1000) }}", MEMORY),
    plain("many words", "{{ ('a ' * 20000000).split()|length }}", MEMORY),
    plain("many parts", "{{ ('a,' * 20000000).split(',')|length }}", MEMORY),
    plain("many lines", "{{ ('\n' * 20000000).splitlines()|length }}", MEMORY),
    plain("many characters", "{{ ('ab' * 20000000)|list|length }}", MEMORY),
    plain("a reversed large text", "{{ ('ab' * 30000000)[::-1]|length }}", MEMORY),
    plain(
        "a large replacement",
        "{{ ('a' * 1000000)|replace('a', 'b' * 1000) }}",
        MEMORY,
    ),
    plain(
        "a large replacement, by a method",
        "{{ ('a' * 1000000).replace('', 'b' * 1000) }}",
        MEMORY,
    ),
    plain(
        "a large separator of join",
        "{{ range(99999)|join('b' * 100000) }}",
        MEMORY,
    ),
    plain(
        "a large separator of join, by a method",
        "{{ ('b' * 100000).join(['a'] * 99999) }}",
        MEMORY,
    ),
    plain(
        "a date of many directives",
        "{{ strftime_now('%c' * 10000000) }}",
        MEMORY,
    ),
    plain("arguments of a list", "{{ dict(*([[1, 2]] * 9999999)) }}", MEMORY),
    built(
        "a source of more than a MiB",
        || "x".repeat(1_100_000),
        "more than 1 MiB",
    ),
];

/// Values that grow in a loop.
const GROWING: &[Row] = &[
    growing("texts that are concatenated", "{% set ns.x = ns.x ~ ns.x %}", MEMORY),
    growing("texts that are added", "{% set ns.x = ns.x + ns.x %}", MEMORY),
    growing("texts that are multiplied", "{% set ns.x = ns.x * 2 %}", MEMORY),
    growing(
        "texts that are captured",
        "{% set t %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = t %}",
        MEMORY,
    ),
    growing("texts through a macro", "{% set ns.x = pair(ns.x) %}", MEMORY),
    growing(
        "texts through a call",
        "{% set t %}{% call around() %}{{ ns.x }}{% endcall %}{% endset %}{% set ns.x = t %}",
        MEMORY,
    ),
    growing(
        "texts through a filter block",
        "{% set t %}{% filter upper %}{{ ns.x }}{{ ns.x }}{% endfilter %}{% endset %}{% set ns.x = t %}",
        MEMORY,
    ),
    growing(
        "texts that are printed",
        "{% set ns.x = ns.x ~ ns.x %}{{ ns.x }}",
        MEMORY,
    ),
    growing(
        "texts through printf",
        "{% set ns.x = '%s%s'|format(ns.x, ns.x) %}",
        MEMORY,
    ),
    growing(
        "texts through a percent sign",
        "{% set ns.x = '%s%s' % (ns.x, ns.x) %}",
        MEMORY,
    ),
    growing("texts through format", "{% set ns.x = '{0}{0}'.format(ns.x) %}", MEMORY),
    growing("texts through join", "{% set ns.x = [ns.x, ns.x]|join %}", MEMORY),
    growing(
        "texts through replace",
        "{% set ns.x = ns.x|replace('a', 'aa') %}",
        MEMORY,
    ),
    growing(
        "texts through JSON",
        "{% set ns.x = ns.x|tojson(ensure_ascii=true) %}",
        MEMORY,
    ),
    growing("texts through a printed list", "{% set ns.x = [ns.x]|string %}", MEMORY),
    growing(
        "texts through escapes",
        "{% set ns.x = ns.x|forceescape|string|replace('&', '&&') %}",
        MEMORY,
    ),
    growing(
        "texts through urlencode",
        "{% set ns.x = (ns.x ~ '%')|urlencode ~ ns.x|urlencode %}",
        MEMORY,
    ),
    growing(
        "texts through sum",
        "{% set ns.x = [ns.x, ns.x]|sum(start='') %}",
        MEMORY,
    ),
    growing("texts through pprint", "{% set ns.x = [ns.x]|pprint %}", MEMORY),
    growing("lists that are added", "{% set ns.l = ns.l + ns.l %}", MEMORY),
    growing(
        "lists that are added and joined",
        "{% set ns.l = ns.l + ns.l %}{% set ns.x = ns.l|join %}",
        MEMORY,
    ),
    growing(
        "lists through sum",
        "{% set ns.l = [ns.l, ns.l]|sum(start=[]) %}",
        MEMORY,
    ),
    growing("lists that are multiplied", "{% set ns.l = ns.l * 2 %}", MEMORY),
    growing("tuples that are added", "{% set ns.t = ns.t + ns.t %}", MEMORY),
    growing(
        "lists as arguments",
        "{% set ns.l = cycler(*ns.l, *ns.l) and ns.l + ns.l %}",
        MEMORY,
    ),
    growing(
        "dictionaries",
        "{% for j in range(9999) %}{% set ns.d = dict(ns.d, **dict([[i ~ '-' ~ j, 1]])) %}{% endfor %}",
        MEMORY,
    ),
    built(
        "literal text",
        || format!("{{% for i in range(99999) %}}{}{{% endfor %}}", "x".repeat(100_000)),
        MEMORY,
    ),
    built(
        "literal text in a condition",
        || {
            format!(
                "{{% set t %}}{{% for i in range(99999) %}}{{% if true %}}{}{{% endif %}}{{% endfor %}}{{% endset %}}",
                "x".repeat(100_000)
            )
        },
        MEMORY,
    ),
    built(
        "raw text",
        || {
            format!(
                "{{% for i in range(99999) %}}{{% raw %}}{}{{% endraw %}}{{% endfor %}}",
                "x".repeat(100_000)
            )
        },
        MEMORY,
    ),
    built(
        "macros of much text",
        || {
            format!(
                "{{% macro m() %}}{}{{% endmacro %}}{{% set l = [{}] %}}",
                "x".repeat(900_000),
                "m(),".repeat(900)
            )
        },
        MEMORY,
    ),
    plain(
        "macros defined in a loop",
        "{% for i in range(99999) %}{% for j in range(99) %}{% macro m() %}{{ i }}{% endmacro %}{% endfor %}\
         {% endfor %}",
        MEMORY,
    ),
];

/// Deeply nested values.
const DEEP_VALUES: &[Row] = &[
    nesting("lists in lists", "{% set ns.x = [ns.x] %}", DEPTH),
    nesting("tuples in tuples", "{% set ns.x = (ns.x,) %}", DEPTH),
    nesting("dictionaries in dictionaries", "{% set ns.x = {'a': ns.x} %}", DEPTH),
    nesting(
        "dictionaries of keyword arguments",
        "{% set ns.x = dict(a=ns.x) %}",
        DEPTH,
    ),
    nesting("batches of batches", "{% set ns.x = ns.x|batch(1) %}", DEPTH),
    nesting("slices of slices", "{% set ns.x = ns.x|slice(1) %}", DEPTH),
    nesting("items of items", "{% set ns.x = {'a': ns.x}.items() %}", DEPTH),
    nesting(
        "items of items by a filter",
        "{% set ns.x = {'a': ns.x}|items %}",
        DEPTH,
    ),
    nesting(
        "groups of groups",
        "{% set ns.x = [{'a': 1, 'b': ns.x}]|groupby('a') %}",
        DEPTH,
    ),
    nesting("results of map", "{% set ns.x = [[ns.x]]|map('reverse') %}", DEPTH),
    nesting("cyclers in cyclers", "{% set ns.x = cycler(ns.x) %}", DEPTH),
    nesting(
        "joiners in joiners",
        "{% set ns.x = joiner(ns.x) %}",
        "`sep` must be a string",
    ),
    nesting("slices of slices of a value", "{% set ns.x = ns.x[0:] %}", "rendered"),
    nesting("lists multiplied by 1", "{% set ns.x = [1] * 1 %}", "rendered"),
    nesting(
        "chains of lists",
        "{% set ns.x = ns.x|chain([1]) %}",
        "chain is unknown",
    ),
    nesting("namespaces in namespaces", "{% set ns.x = namespace(a=ns) %}", NESTED),
    nesting("a namespace in itself", "{% set ns.x = ns %}", NESTED),
    nesting("a namespace in a list", "{% set ns.x = [ns] %}", NESTED),
    nesting("a loop in a namespace", "{% set ns.x = loop %}", NESTED),
];

/// Values whose traversal takes far longer than their construction.
const SHARED: &[Row] = &[
    shared("a shared value printed", "{{ ns.x }}", MEMORY),
    shared("a shared value as JSON", "{{ ns.x|tojson }}", WORK),
    shared("a shared value concatenated", "{{ ns.x ~ 'a' }}", MEMORY),
    shared("shared values compared", "{{ ns.x == ns.y }}", WORK),
    shared("shared values ordered", "{{ ns.x < ns.y }}", WORK),
    shared(
        "shared values in chained comparisons",
        "{{ 1 < 2 == ns.x == ns.y }}",
        WORK,
    ),
    shared("shared values tested", "{{ ns.x is eq ns.y }}", WORK),
    shared("shared values selected", "{{ [ns.x]|select('eq', ns.y)|list }}", WORK),
    shared("a shared value in a list", "{{ ns.x in [ns.y] }}", WORK),
    shared("a shared value as a key", "{{ {ns.x: 1} }}", WORK),
    shared("a shared value as a subscript", "{{ {'a': 1}[ns.x] }}", WORK),
    shared("a shared value as an argument of get", "{{ {'a': 1}.get(ns.x) }}", WORK),
    shared("a shared value counted", "{{ [ns.x].count(ns.y) }}", WORK),
    plain(
        "a namespace of many names",
        "{{ namespace(dict(range(9999)|map('string')|batch(2))) }}",
        "more than 256 names",
    ),
    built(
        "many names set",
        || "{% set ns.a = 1 %}".repeat(300),
        "more than 256 tags",
    ),
    repeated("lists created repeatedly", "([1] * 99999)|map('string')|list", MEMORY),
    plain(
        "a loop over a large text",
        "{% set big = 'ab' * 9999999 %}{% for i in range(99999) %}{% for c in big %}{% break %}{% endfor %}\
         {% endfor %}",
        WORK,
    ),
    plain(
        "a group's last value",
        "{% set g = (range(9999)|map('string')|map('list')|groupby('x'))[0].list %}{% for i in range(99999) %}\
             {% set r = g[9998] %}{% endfor %}",
        "rendered 0 bytes",
    ),
    shared("shared values sorted", "{{ [ns.x, ns.y]|sort }}", WORK),
    shared("unique shared values", "{{ [ns.x, ns.y]|unique|list }}", WORK),
    shared("the minimum of shared values", "{{ [ns.x, ns.y]|min }}", WORK),
    shared(
        "groups of shared values",
        "{{ [{'a': ns.x}, {'a': ns.y}]|groupby('a') }}",
        WORK,
    ),
    shared(
        "a dictionary of shared values sorted",
        "{{ {'a': ns.x}|dictsort(by='value') }}",
        WORK,
    ),
    shared(
        "a loop that compares",
        "{% for i in [1, 2] %}{{ loop.changed(ns.x) }}{% endfor %}",
        WORK,
    ),
    shared(
        "a shared value as a field's name",
        "{{ [1]|selectattr(ns.x)|list }}",
        "expected the name of a test or a field",
    ),
    shared("a shared value as an error", "{{ raise_exception(ns.x) }}", MEMORY),
    shared(
        "a shared value escaped",
        "{% autoescape true %}{{ ns.x }}{% endautoescape %}",
        MEMORY,
    ),
    shared(
        "a shared value escaped as JSON",
        "{% autoescape 'json' %}{{ ns.x }}{% endautoescape %}",
        "only HTML",
    ),
    shared("a shared value debugged", "{{ debug() }}", "debug is unknown"),
];

/// Templates that take too long.
const SLOW: &[Row] = &[
    plain(
        "nested loops",
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        WORK,
    ),
    plain(
        "macros that call two",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
        WORK,
    ),
    repeated("large texts compared", "big == big2", WORK),
    repeated("a large text in another", "big in big2", WORK),
    repeated("large texts ordered", "big < big2", WORK),
    repeated("large texts sorted", "many|sort", MEMORY),
    repeated("unique large texts", "many|unique|list", MEMORY),
    repeated("large texts tested", "big is eq(big2)", WORK),
    repeated("a large text as a key", "{'a': 1}[big]", WORK),
    repeated("a large text's last character", "big[-1]", WORK),
    repeated("a large text's length", "big|length", WORK),
    repeated("a large text's words", "big|wordcount", MEMORY),
    repeated("isalnum of a large text", "big.isalnum()", WORK),
    repeated("endswith of large texts", "big.endswith(big2)", WORK),
    repeated("count in a large text", "big.count('b')", WORK),
    repeated("a large text in upper case", "big|upper", MEMORY),
    repeated("index of a large text", "many.index(big ~ 'c')", "…"),
    repeated("a list's last value", "many[:20]|last", MEMORY),
    repeated("count of a large text in a list", "many.count(big)", WORK),
];

/// Sources that nest deeply or have long chains.
const DEEP_SOURCES: &[Row] = &[
    built(
        "brackets",
        || format!("{{{{ {} }}}}", around("(", "1", ")", MANY)),
        "brackets inside each other",
    ),
    built(
        "list literals",
        || format!("{{{{ {} }}}}", around("[", "x", "]", MANY)),
        "brackets inside each other",
    ),
    built(
        "dictionary literals",
        || format!("{{{{ {} }}}}", around("{1:", "x", "}", MANY)),
        "inside each other",
    ),
    built(
        "brackets within the limit",
        || format!("{{{{ {} }}}}", around("(", "x", ")", 99)),
        "recursion limits",
    ),
    built(
        "signs",
        || format!("{{{{ {}1 }}}}", "-".repeat(3_900)),
        "inside each other",
    ),
    built(
        "negations",
        || format!("{{{{ {}1 }}}}", "not ".repeat(3_900)),
        "inside each other",
    ),
    built(
        "conditions",
        || format!("{{{{ {}1 }}}}", "1 if 0 else ".repeat(990)),
        "inside each other",
    ),
    built(
        "a chain of operators",
        || format!("{{{{ 1{} }}}}", "~1".repeat(MANY)),
        "4,000 tokens",
    ),
    built(
        "a chain of attributes",
        || format!("{{{{ x{} }}}}", ".y".repeat(1_990)),
        "undefined",
    ),
    built(
        "a chain of filters",
        || format!("{{{{ 1{} }}}}", "|abs".repeat(1_990)),
        "rendered 1 bytes",
    ),
    built(
        "alternating signs",
        || format!("{{{{ 1{} }}}}", "+1-1".repeat(990)),
        "recursion limits",
    ),
    built(
        "blocks",
        || around("{% if true %}", "x", "{% endif %}", 40_000),
        "recursion limits",
    ),
    built(
        "loops",
        || around("{% for a in [1] %}", "x", "{% endfor %}", 30_000),
        "recursion limits",
    ),
    built(
        "macros in macros",
        || around("{% macro m() %}", "x", "{% endmacro %}", 30_000),
        "recursion limits",
    ),
    built(
        "branches",
        || format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(50_000)),
        "200 branches",
    ),
    built(
        "many branches",
        || format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(200)),
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
        "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{{ caller() }}{% endmacro %}\
         {% call m() %}{% endcall %}",
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
        "a template that imports from itself",
        "{% from 'chat_template' import t %}",
        "reads another template",
    ),
    plain(
        "a template that extends itself",
        "{% extends 'chat_template' %}",
        "reads another template",
    ),
];

/// Attempts to bypass the limits.
const BYPASSES: &[Row] = &[
    plain(
        "a macro named as the step function",
        "{% macro __step__(n) %}{% endmacro %}",
        "a name that Hearth reserves",
    ),
    plain(
        "a filter by its hidden name",
        "{{ [1]|map('sort!')|list }}",
        "unknown filter",
    ),
    plain(
        "an operator in an unknown tag",
        "{{ 1 }}{% endfor 1 ~ 2 %}",
        "cannot be read",
    ),
    plain(
        "a cycle of nothing",
        "{% for i in [1] %}{{ loop.cycle() }}{% endfor %}",
        "cannot be executed",
    ),
];
