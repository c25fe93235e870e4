"""From Markdown, HTML or plain text to blocks of prose: what is only form is taken away, what is said stays."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

Kind = Literal["heading", "prose", "item"]


@dataclass(frozen=True, slots=True)
class Block:
    """One heading, paragraph or list item, on one line."""

    kind: Kind
    text: str
    #: What the author set in bold: the terms to learn, usually.
    bold: tuple[str, ...] = ()


# Every pattern is linear on any input: bounded repeats, or classes that exclude their end.
_FENCE: Final = re.compile(r"^ {0,3}(`{3}|~{3})")
_FRONT_MATTER: Final = re.compile(
    r"\A---[ \t]*\n(?:[A-Za-z_][\w-]*:[^\n]*\n|[ \t-][^\n]*\n){1,60}---[ \t]*(?:\n|\Z)"
)
_HIDDEN: Final = re.compile(
    r"<!--.{0,20000}?-->|<(script|style)\b[^>]{0,500}>.{0,200000}?</\1>", re.DOTALL | re.I
)
_BREAK: Final = re.compile(
    r"<(?:br|p|div|li|h[1-6]|tr)\b[^<>]{0,300}>|</(?:p|div|li|h[1-6]|tr)>", re.I
)
_STRONG: Final = re.compile(r"</?(?:b|strong)>", re.I)
_TAG: Final = re.compile(r"</?[A-Za-z][^<>\n]{0,500}>")
_CODE_CELL: Final = re.compile(r"<(pre)\b[^>]{0,300}>.{0,100000}?</\1>", re.DOTALL | re.I)

_SIGN: Final = re.compile(r"[\[*_`~\\<']|://")
_IMAGE: Final = re.compile(r"!\[[^\[\]\n]{0,500}\](?:\([^()\n]{0,2000}\)|\[[^\[\]\n]{0,200}\])")
_LINK: Final = re.compile(
    r"\[([^\[\]\n]{1,500})\](?:\([^()\n]{0,1000}(?:\([^()\n]{0,200}\)[^()\n]{0,200})?\)|\[[^\[\]\n]{0,200}\])"
)
_WIKI: Final = re.compile(r"\[\[(?:[^\[\]|\n]{1,300}\|)?([^\[\]|\n]{1,300})\]\]")
_CITATION: Final = re.compile(
    r"\s?\[(?:\^?\d{1,3}(?:\s?[,–-]\s?\d{1,3}){0,9}|\^[\w-]{1,40}|citation needed|note \d+|[a-z])\]"
)
_URL: Final = re.compile(
    r"<?\b(?:https?|ftp)://[^\s<>()\[\]]{1,2000}[^\s<>()\[\].,;:!?'\"]>?|<[\w.+-]{1,64}@[\w.-]{1,100}>"
)
_BOLD: Final = re.compile(r"(\*\*|__|''')(?=\S)([^*_\n']{1,80}?)(?<=\S)\1")
_EMPHASIS: Final = re.compile(
    r"(?<![\w*])\*(?=[^\s*])([^*\n]{1,500}?)(?<=\S)\*(?![\w*])|(?<!\w)_(?=\S)([^_\n]{1,500}?)(?<=\S)_(?!\w)"
)
_TICKS: Final = re.compile(r"(`{1,3})([^`\n]{1,500})\1")
_STRUCK: Final = re.compile(r"~~([^~\n]{1,500})~~")
_ESCAPE: Final = re.compile(r"\\([\\`*_{}\[\]()#+.!|>~-])")
_EMPTY_BRACKETS: Final = re.compile(r"\s?(?:\(\s*[,;]?\s*\)|\[\s*\])")
_SPACE: Final = re.compile(r"[ \t\u00a0\u2000-\u200a\u202f\u3000]+")
_INVISIBLE: Final = re.compile(
    "[\u0000-\u0008\u000b\u000e-\u001f\u007f-\u0084\u0086-\u009f\u00ad"
    "\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\ufffe\uffff\ud800-\udfff]"
)

_HEADING: Final = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t#]*$")
_UNDERLINE: Final = re.compile(r"^([=\-~^\"'+#*])\1{2,}\s*$")
_DIRECTIVE: Final = re.compile(r"^\s*(?:\.\.\s|:[A-Za-z][\w-]*:)")
_RST_LINK: Final = re.compile(
    r"`([^`<>\n]{1,200}?)\s*<[^<>\n]{1,500}>`_{0,2}|`([^`\n]{1,200})`_{1,2}"
)
_RULE: Final = re.compile(r"^\s*(?:[-*_=][ \t]*){3,}$")
_ITEM: Final = re.compile(
    r"^\s*(?:[-*+•‣◦▪●–—]|\(?\d{1,3}[.)]|[a-z]\)|\(?[ivx]{1,4}\)|[一二三四五六七八九十]{1,3}、)"
    r"[ \t]*(?:\[[ xX]\][ \t]+)?(?=\S)"
)
_BULLET_SPACE: Final = re.compile(r"^\s*[-*+–—]\S")
_QUOTE_MARK: Final = re.compile(r"^\s{0,3}(?:>[ \t]?)+")
_DEFINED: Final = re.compile(r"^\s{0,3}\[(?!\^)[^\]\n]{1,100}\]:\s*\S+")
_FOOTNOTE: Final = re.compile(r"^\s{0,3}\[\^[^\]\n]{1,50}\]:\s*")
_TABLE_ROW: Final = re.compile(
    r"^\s*\|.*\|\s*$|^\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)+\|?\s*$"
)
#: Lines that carry no prose.
_FORMS: Final = (_RULE, _DEFINED, _TABLE_ROW, _DIRECTIVE)
_CODE_SIGN: Final = re.compile(r"[(){}=;:<>$@/*-]")
_CODE_END: Final = re.compile(r"[{}]\s*$|\)\s*;\s*$|=.*;\s*$|^\s*\w+;\s*$|^\s*[})\]]+[;,)]*\s*$")
_CODE_START: Final = re.compile(
    r"^\s*(?:def|class|async def|import|from\s+[\w.]+\s+import|return|raise|elif|except"
    r"|try:|else:|finally:|#include|#define"
    r"|public|private|protected|static|function|const|let|var|func|fn|struct|enum|package|using|namespace|SELECT|INSERT"
    r"|UPDATE|DELETE|CREATE|\$|>>>|@\w+)\b.*[(){}=;:<>$]|^\s*(?:if|for|while|with)\b.*:\s*$|^\s*[\w.\[\]]+\s*(?:[-+*/|&]?=|:=)\s*\S+"
    r"|^\s*[\w.]+\([^)]*\)\s*;?\s*$|^\s*(?://|/\*|\*/|--\s)"
)
_COMMENT: Final = re.compile(r"^\s*(?://+|/\*+|\*+/?|#+(?!\w)|--)\s*")


#: Lines that are looked at where a text is all code.
_LOOSE: Final = 2_000


def read_blocks(text: str) -> list[Block]:
    """All blocks of prose in ``text``, in order. Code, tables, images, addresses and marks are left out.

    Where nothing is left, the text was all code or table; then its words are taken as they stand.
    """
    plain = _normal(text)
    stripped = _without_fences(_FRONT_MATTER.sub("", plain, count=1))
    blocks = list(_blocks(stripped))
    if any(_has_word(block.text) for block in blocks):
        return blocks
    loose = re.sub(r"[`~|#*_={}<>\\]+", " ", plain)
    lines = dict.fromkeys(_tidy(_COMMENT.sub("", line)) for line in loose.splitlines()[:_LOOSE])
    return [Block("prose", line) for line in lines if _has_word(line)]


def _normal(text: str) -> str:
    text = unicodedata.normalize("NFC", text).replace("\r\n", "\n").replace("\r", "\n")
    text = re.sub("[\u0085\u2028\u2029\x0b\x0c]", "\n", text)
    return _INVISIBLE.sub("", text)


def _has_word(text: str) -> bool:
    return any(char.isalnum() for char in text)


def _without_fences(text: str) -> str:
    """Leave out fenced code; a fence that nobody closes is only a line."""
    if "```" not in text and "~~~" not in text:
        return text
    kept: list[str] = []
    fenced: list[str] = []
    mark = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if mark:
            fenced.append(line)
            if found and found.group(1) == mark:
                mark, fenced = "", []
        elif found:
            mark, fenced = found.group(1), [""]
        else:
            kept.append(line)
    return "\n".join([*kept, *fenced])


def _strip_html(text: str) -> str:
    if "<" in text:
        text = _CODE_CELL.sub("\n\n", _HIDDEN.sub("\n", text))
        text = _STRONG.sub("**", _BREAK.sub("\n\n", text))
        text = _TAG.sub("", text)
    return html.unescape(text) if "&" in text else text


def _blocks(text: str) -> Iterator[Block]:
    paragraph: list[str] = []
    kind: Kind = "prose"
    in_code = False
    for line in [*_strip_html(text).split("\n"), ""]:
        bare = _without_mark(line)
        in_code = is_code(bare) or (in_code and bare.startswith(("  ", "\t")))
        if paragraph and kind == "prose" and _UNDERLINE.match(bare):
            yield from _finish("heading", paragraph)
            paragraph = []
            continue
        found = _Line("blank") if in_code else _read_line(bare)
        if found.kind == "text" and paragraph:
            paragraph.append(found.text)
            continue
        if paragraph:
            yield from _finish(kind, paragraph)
        if found.kind == "heading":
            yield from _finish("heading", [found.text])
        kind = "item" if found.kind == "item" else "prose"
        paragraph = [found.text] if found.kind in ("item", "text") else []


@dataclass(frozen=True, slots=True)
class _Line:
    kind: Literal["blank", "heading", "item", "text"]
    text: str = ""


def _read_line(line: str) -> _Line:
    if not line.strip() or any(form.match(line) for form in _FORMS):
        return _Line("blank")
    heading = _HEADING.match(line)
    if heading:
        return _Line("heading", heading.group(1))
    item = _ITEM.match(line)
    if item and not _BULLET_SPACE.match(line):
        return _Line("item", line[item.end() :])
    return _Line("text", line.strip())


def _without_mark(line: str) -> str:
    """A line without the signs of a quotation or a footnote in front."""
    line = _QUOTE_MARK.sub("", line) if ">" in line[:4] else line
    return _FOOTNOTE.sub("", line) if "[^" in line[:6] else line


def is_code(line: str) -> bool:
    """Whether a line is more likely program than prose."""
    if len(line) > 400 or not _CODE_SIGN.search(line):
        return False
    return bool(_CODE_START.search(line) or _CODE_END.search(line))


def _finish(kind: Kind, lines: list[str]) -> Iterator[Block]:
    for paragraph in _rejoin(lines):
        bold = tuple(dict.fromkeys(_tidy(_inline(m.group(2))) for m in _BOLD.finditer(paragraph)))
        text = _tidy(_inline(paragraph))
        if _has_word(text):
            all_bold = (
                len(bold) == 1 and bold[0].rstrip(":.") == text.rstrip(":.") and len(text) < 80
            )
            yield Block("heading" if all_bold else kind, text, bold)


def _rejoin(lines: list[str]) -> Iterator[str]:
    """Undo hard wrapping, yet keep lines that stand for themselves."""
    if not lines:
        return
    widest = max(map(len, lines))
    current = lines[0]
    for before, line in pairwise(lines):
        if _continues(before, line, widest):
            gap = "" if _is_wide(before[-1:]) and _is_wide(line[:1]) else " "
            current = f"{current.rstrip()}{gap}{line}"
        else:
            yield current
            current = line
    yield current


def _continues(before: str, line: str, widest: int) -> bool:
    end = before.rstrip()[-1:]
    if end in ".!?。！？…:：;；":
        # Sentences are told apart later; only a list of short lines is kept apart here.
        return len(before) > 0.6 * widest or end in ";；:："
    if line[:1].islower() or end in ",，、(（-–—" or _is_wide(end):
        return True
    return len(before) >= max(0.7 * widest, 45)


def _is_wide(char: str) -> bool:
    return bool(char) and unicodedata.east_asian_width(char) in "WF"


def _inline(text: str) -> str:
    if not _SIGN.search(text):
        return text
    text = _RST_LINK.sub(lambda m: m.group(1) or m.group(2), _IMAGE.sub("", text))
    text = _LINK.sub(r"\1", _WIKI.sub(r"\1", text))
    text = _URL.sub("", _CITATION.sub("", text))
    text = _BOLD.sub(r"\2", _TICKS.sub(r"\2", text))
    text = _STRUCK.sub(r"\1", _EMPHASIS.sub(lambda m: m.group(1) or m.group(2), text))
    return _ESCAPE.sub(r"\1", text)


def _tidy(text: str) -> str:
    text = _SPACE.sub(" ", _EMPTY_BRACKETS.sub("", text))
    return re.sub(r" +([,.;:!?])(?=\s|$)", r"\1", text).strip(" \t-–—|•*_`~#")
