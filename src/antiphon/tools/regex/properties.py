"""Classes that are known by name: `\\p{Greek}`, `\\p{Lu}`, `[:alpha:]`. Pure."""

from __future__ import annotations

from antiphon.tools.regex.charset import ANY, SPACE, CharSet, in_categories, of_chars, of_ranges
from antiphon.tools.regex.scripts import TABLES

_LETTERS = "L M N P S Z C Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn"
_CATEGORIES: dict[str, tuple[str, ...]] = {
    **{name.lower(): (name,) for name in _LETTERS.split()},
    "letter": ("L",),
    "casedletter": ("Lu", "Ll", "Lt"),
    "lc": ("Lu", "Ll", "Lt"),
    "uppercaseletter": ("Lu",),
    "lowercaseletter": ("Ll",),
    "titlecaseletter": ("Lt",),
    "modifierletter": ("Lm",),
    "otherletter": ("Lo",),
    "mark": ("M",),
    "nonspacingmark": ("Mn",),
    "spacingmark": ("Mc",),
    "enclosingmark": ("Me",),
    "number": ("N",),
    "decimalnumber": ("Nd",),
    "digit": ("Nd",),
    "letternumber": ("Nl",),
    "othernumber": ("No",),
    "punctuation": ("P",),
    "punct": ("P",),
    "connectorpunctuation": ("Pc",),
    "dashpunctuation": ("Pd",),
    "openpunctuation": ("Ps",),
    "closepunctuation": ("Pe",),
    "initialpunctuation": ("Pi",),
    "finalpunctuation": ("Pf",),
    "otherpunctuation": ("Po",),
    "symbol": ("S",),
    "mathsymbol": ("Sm",),
    "currencysymbol": ("Sc",),
    "modifiersymbol": ("Sk",),
    "othersymbol": ("So",),
    "separator": ("Z",),
    "spaceseparator": ("Zs",),
    "lineseparator": ("Zl",),
    "paragraphseparator": ("Zp",),
    "other": ("C",),
    "control": ("Cc",),
    "cntrl": ("Cc",),
    "format": ("Cf",),
    "privateuse": ("Co",),
    "unassigned": ("Cn",),
}

_ASCII: dict[str, CharSet] = {
    "alnum": of_ranges(((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A))),
    "alpha": of_ranges(((0x41, 0x5A), (0x61, 0x7A))),
    "ascii": of_ranges(((0, 0x7F),)),
    "blank": of_chars("\t "),
    "cntrl": of_ranges(((0, 0x1F), (0x7F, 0x7F))),
    "digit": of_ranges(((0x30, 0x39),)),
    "graph": of_ranges(((0x21, 0x7E),)),
    "lower": of_ranges(((0x61, 0x7A),)),
    "print": of_ranges(((0x20, 0x7E),)),
    "punct": of_ranges(((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E))),
    "space": of_ranges(((9, 13), (32, 32))),
    "upper": of_ranges(((0x41, 0x5A),)),
    "word": of_ranges(((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))),
    "xdigit": of_ranges(((0x30, 0x39), (0x41, 0x46), (0x61, 0x66))),
}


def ascii_class(name: str) -> CharSet | None:
    """The set of `[:name:]`."""
    return _ASCII.get(name)


def property_class(name: str) -> CharSet | None:
    """The set of `\\p{name}`: a general category, a script (the usual ones), or one of a few properties."""
    key, equals, value = name.partition("=")
    if equals:
        key = _plain(key)
        if key in ("gc", "generalcategory"):
            return _category(_plain(value))
        return _table(_plain(value)) if key in ("sc", "script") else None
    key = _plain(key)
    if key == "any":
        return ANY
    if key == "ascii":
        return _ASCII["ascii"]
    if key in ("whitespace", "wspace", "space"):
        return SPACE
    return _category(key) or _table(key)


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "").replace(" ", "").replace("-", "")


def _category(key: str) -> CharSet | None:
    if key == "assigned":
        return ~in_categories("Cn")
    names = _CATEGORIES.get(key)
    return None if names is None else in_categories(*names)


def _table(key: str) -> CharSet | None:
    text = TABLES.get(key)
    if text is None:
        return None
    pairs = (part.partition("-") for part in text.split())
    return of_ranges((int(first, 16), int(last or first, 16)) for first, _, last in pairs)
