"""The part of the dialect that names sets of characters: escapes, and brackets with their operators. Pure."""

from __future__ import annotations

from antiphon.tools.regex.charset import DIGIT, EMPTY, SPACE, WORD, CharSet, of_chars, of_ranges
from antiphon.tools.regex.cursor import MAX_DEPTH, Cursor, Flags
from antiphon.tools.regex.properties import ascii_class, property_class

_CLASSES = {"d": DIGIT, "s": SPACE, "w": WORD}
_CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}


class SetParser(Cursor):
    """Reads what stands for one character."""

    def escaped_set(self, char: str, flags: Flags, start: int) -> CharSet:
        """What `\\` and `char` stand for, outside or inside brackets."""
        if char.lower() in _CLASSES:
            members = _CLASSES[char.lower()]
            return members if char.islower() else ~members
        if char in "pP":
            members = self._property(start)
            members = members.folded() if flags.ignore_case else members
            return members if char == "p" else ~members
        members = of_chars(self._escaped_char(char, start))
        return members.folded() if flags.ignore_case else members

    def _property(self, start: int) -> CharSet:
        name = self.until("}", "unclosed property name") if self.take("{") else self.next("incomplete property name")
        members = property_class(name)
        if members is None:
            raise self.fault(f"Unicode property '{name}' is not known here", start)
        return members

    def _escaped_char(self, char: str, start: int) -> str:
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char in _HEX_DIGITS:
            return self._hexadecimal(_HEX_DIGITS[char])
        if char.isdecimal():
            raise self.fault("back references are not supported (for a byte in octal write \\x..)", start)
        if char.isascii() and not char.isalnum() and char.isprintable() and char not in "<>":
            return char
        raise self.fault(f"unrecognized escape sequence '\\{char}'", start)

    def _hexadecimal(self, digits: int) -> str:
        start = self.at
        if self.take("{"):
            text = self.until("}", "unclosed hexadecimal escape")
        else:
            text = self.text[self.at : self.at + digits]
            self.at += digits
            if len(text) < digits:
                raise self.fault("incomplete escape sequence, reached end of pattern prematurely")
        if not text or not all(char in "0123456789abcdefABCDEF" for char in text):
            raise self.fault("invalid hexadecimal digit", start)
        code = int(text, 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise self.fault("this number is not that of a character", start)
        return chr(code)

    def bracketed(self, flags: Flags, depth: int, start: int) -> CharSet:
        """The set in brackets; the opening one has been read."""
        if depth > MAX_DEPTH:
            raise self.fault(f"brackets are nested deeper than {MAX_DEPTH} levels")
        negated = self.take("^")
        members = self._union(flags, depth, start, first=True)
        while not self.take("]"):
            if self.take("&&"):
                members = members & self._union(flags, depth, start)
            elif self.take("--"):
                members = members - self._union(flags, depth, start)
            elif self.take("~~"):
                members = members ^ self._union(flags, depth, start)
        return ~members if negated else members

    def _union(self, flags: Flags, depth: int, start: int, *, first: bool = False) -> CharSet:
        """Items up to an operator or the closing bracket."""
        members = EMPTY
        if first:
            while self.take("-"):  # a dash in front is itself, however many there are
                members = members | of_chars("-")
            if not members.ascii and self.take("]"):
                members = self._class_range("]", flags, start)
        while True:
            if flags.spaced:
                self.skip_blank()
            if self.at_end:
                raise self.fault("unclosed character class", start)
            if self.peek("]") or self.peek("&&") or self.peek("--") or self.peek("~~"):
                return members
            members = members | self._class_item(flags, depth, start)

    def _class_item(self, flags: Flags, depth: int, start: int) -> CharSet:
        begun = self.at
        char = self.next("unclosed character class")
        if char == "[":
            return self._ascii_class(flags) or self.bracketed(flags, depth + 1, begun)
        if char != "\\":
            return self._class_range(char, flags, start)
        char = self.next("unclosed character class")
        if char in "dswDSWpP":
            members = self.escaped_set(char, flags, begun)
            if self.peek("-") and not self.text.startswith(("-]", "--"), self.at):
                raise self.fault("invalid range boundary, must be a literal", begun)
            return members
        return self._class_range(self._escaped_char(char, begun), flags, start)

    def _class_range(self, first: str, flags: Flags, start: int) -> CharSet:
        """One character, or a range if a dash and another one follow."""
        begun = self.at
        last = first
        if self.peek("-") and not self.text.startswith(("-]", "--"), self.at) and self.at + 1 < len(self.text):
            self.at += 1
            last = self.next("unclosed character class")
            if last == "\\":
                escaped = self.next("unclosed character class")
                if escaped in "dswDSWpP":
                    raise self.fault("invalid range boundary, must be a literal", begun)
                last = self._escaped_char(escaped, begun)
        if last < first:
            raise self.fault("invalid character class range, the start must be <= the end", begun)
        members = of_ranges(((ord(first), ord(last)),))
        return members.folded() if flags.ignore_case else members

    def _ascii_class(self, flags: Flags) -> CharSet | None:
        """The rest of `[:name:]`; None, and nothing read, if these brackets are something else."""
        end = self.text.find(":]", self.at)
        if not self.peek(":") or end < 0:
            return None
        name = self.text[self.at + 1 : end]
        members = ascii_class(name.removeprefix("^"))
        if members is None:
            return None
        self.at = end + 2
        members = members.folded() if flags.ignore_case else members
        return ~members if name.startswith("^") else members
