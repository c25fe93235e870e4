"""The built-in job types: one file each, with its models, its prompt and its ``DEFINITION``.

    fields                what the learning types share
    flashcard_generation  cards from a text
    quiz_generation       multiple-choice questions from a text
    active_recall         a learner's answer judged against a reference
    chat_completion       a conversation continued; what the OpenAI-compatible route creates
    synthetic             echoes a value; for tests and drills

The first three have no handler: the default executor sends the prompt and checks the output.
"""

from typing import Final

from registry.catalog import (
    active_recall,
    chat_completion,
    flashcard_generation,
    quiz_generation,
    synthetic,
)
from registry.definition import JobDefinition

#: Every built-in job type, in the order people meet them.
BUILT_IN: Final[tuple[JobDefinition, ...]] = (
    flashcard_generation.DEFINITION,
    quiz_generation.DEFINITION,
    active_recall.DEFINITION,
    chat_completion.DEFINITION,
    synthetic.DEFINITION,
)

__all__ = ["BUILT_IN"]
