"""A session to read: one page of HTML (`page.py`), or Markdown (`markdown.py`).

May import what its package may. Start reading in `page.py`: `steps.py` puts the entries in reading order, `articles.py`
and `calls.py` turn each into HTML, `prose.py` and `paint.py` write text and code.
"""

from antiphon.session_log.export.markdown import fenced, session_markdown
from antiphon.session_log.export.page import session_html

__all__ = ["fenced", "session_html", "session_markdown"]
