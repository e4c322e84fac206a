"""The page in a real browser: how it looks, that it works without network and scripts, and that nothing in it runs.

Slow, so run by name; `--basetemp` keeps the pictures for looking at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.session_log.browser import DARK, Browser, found_browser
from tests.session_log.make import counting_sources, says
from tests.session_log.rich import answer, call, fill, result, text

from antiphon.core.messages import message_from_wire, user
from antiphon.session_log import SessionLog, SessionStore
from antiphon.session_log.export import session_html

pytestmark = pytest.mark.slow

LIGHT_COLOURS = {"ground": (255, 255, 255), "tree": (244, 246, 248), "added": (227, 246, 232), "gone": (253, 234, 234)}
DARK_COLOURS = {"ground": (20, 23, 26), "tree": (28, 33, 38), "added": (18, 48, 29), "gone": (58, 26, 29)}


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return found_browser(tmp_path)


@pytest.fixture
def log(tmp_path: Path) -> SessionLog:
    return SessionStore(tmp_path, cwd="/home/ada/parser", sources=counting_sources()).in_memory()


def page_of(log: SessionLog, folder: Path, *, unfolded: bool = False) -> Path:
    path = folder / "page.html"
    html = session_html(log)
    path.write_text(html.replace("<details", "<details open") if unfolded else html, encoding="utf-8")
    return path


@pytest.mark.parametrize(("options", "colours"), [((), LIGHT_COLOURS), ((DARK,), DARK_COLOURS)], ids=["light", "dark"])
def test_tree_diffs_and_pictures_are_seen(
    browser: Browser, log: SessionLog, tmp_path: Path, options: tuple[str, ...], colours: dict[str, Any]
) -> None:
    seen = browser.picture(page_of(fill(log), tmp_path, unfolded=True), 1200, 3400, *options)

    assert seen.at(2, 2) == colours["tree"], "the tree stands at the left edge"
    assert seen.at(1198, 2) == colours["ground"]
    count = seen.colours()
    assert count[colours["ground"]] > 200_000
    assert count[colours["added"]] > 2_000, "lines that came have a colour"
    assert count[colours["gone"]] > 2_000, "lines that went have a colour"
    assert sum(number for (_, _, blue), number in count.items() if blue == 200) > 10_000, "the picture is shown"
    assert len(count) > 300, "words are not all of one colour"


def test_a_narrow_window_needs_no_sideways_scrolling(browser: Browser, log: SessionLog, tmp_path: Path) -> None:
    """What is wider than the window would be cut off: the frame of every article is seen at both edges."""
    log.append_message(user("x" * 5_000))
    log.append_message(answer(text("`" + "y" * 5_000 + "`"), call("c", "bash", command="z" * 5_000)))

    seen = browser.picture(page_of(log, tmp_path), 500, 900)

    frame = (156, 193, 238)
    rows = [y for y in range(900) if seen.at(30, y) == frame]
    assert rows, "the article of the user has a frame"
    assert all(seen.at(x, rows[0]) == frame for x in (30, 250, 470)), "it ends inside of the window"


def test_the_words_are_there_without_scripts(browser: Browser, log: SessionLog, tmp_path: Path) -> None:
    """Not a pixel depends on them."""
    page = page_of(fill(log), tmp_path)
    with_scripts = browser.picture(page, 700, 1400)
    browser.scripts = False
    other = tmp_path / "other.html"
    other.write_text("<title>quiet</title><script>document.title = 'ran'</script>", encoding="utf-8")
    assert "<title>quiet" in browser.dom(other), "scripts are switched off"

    assert browser.picture(page, 700, 1400).rows == with_scripts.rows
    dom = browser.dom(page)
    words = re.sub(r"<[^>]+>", "", dom)
    for said in (
        "The parser hangs",
        "Look at read_line first",
        "at most so many bytes",
        "1 failed in 0.12s",
        "$0.0881",
    ):
        assert said in words
    assert dom.count("<details") > 10
    assert "<details open" not in dom, "all is folded"


class Server(ThreadingHTTPServer):
    """Counts who calls."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        self.server.paths.append(self.path)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        return


@contextmanager
def listening() -> Iterator[Server]:
    server = Server()
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def evils(url: str) -> list[str]:
    """Texts that would do something if they were taken for parts of a page."""
    return [
        f'</pre></div></details><script>document.title="owned";fetch("{url}/script")</script>',
        f'</script></style></title></textarea><img src="{url}/img" onerror="document.title=\'owned\'">',
        '<iframe src="data:text/html,<script>parent.document.title=1</script>"></iframe>'
        f'<link href="{url}/css" rel=stylesheet>',
        f"[click](javascript:document.title='owned') <a href='javascript:alert(1)'>x</a> <base href='{url}/base/'>",
        f'<meta http-equiv="refresh" content="0;url={url}/refresh"><form action="{url}/form"><input autofocus>',
        f"<!-- --!><svg onload=\"fetch('{url}/svg')\"></svg> ]]> <style>@import '{url}/style';</style>",
        "\u2028<script>document.title='owned'</script>\u2029\x00\x1b[31m\u202e\ud800</script>",
        "![x](" + url + "/markdown) `</code><script>document.title='owned'</script>` **<b onmouseover=alert(1)>**",
        "```html\n</pre><script>document.title='owned'</script>\n```\n| <script>document.title='owned'</script> |",
        "<<" * 200_000,
        "'\"" * 200_000,
    ]


TAGS = {
    *("body", "div", "nav", "header", "main", "article", "footer", "details", "summary", "span", "bdi", "a", "time"),
    *("p", "h", "ul", "li", "dl", "dt", "dd", "pre", "code", "strong", "table", "tbody", "tr", "td", "th"),
}


def fill_with(log: SessionLog, evil: str, number: int) -> None:
    """The text in every place that a page shows."""
    log.set_name(evil[:200])
    entry = log.append_message(user(evil))
    log.set_label(entry, evil[:200])
    thinking = {"type": "thinking", "thinking": evil}
    log.append_message(
        answer(thinking, text(evil), call(f"c{number}", evil[:300], path=evil, command=evil), model=evil[:99])
    )
    shown = {"type": "image", "data": 'AAAA"><script>document.title="owned"</script>', "mimeType": "image/png"}
    odd = {"type": "image", "data": "PHN2Zz4=", "mimeType": "image/svg+xml"}
    log.append_message(
        result(f"c{number}", "t", text(evil), shown, odd, {"type": evil[:50]}, details={"diff": "+" + evil})
    )
    log.append_message(says(evil, errorMessage=evil, stopReason="error"))
    log.append_custom_message(evil[:99], evil, display=True)
    log.append_message(message_from_wire({"role": "bashExecution", "command": evil, "output": evil}))
    log.branch_with_summary(entry, evil)
    log.append_context_edit(entry, evil)


def test_nothing_that_was_said_runs_or_calls_home(browser: Browser, log: SessionLog, tmp_path: Path) -> None:
    with listening() as server:
        naked = tmp_path / "naked.html"
        naked.write_text("<title>mine</title>" + evils(server.url)[1], encoding="utf-8")
        assert "<title>owned" in browser.dom(naked), "without care the text would run"
        assert server.paths, "and call home"
        server.paths.clear()
        for number, evil in enumerate(evils(server.url)):
            fill_with(log, evil, number)
        log.set_name("mine")

        dom = browser.dom(page_of(log, tmp_path))

        assert server.paths == []
    assert "<title>mine</title>" in dom
    body = dom[dom.index("<body") :]
    assert set(re.findall(r"<([a-z]+)", body)) <= TAGS
    assert set(re.findall(r'<a [^>]*href="([^"]?)', body)) == {"#"}
