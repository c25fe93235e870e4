"""Questions that a Chinese sentence answers, by the pattern of the sentence."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from engine.providers.offline.facts import Kind


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its answer; ``about`` is what a definition defines."""

    text: str
    answer: str
    kind: Kind
    weight: float
    about: str = ""


_NOUN: Final = r"[^，。；：！？、\s“”]"
_DATE: Final = r"(?:公元前?)?\d{1,4}(?:年(?:\d{1,2}月)?(?:\d{1,2}[日号])?|世纪(?:\d0年代)?)"
_MADE: Final = "发明|发现|提出|创立|建立|创作|撰写|发表|出版|获得|统一|写|设计|制造"
_BEGAN: Final = (
    "成立|建|建成|出生|诞生|始建|创立|创办|爆发|发生|开始|结束|去世|逝世|发明|完成|出版|发表|始|终"
)
#: The character before 是 must not make another word of it.
_IS: Final = re.compile(
    rf"^(?P<x>{_NOUN}{{1,18}}?)"
    r"(?:（[^（）]{1,40}）|\([^()]{1,40}\)|，(?:又称|也叫|亦称|简称|又名|全称)[^，]{1,16}，)?"
    r"(?<![不就都也还只可总但而若或于要正便乃凡算更多真])(?:是指|指的是|指|是)"
    r"(?!否|的|非|不是)(?P<y>.{2,160})$"
)
_CALLED: Final = re.compile(
    rf"^(?P<x>{_NOUN}{{2,30}}?)(?:通常|一般|又|也|亦|常)?"
    r"(?P<v>被称为|被称作|称为|称作|叫做|叫作|被叫做|被誉为)(?P<y>[^，。；的]{2,20})$"
)
_WHERE: Final = re.compile(
    rf"^(?P<x>{_NOUN}{{2,18}}?)(?P<v>位于|坐落于|地处|发源于|生活在|分布在|分布于)"
    r"(?P<y>[^。；]{2,40})$"
)
_MADE_OF: Final = re.compile(
    rf"^(?P<x>{_NOUN}{{2,18}}?)(?:主要)?由(?P<y>[^。；]{{2,60}}?)(?P<v>组成|构成)$"
)
_HAS_PARTS: Final = re.compile(
    rf"^(?P<x>{_NOUN}{{2,18}}?)(?:主要)?(?:可)?(?P<v>包括|包含|分为|含有)(?P<y>[^。；]{{2,60}})$"
)
_WHEN: Final = re.compile(rf"^(?P<x>{_NOUN}{{2,20}}?)(?P<v>{_BEGAN})于(?P<y>{_DATE})")
_IN_YEAR: Final = re.compile(
    rf"^(?P<when>{_DATE})，?(?P<x>[^，。；\d]{{2,16}}?)"
    rf"(?P<v>(?:首次)?(?:{_MADE})了)(?P<y>[^。；]{{2,40}})$"
)
_MAKER: Final = re.compile(
    rf"^(?P<x>[\u3400-\u9fff·]{{2,12}}?)(?:首先|最早|首次)?(?P<v>(?:{_MADE})了)(?P<y>[^。；]{{2,40}})$"
)
_BECAUSE: Final = re.compile(r"^(?P<x>[^，。；]{3,30})，?(?:是)?因为(?P<y>[^。；]{4,80})$")
#: Where a second statement begins.
_SECOND: Final = re.compile(r"，(?=也|并|而|但|它|他|她|这|其中|同时|后来|所以|因此)")
#: A clause with a subject of its own.
_OTHER: Final = re.compile(
    r"(?!也|又|更|还|都|既|即|就|可|不|并|主要|通常|一般|其|往往|同时|而|尤其)"
    rf"{_NOUN}{{1,11}}{_NOUN}(?<![不就都也还只可总但而若或于要正便乃凡算更多真的])是(?!否|的|非)[^，]+$"
)
#: What opens a condition ends behind the comma.
_CONDITION: Final = re.compile(r"^(?:当|如果|在)|(?:时|后|下|时候)$")
_VERB_INSIDE: Final = re.compile(r"有|是|在|把|将|使|一种|一个|的$")
_PERSON: Final = re.compile(
    r"(?:学家|家|诗人|作家|皇帝|国王|总统|主席|将军|医生|教授|院士|工程师|演员|歌手|画家|领袖|创始人"
    r"|人物|奠基人|发明者|发明人|代表人|主人|之父|君主|丞相)(?:之一)?$"
)
_NO_PERSON: Final = re.compile(r"(?:国|商|厂|大)家$")
_SURNAMES: Final = frozenset(
    "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕苏卢蒋蔡贾丁魏"
    "薛叶阎余潘杜戴夏钟汪田任姜范方石姚谭廖邹熊金陆郝孔白崔康毛邱秦江史顾侯邵孟龙万段雷钱汤尹黎易常"
    "武乔贺赖龚文屈祖司诸墨老庄荀鲁茅巴冰"
)


def question_of(said: str) -> Asked | None:
    """The question of the first pattern that fits a statement; None where none does."""
    main = _SECOND.split(said, maxsplit=1)[0]
    for rule, text in _RULES:
        asked = rule(said if text == "said" else main)
        if asked is not None:
            return asked
    return None


def is_person(name: str) -> bool:
    """Whether a name is a person's: foreign with a dot, short with a surname, or a calling."""
    short = 2 <= len(name) <= 3 and name[0] in _SURNAMES
    return "·" in name or short or bool(_PERSON.search(name))


def _when(text: str) -> Asked | None:
    match = _WHEN.match(text)
    if match is None:
        return None
    kind: Kind = "date" if "月" in match["y"] else "year"
    return Asked(f"{match['x']}{match['v']}于什么时候？", match["y"], kind, 2.9)


def _in_year(text: str) -> Asked | None:
    match = _IN_YEAR.match(text)
    if match is None:
        return None
    person = is_person(match["x"])
    front = f"{match['when']}，{'谁' if person else '什么'}{match['v']}{match['y']}？"
    return Asked(front, match["x"], "person" if person else "name", 2.6)


def _maker(text: str) -> Asked | None:
    match = _MAKER.match(text)
    if match is None or not is_person(match["x"]):
        return None
    return Asked(f"谁{match['v']}{match['y']}？", match["x"], "person", 2.6)


def _called(text: str) -> Asked | None:
    match = _CALLED.match(text)
    if match is None or _VERB_INSIDE.search(match["x"]):
        return None
    return Asked(f"{match['x']}{match['v']}什么？", match["y"].strip('“”"「」'), "term", 2.8)


def _where(text: str) -> Asked | None:
    match = _WHERE.match(text)
    return match and Asked(f"{match['x']}{match['v']}哪里？", match["y"], "phrase", 2.5)


def _made_of(text: str) -> Asked | None:
    match = _MADE_OF.match(text)
    return match and Asked(f"{match['x']}由什么{match['v']}？", match["y"], "phrase", 2.7)


def _because(text: str) -> Asked | None:
    match = _BECAUSE.match(text)
    return match and Asked(f"为什么{match['x']}？", f"因为{match['y']}", "phrase", 2.8)


def _has_parts(text: str) -> Asked | None:
    match = _HAS_PARTS.match(text)
    asks = "什么" if match and match["v"] == "含有" else "哪些"
    return match and Asked(f"{match['x']}{match['v']}{asks}？", match["y"], "phrase", 2.3)


def _definition(text: str) -> Asked | None:
    match = _IS.match(text)
    if match is None or match["x"].endswith(("的", "不", "这", "那")):
        return None
    subject, meaning = match["x"], _own_part(match["y"].strip("，"))
    if len(meaning) < 2 or (meaning.endswith("的") and len(meaning) < 4):
        return None
    first = meaning.split("，")[0]
    if _PERSON.search(first) and not _NO_PERSON.search(first) and len(subject) <= 12:
        return Asked(f"{subject}是谁？", meaning, "definition", 2.9, subject)
    if len(meaning) <= 8 and "的" in subject:
        return Asked(f"{subject}是什么？", meaning, "name", 2.7)
    return Asked(f"{subject}是什么？", meaning, "definition", 3.0, subject)


def _own_part(meaning: str) -> str:
    """A meaning up to where something else is defined: "不发酵茶，红茶是全发酵茶"."""
    parts = meaning.split("，")
    if _CONDITION.search(parts[0]):
        return meaning
    other = next((at for at in range(1, len(parts)) if _OTHER.match(parts[at])), len(parts))
    return "，".join(parts[:other])


def defined_in(said: str) -> str | None:
    """What a statement defines, where it defines something."""
    match = _IS.match(said)
    return match["x"] if match else None


#: Each rule with the text it reads: the whole statement, or its first part.
_RULES: Final[tuple[tuple[Callable[[str], Asked | None], str], ...]] = (
    (_when, "said"),
    (_in_year, "said"),
    (_maker, "main"),
    (_called, "main"),
    (_where, "main"),
    (_made_of, "main"),
    (_because, "said"),
    (_definition, "main"),
    (_has_parts, "main"),
)
