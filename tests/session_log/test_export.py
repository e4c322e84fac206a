"""A session to read: everything is there, nothing runs, nothing is asked of elsewhere."""

from __future__ import annotations

import re
import time
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.session_log.make import calls, counting_sources, forty_entries, result, says
from tests.session_log.rich import fill

from antiphon.core.messages import message_from_wire, user
from antiphon.core.usage import Usage
from antiphon.session_log import SessionLog, SessionStore
from antiphon.session_log.export import fenced, session_html, session_markdown
from antiphon.session_log.export.paint import painted
from antiphon.session_log.export.prose import prose
from antiphon.session_log.totals import context_usage, totals

EVIL = '</pre><script>alert(1)</script><img src=x onerror="alert(2)">'


class Page(HTMLParser):
    """Tags, attributes and words of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend(attrs)
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture
def log(tmp_path: Path) -> SessionLog:
    return SessionStore(tmp_path, cwd="/proj", sources=counting_sources()).in_memory()


def test_everything_that_was_said_is_on_the_page(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, cwd="/proj", sources=counting_sources(), durability="fast")
    with forty_entries(store) as log:
        page = Page(session_html(log))

    assert page.open == []
    for text in ("A session", "question 0", "answer 6", "result 3", "what was before", "a note", "third", "be kind"):
        assert text in page.words


def test_what_was_said_is_never_interpreted(log: SessionLog) -> None:
    log.set_name(EVIL)
    entry = log.append_message(user(EVIL))
    log.set_label(entry, EVIL)
    log.append_message(says(EVIL, errorMessage=EVIL, stopReason="error", model=EVIL))
    log.append_message(calls(EVIL))
    log.append_message(result("c0", EVIL))
    image = {"type": "image", "data": 'AAAA"><script>', "mimeType": "image/png"}
    odd = {"type": "image", "data": "AAAA", "mimeType": "text/html"}
    log.append_message(message_from_wire({"role": "user", "content": [image, odd, {"type": EVIL}]}))
    log.append_custom_message(EVIL, EVIL, display=True)

    page = Page(session_html(log))

    assert page.open == []
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "alert(1)" in page.words


def test_the_page_needs_nothing_else(log: SessionLog) -> None:
    image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    log.append_message(message_from_wire({"role": "user", "content": [image]}))

    page = Page(session_html(log))

    assert ("src", "data:image/png;base64,iVBORw0KGgo=") in page.attributes
    assert not {"script", "link", "iframe"} & set(page.tags)
    assert all((value or "").startswith("#") for name, value in page.attributes if name == "href")
    assert any("default-src 'none'" in (value or "") for _, value in page.attributes)


def test_half_characters_do_not_break_the_page(log: SessionLog) -> None:
    log.append_message(user("x\ud800y"))

    assert "x\ufffdy" in session_html(log).encode().decode()
    assert "x\ufffdy" in session_markdown(log).encode().decode()


def test_markdown_holds_fences_that_no_text_closes(log: SessionLog) -> None:
    log.append_message(user("ask"))
    log.append_message(calls("t"))
    log.append_message(result("c0", "````\nnot the end"))

    text = session_markdown(log)

    assert "## User\n\nask" in text
    assert "Calls `t`" in text
    assert "`````\n````\nnot the end\n`````" in text
    assert fenced("x") == "```\nx\n```"


def test_totals_count_every_branch_and_every_kind_of_usage(log: SessionLog) -> None:
    first = log.append_message(user("a"))
    log.append_message(says("b", usage={"input": 1, "output": 2}))
    log.append_usage("cache_warm", "p", "m", Usage(input=10))
    log.branch_with_summary(first, "left", usage=Usage(output=100))
    log.append_message(calls("t", "t"))
    log.append_compaction("s", None, 1, usage=Usage(input=1000))

    found = totals(log.entries())

    assert (found.usage.input, found.usage.output) == (1011, 102)
    assert found.messages == {"user": 1, "assistant": 2}
    assert found.tool_calls == 2


def test_how_full_the_context_is_is_unknown_after_a_compaction(log: SessionLog) -> None:
    log.append_message(says("a", usage={"input": 500}))
    usage = context_usage(log.projection(), 1000)
    assert (usage.tokens, usage.percent) == (500, 50.0)

    log.append_compaction("s", None, 1)
    assert context_usage(log.projection(), 1000).tokens is None
    log.append_message(says("b", usage={"input": 100}))
    assert context_usage(log.projection(), 1000).tokens == 100
    assert context_usage(log.projection(), 0).percent is None


def test_a_call_is_shown_with_its_result_and_another_way_where_it_leaves(log: SessionLog) -> None:
    html = session_html(fill(log))
    page = Page(html)

    assert page.open == []
    edit = html[html.index(">edit<") : html.index(">src/other.py<")]
    assert '<span class="del">-  12' in edit
    assert "Replaced 1 block." in edit
    assert "no longer shown to the model" in edit
    assert (
        html.index("What I would change")
        < html.index("messages on another way: <bdi>Try it")
        < html.index("Summary of another way")
    )
    hrefs = [value for name, value in page.attributes if name == "href" and value]
    anchors = {f"#{value}" for name, value in page.attributes if name == "id"}
    assert len(hrefs) > 20
    assert set(hrefs) <= anchors, "every link leads somewhere"


def test_the_page_says_what_was_spent(log: SessionLog) -> None:
    words = Page(session_html(fill(log))).words

    assert "132,210 (in 52,904 · cached 122,880 · out 2,335)" in words
    assert "$0.0881" in words
    assert "cache_warm: in 500 · $0.0005" in words
    assert "claude-sonnet-4 · 8.2 s · in 1,234 · cached 20,480 · out 321 · $0.0146" in words


@pytest.mark.parametrize("language", ["py", "ts", "sh", "sql", "html", "diff", "unheard-of"])
@settings(max_examples=40)
@given(st.text("ab1.\"'`#/*-<>!&= \n\\+@(é\U0001f600"))
def test_paint_changes_no_character(language: str, code: str) -> None:
    assert unescape(re.sub(r"</?span[^>]*>", "", painted(code, language))) == code


def test_paint_knows_words_strings_and_comments() -> None:
    assert painted('return "a" # b', "py") == (
        '<span class="k">return</span> <span class="s">&quot;a&quot;</span> <span class="c"># b</span>'
    )
    assert painted("-a\n+b", "diff") == '<span class="del">-a</span>\n<span class="add">+b</span>'
    assert painted("x = 1", "unheard-of") == "x = 1"


@pytest.mark.parametrize("unit", ["<<", "'\"", "`", "**a", "|", "/*", "\x1b]", "1", "```\n", "#", '"""', "\\"])
def test_long_lines_cost_what_they_are_long(unit: str) -> None:
    """A pattern that looks at a line again and again would need minutes for these."""
    start = time.process_time()
    for language in ("py", "ts", "sh", "html"):
        painted(unit * (50_000 // len(unit)), language)
    prose(unit * (80_000 // len(unit)))

    assert time.process_time() - start < 2


def test_every_branch_of_a_deep_and_wide_tree_is_shown_once(log: SessionLog) -> None:
    first = log.append_message(user("root"))
    for number in range(300):
        log.branch(first) if number % 2 else None
        log.append_message(user(f"u{number}."))

    words = Page(session_html(log)).words

    assert all(words.count(f"u{number}.") in (2, 3) for number in range(300)), "in the tree, in the text, as a title"
