"""What a conversation remembers of a file's content."""

from __future__ import annotations

from random import Random

from antiphon.tools.read_log import ContentDigest, digest


def test_a_digest_does_not_depend_on_how_the_bytes_came() -> None:
    random = Random(1)
    content = random.randbytes(1_000_000)
    whole = digest([content])
    for largest in (9, 4_100, 65_536, 262_144, 700_000):
        state = ContentDigest()
        at = 0
        while at < len(content):
            size = random.randint(largest // 2, largest)
            state.update(content[at : at + size])
            at += size
        assert state.digest() == whole
        assert state.digest() == whole  # asking changes nothing


def test_any_other_content_has_another_digest() -> None:
    content = bytes(600_000)
    others = [content[:place] + b"x" + content[place + 1 :] for place in range(0, 600_000, 10_007)]
    others += [content + b"\0", content[1:], content[:262_144], b""]
    assert len({digest([other]) for other in [content, *others]}) == len(others) + 1
