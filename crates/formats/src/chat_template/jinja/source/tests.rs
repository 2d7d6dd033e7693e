//! Tests of rewriting.

use super::*;

fn check(source: &str, expected: &str) {
    let rewritten = rewrite(source).map(|rewritten| rewritten.source);
    assert_eq!(rewritten.as_deref(), Ok(expected), "{source}");
}

#[test]
fn break_and_continue_are_refused_inside_other_blocks() {
    for source in [
        "{% for a in b %}{% if c %}{% continue %}{% else %}{% break %}{% endif %}{% endfor %}",
        "{% for a in b %}{% with c = 1 %}{% endwith %}{% set d = 1 %}{% set e %}f{% endset %}{% break %}{% endfor %}",
        "{% with %}{% for a in b %}{% continue %}{% endfor %}{% endwith %}",
    ] {
        assert!(rewrite(source).is_ok(), "{source}");
    }
    for source in [
        "{% for a in b %}{% with %}{% continue %}{% endwith %}{% endfor %}",
        "{% for a in b %}{% generation %}{%- break -%}{% endgeneration %}{% endfor %}",
        "{% for a in b %}{% set c %}{% if d %}{% continue %}{% endif %}{% endset %}{% endfor %}",
    ] {
        assert!(rewrite(source).is_err(), "{source}");
    }
}

#[test]
fn only_tags_change() {
    for source in [
        "a[1:] {# {{ a[1:] }} #} b",
        "{% raw %}{{ a[1:] }}{% generation %}{%- endraw -%}",
        "{{ {'a': {'b': 1}} }} {{ '{% generation %} }}' }}",
        "{{ [1, 2] }}{% if x.y(a) is not none or not -b %}{% endif %}{{ a['b'] / 2 - 1 }}",
        "{{ unterminated[1:]",
        "{{ 'unterminated[1:] }}",
        "{",
        "{{",
        "é{é{%",
    ] {
        check(source, source);
    }
    check("a\r\nb\rc", "a\nb\nc");
}

#[test]
fn slices_become_method_calls() {
    check("{{ a[1:] }}", "{{ a.__slice__(1,none) }}");
    check(
        "{{- a.b[:n-1][::-1]-}}",
        "{{- a.b.__slice__(none,n-1).__slice__(none,none,-1)-}}",
    );
    check(
        "{{ f(x)[a[0]:{'k': 1}['k']] }}",
        "{{ f(x).__slice__(a.__item__(0),{'k': 1}['k']) }}",
    );
    check(
        "{{ 'a:b'[0] }}{{ x if [1:2] }}",
        "{{ 'a:b'.__item__(0) }}{{ x if [1:2] }}",
    );
}

#[test]
fn operators_become_filters() {
    check(
        "{{ '%s' % (a, b) ~ x }}{{ 7 % 3 }}",
        "{{ '%s' |__mod__( a|__tuple__( b)) |__concatenate__( x) }}{{ 7 % 3 }}",
    );
    check(
        "{{ ['-' * -n|abs, 2 * 'a'] }}",
        "{{ '-' |__mul__( -n|abs)|__list__( 2 |__mul__( 'a')) }}",
    );
    check(
        "{{ a + b ~ c + 1e-5 - d + e }}",
        "{{ (a |__add__( b |__concatenate__( c) , 1e-5) - d) |__add__( e) }}",
    );
    check(
        "{% if a == b and not c not in d or 1 < x <= 2 %}",
        "{% if a |__eq__( b) and not c  |__not_in__( d) or 1|__chain__('__lt__',  x,'__le__',  2,) %}",
    );
    check(
        "{% set ns.x = {'k': v} %}{% set t = a, b %}{{ f(*x, **y) }}{{ loop.changed(z) }}",
        "{% set ns.x = 'k'|__dict__( v)|__nested__ %}{% set t = a|__tuple__( b) %}\
         {{ f(*x|__traverse__, **y|__traverse__) }}{{ loop.changed(z|__traverse__) }}",
    );
}

#[test]
fn bodies_of_loops_start_with_a_step() {
    check(
        "{% for a in b -%}\n xy {{ a }}{% if c %}z{% else %}zz{% endif %}{%- endfor +%}",
        "{% for a in b|__scan__ -%}{% do __step__(8) -%}\n xy {{ a }}{% if c %}z{% else %}zz{% endif %}{%- endfor +%}",
    );
    let long = "x".repeat(200);
    check(
        &format!("{{% if a %}}{long}{{% endif %}}"),
        &format!("{{% if a %}}{{% do __step__(200) %}}{long}{{% endif %}}"),
    );
}

/// No rewritten expression contains an operator that is not charged.
#[test]
fn no_operator_remains() {
    const UNBOUNDED: [&str; 9] = ["~", "+", "*", "==", "!=", "<", ">", "<=", ">="];
    let vocabulary = [
        "a", "1", "'b'", "(", ")", "[", "]", "{", "}", "~", "+", "*", "%", "==", "<", " in ", " not ", " is ", "|",
        ".", ",", ":", "-", " if ", " else ",
    ];
    let mut random = 1_u64;
    let mut parsed = 0;
    for _ in 0..200_000 {
        let mut next = || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize
        };
        let expression: String = (0..1 + next() % 9)
            .map(|_| vocabulary[next() % vocabulary.len()])
            .collect();
        let Ok(Rewritten {
            source,
            unreadable: false,
        }) = rewrite(&format!("{{{{ {expression} }}}}"))
        else {
            continue;
        };
        let Ok(Some((tokens, _))) = lex(&source[2..], "}}") else {
            continue;
        };
        parsed += 1;
        let words: Vec<&str> = tokens.iter().map(|token| token.text(&source[2..])).collect();
        for (index, word) in words.iter().enumerate() {
            // A filter, a field or a test may have this name.
            let previous = index.checked_sub(1).map_or("", |previous| words[previous]);
            let is_containment = *word == "in" && !["|", ".", "is", "not"].contains(&previous);
            assert!(
                !is_containment && !UNBOUNDED.contains(word),
                "{expression} was rewritten to {source}"
            );
        }
    }
    assert!(parsed > 1_000, "{parsed}");
}

#[test]
fn generation_tags_become_scopes() {
    check("{%- generation -%}x{% endgeneration %}", "{%- with -%}x{% endwith %}");
    check("{% set generation = 1 %}", "{% set generation = 1 %}");
}

#[test]
fn escapes_are_decoded_as_in_python() {
    check(r"{{ 'a\/\q\'\x41\101\U0001F600\\n' }}", r"{{ 'a\\/\\q\'AA😀\\n' }}");
    check("{{ 'a\\\nb' }}", "{{ 'ab' }}");
}
