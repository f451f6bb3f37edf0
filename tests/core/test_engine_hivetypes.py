from __future__ import annotations

import pytest

from tidegate.core.base.hivetypes import Array, Decimal, Map, Primitive, Struct, is_primitive, parse


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("int", "int"),
        ("INTEGER", "int"),
        (" Decimal ( 10 , 2 ) ", "decimal(10,2)"),
        ("decimal", "decimal(10,0)"),
        ("decimal(5)", "decimal(5,0)"),
        ("array< int >", "array<int>"),
        ("map<string,array<struct<A:int,b:double>>>", "map<string,array<struct<a:int,b:double>>>"),
        ("struct<`order`:string>", "struct<order:string>"),
    ],
)
def test_every_spelling_has_one_canonical_form(text, canonical):
    assert str(parse(text)) == canonical
    assert parse(canonical) == parse(text)


def test_the_tree():
    kind = parse("array<struct<sku:string,price:decimal(9,2),tags:map<string,int>>>")
    fields = (
        ("sku", Primitive("string")),
        ("price", Decimal(9, 2)),
        ("tags", Map(Primitive("string"), Primitive("int"))),
    )
    assert kind == Array(Struct(fields))
    assert not is_primitive(kind)
    assert is_primitive(Decimal(9, 2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a type, not the end"),
        ("varchar", "'varchar' is not a type"),
        ("array<int", "expected '>'"),
        ("array", "expected '<'"),
        ("int int", "'int' after its end"),
        ("decimal(39,2)", "precision must be 1 to 38"),
        ("decimal(3,4)", "larger than its precision"),
        ("decimal(a)", "expected a precision"),
        ("decimal(", "expected a precision, not the end"),
        ("decimal(3,", "expected a scale, not the end"),
        ("struct<", "expected a field name, not the end"),
        ("map<array<int>,int>", "key must be primitive"),
        ("struct<a:int,a:int>", "twice"),
        ("struct<>", "expected a field name"),
        ("struct<a int>", "expected ':'"),
        ("int;drop", "unexpected ';'"),
    ],
)
def test_a_wrong_type_says_what_was_expected(text, message):
    with pytest.raises(ValueError, match="type ") as e:
        parse(text)
    assert message in str(e.value)
