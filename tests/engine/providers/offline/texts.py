"""Texts that several tests read."""

from __future__ import annotations

BIOLOGY = """\
# Photosynthesis

**Photosynthesis** is the process by which green plants, algae and some bacteria convert light
energy into chemical energy.[1] It takes place mainly in the chloroplasts of plant cells.
Chloroplasts contain a green pigment called chlorophyll. Chlorophyll absorbs light mostly in the
blue and red parts of the spectrum, which is why leaves look green.

The Calvin cycle takes place in the stroma and uses ATP and NADPH to turn carbon dioxide into
glucose. Jan Ingenhousz discovered in 1779 that plants need sunlight to produce oxygen. Melvin
Calvin received the Nobel Prize in Chemistry in 1961. A single leaf cell can contain 50 chloroplasts.

| organelle | job |
|-----------|-----|
| nucleus   | DNA |

```python
print("no part of the lesson")
```

See [the book](https://example.org/a_(b)) for more. Do you remember the two stages?
"""

HISTORY = """\
The Berlin Wall was a guarded concrete barrier that divided Berlin from 1961 to 1989. It was built
by the German Democratic Republic. The Wall was 155 kilometres long and had 302 watchtowers.
Ronald Reagan gave a famous speech at the Brandenburg Gate in 1987. Alexander Fleming discovered
penicillin in 1928. Marie Curie was a Polish physicist who conducted pioneering research on
radioactivity. She won the Nobel Prize in Physics in 1903. Canberra is the capital of Australia.
The human body has 206 bones. Deforestation is the conversion of forested areas to open land.
"""

CHINESE = """\
光合作用是植物、藻类和某些细菌利用光能，将二氧化碳和水转化为有机物并释放氧气的过程。它主要在叶绿体中进行。
叶绿体含有一种叫做叶绿素的绿色色素。光合作用分为光反应和暗反应两个阶段。1779年，扬·英根豪斯发现了植物需要阳光。
长城始建于公元前7世纪。明长城全长8851.8公里。北京是中国的首都。黄河发源于青海省的巴颜喀拉山脉。
《红楼梦》是清代作家曹雪芹创作的长篇小说。鲁迅是中国现代文学的奠基人之一。你知道吗？
"""

GERMAN = """\
Die Photosynthese ist ein Vorgang, bei dem Pflanzen Lichtenergie in chemische Energie umwandeln.
Sie findet in den Chloroplasten statt. Im Jahr 1779 entdeckte Jan Ingenhousz, dass Pflanzen im Licht
Sauerstoff abgeben. Johann Wolfgang von Goethe wurde 1749 in Frankfurt geboren.
"""

#: Anything that somebody may paste.
ODD = {
    "one word": "Photosynthesis",
    "one letter": "a",
    "two words": "hello world",
    "short sentence": "Water boils.",
    "emoji between": "I ❤️ 🐍. The snake 🐍 eats mice 🐭 every day in the green garden.",
    "only links": "https://example.org http://a.b/c",
    "code": "def add(a, b):\n    # Adds two numbers.\n    return a + b\n\nclass Foo(Bar):\n    pass\n",
    "table": "| a | b |\n|---|---|\n| one | two |\n",
    "list": "- apples\n- pears\n- plums\n",
    "lines": "Water boils at 100 degrees\nIce melts at 0 degrees\nThe sky is blue\n",
    "html": "<p>The <b>mitochondrion</b> is the powerhouse of the cell.</p><script>var x = 1;</script>",
    "shouting": "THE CELL IS THE SMALLEST UNIT OF LIFE. IT HAS A MEMBRANE.",
    "no spaces": "x" * 5_000,
    "control": "The cell\x00 is\x07 a unit\u202e of\u200b life that has a thin membrane.",
    "arabic": "التمثيل الضوئي هو عملية تستخدمها النباتات لتحويل ضوء الشمس إلى طاقة كيميائية. تحدث في البلاستيدات.",
    "hindi": "प्रकाश संश्लेषण एक प्रक्रिया है जिसमें पौधे सूर्य के प्रकाश का उपयोग करते हैं। यह पत्तियों में होती है।",
    "japanese": "光合成は、植物が光エネルギーを化学エネルギーに変換する過程である。東京は日本の首都である。",
    "korean": "광합성은 식물이 빛 에너지를 화학 에너지로 바꾸는 과정이다. 서울은 대한민국의 수도이다.",
    "thai": "การสังเคราะห์ด้วยแสงเป็นกระบวนการที่พืชใช้แสงอาทิตย์",
    "russian": "Фотосинтез — это процесс, при котором растения преобразуют энергию света. Москва — столица России.",
    "zalgo": "T̷h̸e̵ ̶c̷e̸l̴l̵ i̶s̷ a u̵n̶i̷t o̸f l̴i̵f̶e.",
    "braces": "{{name}} is {a} [b] (c) “d” and {} is not %s.",
    "question": "What is the capital of France?",
}
