"""Lines as bytes: read leniently, sealed, changed without touching the rest."""

from __future__ import annotations

import json

import pytest

from antiphon.session_log.line import (
    changed,
    glued_entry,
    read_object,
    read_value,
    salvaged_ids,
    seal_of,
    sealed,
    unsealed,
    write_value,
)


def test_a_seal_tells_whether_a_line_is_what_was_written() -> None:
    line = sealed(b'{"a":1}')

    assert json.loads(line)["a"] == 1, "other readers see a member they do not know"
    assert seal_of(line) == "good"
    assert seal_of(line.replace(b"1", b"2", 1)) == "broken"
    assert seal_of(b'{"a":1}') == "none"
    assert unsealed(line) == b'{"a":1}'
    assert unsealed(b'{"a":1}') == b'{"a":1}'


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'"a\xff\xfeb"', "a\ufffd\ufffdb"),
        (b'"\xe4\xb8"', "\ufffd"),
        (b'"x\\ud800y"', "x\ud800y"),
        ('"\u2028"'.encode(), "\u2028"),
        (b'{"a":1} \r', {"a": 1}),
    ],
)
def test_what_strict_decoders_refuse_is_read(line: bytes, value: object) -> None:
    assert read_value(line) == (True, value)


@pytest.mark.parametrize("line", [b"", b"{", b"NaN", b'{"a":Infinity}', b"{} {}", b"[" * 100_000, b"\xef\xbb\xbf{}"])
def test_what_is_no_json_is_said_to_be_none(line: bytes) -> None:
    assert read_value(line) == (False, None)
    assert read_object(line) is None


def test_a_changed_line_keeps_the_bytes_of_all_other_members() -> None:
    line = b'{"type":"x", "parentId":"a", "n": 1.50e1, "t":"\\u00e9", "o":{ "k" : [1,2] }, "broken":"\xff"}'

    new = changed(line, {"parentId": None})

    assert b'"n":1.50e1' in new
    assert b'"t":"\\u00e9"' in new
    assert b'"o":{ "k" : [1,2] }' in new
    assert b'"broken":"\xff"' in new
    assert new.startswith(b'{"type":"x","parentId":null,')


def test_a_changed_line_with_half_characters_keeps_all_values() -> None:
    new = changed(b'{"parentId":"a","t":"\\ud800","n":1}', {"parentId": "b"})

    assert json.loads(new) == {"parentId": "b", "t": "\ud800", "n": 1}


def test_a_changed_line_is_sealed_again_if_it_was() -> None:
    assert seal_of(changed(sealed(b'{"id":"a","parentId":"b"}'), {"parentId": "c"})) == "good"


def test_half_characters_are_written_as_they_will_be_read() -> None:
    line = write_value({"text": "x\ud800y"})

    assert line.isascii()
    assert read_object(line) == {"text": "x\ud800y"}


def test_an_unreadable_line_tells_what_it_can() -> None:
    assert salvaged_ids(b'{"type":"message","id":"a","parentId":"b","tim') == ("a", "b")
    assert salvaged_ids(b'{"type":"message","message":{"id":"inner"') == (None, None)
    assert salvaged_ids(b"\x00" * 100) == (None, None)


def test_an_entry_glued_to_a_half_line_is_found() -> None:
    entry = b'{"type":"label","id":"b","parentId":null}'

    assert glued_entry(b'{"half' + entry) == 6
    assert glued_entry(b'{"type":"message","message":{"content":[{"type":"text","te' + entry) == 58
    assert glued_entry(b'{"type":"message","message":{"content":[{"type":"text"}]}') is None
    assert glued_entry(b'{"type":"text"' * 10_000) is None, "and the search ends"
