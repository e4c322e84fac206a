"""Regular expressions in the dialect of ripgrep, searched line by line in time that cannot explode.

Start with `pattern.py` (what a search asks for), then `parser.py` (the dialect). Everything here is pure; the
standard library is all it needs.
"""

from antiphon.tools.regex.pattern import Pattern
from antiphon.tools.regex.syntax import BadPattern

__all__ = ["BadPattern", "Pattern"]
