"""Facts in English sentences.

    reader ............. all facts of a text, sentence after sentence
    statements ......... what a sentence states
    clauses, subjects .. its frame: opening, subject, verb; whether the subject is clear
    questions .......... what the frame answers: being, doing, counting, with asking as their ground
    gaps ............... the sentence with something left out
    spans .............. what can be left out: dates, quantities, names, terms
    glossary ........... meanings that are written down as such
    pronouns ........... what "it" stands for
    tokens, vocabulary . words in their sentence, words in their text
    words, verbs ....... words as such; their lists are in lexicon.txt

Left to others: reading a text into sentences, choosing among facts (offline.choice, .quiz).
"""
