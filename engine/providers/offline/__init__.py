"""A provider that works on the text it is given: no network, no model, the same answer every time.

    provider ........... the protocol, the tasks it knows, its measure of tokens
    flashcards, quiz, recall, summary .. the tasks
    study .............. a text made ready
    markup, sentences, language, stems . from text to sentences and comparable words
    english/, chinese/, plain .......... facts in the sentences of one language
    facts, choice, options ............. what a fact is, which make the set, wrong options of a kind

Promises: no answer is shown in its question; no two cards ask the same; wrong options are of the same kind.
Left to others: everything that needs to know more than the text says.
"""

from engine.providers.offline.provider import OfflineProvider, count_tokens

__all__ = ["OfflineProvider", "count_tokens"]
