"""A place in a text of MLIR assembly: blanks and comments skipped, tokens taken, complaints located."""

from __future__ import annotations

import re
from typing import NoReturn

from tensorir.runtime.errors import Diagnostic, DiagnosticError, Source, Span

__all__ = ["Cursor"]

_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*)*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_VALUE = re.compile(r"%([A-Za-z0-9_$.\-]+)")
_INTEGER = re.compile(r"-?(?:0x[0-9A-Fa-f]+|[0-9]+)")
_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?")
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_SYMBOL = re.compile(r'@(?:([A-Za-z_][A-Za-z0-9_$.\-]*)|"((?:[^"\\\n]|\\.)*)")')
_ESCAPE = re.compile(r"\\(?:([0-9A-Fa-f]{2})|(.))")
_TOKEN = re.compile(r'->|::|[%@#!^]?[A-Za-z0-9_$.\-]+|"(?:[^"\\\n]|\\.)*"|.', re.DOTALL)


class Cursor:
    """The text and the position in it, which always stands at a token, or at the end."""

    __slots__ = ("end", "pos", "source", "text")

    source: Source
    text: str
    pos: int
    end: int

    def __init__(self, source: Source) -> None:
        self.source, self.text, self.pos, self.end = source, source.text, 0, 0
        self.skip()

    def skip(self) -> None:
        """Past the blanks and comments after what was taken, whose end is kept."""
        self.end = self.pos
        self.pos = _BLANK.match(self.text, self.pos).end()  # type: ignore[union-attr]

    def fail(
        self, code: str, message: str, help: str = "", start: int | None = None, stop: int | None = None
    ) -> NoReturn:
        """Refuse the text, at the next token or at the characters that are given."""
        if start is None:
            start, stop = self.pos, self.token_end()
        raise DiagnosticError(Diagnostic(code, message, Span(self.source, start, stop or start + 1), help=help))

    def token_end(self) -> int:
        found = _TOKEN.match(self.text, self.pos)
        return found.end() if found else self.pos

    def shown(self) -> str:
        """The next token, for a message."""
        return repr(self.text[self.pos : self.token_end()][:40]) if self.pos < len(self.text) else "the end of the text"

    def peek(self, literal: str) -> bool:
        """Whether the text goes on with punctuation, or with a whole word."""
        if not self.text.startswith(literal, self.pos):
            return False
        if literal[-1].isalnum() or literal[-1] == "_":
            after = self.text[self.pos + len(literal) : self.pos + len(literal) + 1]
            return not (after.isalnum() or after in ("_", "$", "."))
        return True

    def accept(self, literal: str) -> bool:
        if self.peek(literal):
            self.end = self.pos + len(literal)
            self.pos = _BLANK.match(self.text, self.end).end()  # type: ignore[union-attr]
            return True
        return False

    def expect(self, literal: str, where: str = "") -> None:
        if not self.accept(literal):
            self.fail("TM01", f"'{literal}' is expected{where and f' {where}'}, and here stands {self.shown()}.")

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.pos)
        if found:
            self.end = found.end()
            self.pos = _BLANK.match(self.text, self.end).end()  # type: ignore[union-attr]
        return found

    def word(self) -> str | None:
        """A name with dots, such as the name of an operation."""
        found = self._take(_WORD)
        return found[0] if found else None

    def peek_word(self) -> str | None:
        found = _WORD.match(self.text, self.pos)
        return found[0] if found else None

    def keyword(self, what: str) -> str:
        found = self._take(_NAME)
        if found is None:
            self.fail("TM01", f"{what} is expected, and here stands {self.shown()}.")
        return found[0]

    def value_name(self) -> str | None:
        found = self._take(_VALUE)
        return found[1] if found else None

    def float_text(self) -> str | None:
        found = self._take(_FLOAT)
        return found[0] if found else None

    def integer_text(self) -> str | None:
        """Digits, with a sign or as hexadecimal; digits before an `x` are those of an extent."""
        found = self._take(_INTEGER)
        return found[0] if found else None

    def integer(self, what: str = "an integer") -> int:
        start = self.pos
        text = self.integer_text()
        if text is None:
            self.fail("TM01", f"{what} is expected, and here stands {self.shown()}.")
        if len(text) > 100:
            self.fail("TM02", "this number is longer than any that fits.", "", start, start + len(text))
        return int(text, 16 if "x" in text else 10)

    def string(self) -> str | None:
        found = self._take(_STRING)
        return self.unescaped(found[1], found.start()) if found else None

    def symbol(self, what: str = "a name with '@'") -> str:
        found = self._take(_SYMBOL)
        if found is None:
            self.fail("TM01", f"{what} is expected, and here stands {self.shown()}.")
        return found[1] if found[1] is not None else self.unescaped(found[2], found.start())

    def unescaped(self, text: str, start: int) -> str:
        """The string that escapes stand for: two hexadecimal digits are a byte of UTF-8."""
        if "\\" not in text:
            return text
        raw, last = bytearray(), 0
        for found in _ESCAPE.finditer(text):
            raw += text[last : found.start()].encode()
            if found[1]:
                raw.append(int(found[1], 16))
            elif (known := {"n": "\n", "t": "\t", "\\": "\\", '"': '"'}.get(found[2])) is not None:
                raw += known.encode()
            else:
                self.fail("TM03", f"'\\{found[2]}' is no escape in a string.", "", start, start + len(text) + 2)
            last = found.end()
        raw += text[last:].encode()
        return raw.decode("utf-8", "surrogateescape")

    def span(self, start: int) -> Span:
        """The characters from `start` to the end of what was taken last."""
        return Span(self.source, start, max(self.end, start + 1))

    def span_of_token(self, start: int) -> Span:
        found = _TOKEN.match(self.text, start)
        return Span(self.source, start, found.end() if found else start + 1)
