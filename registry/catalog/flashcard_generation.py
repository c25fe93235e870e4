"""Flashcards from a text: question on the front, answer on the back, each with its source."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from registry.catalog.fields import COMMON_RULES, JobOutput, SourceQuote, StudyInput, text_of
from registry.definition import JobDefinition
from registry.prompt import PromptTemplate


class FlashcardInput(StudyInput):
    """The text to learn, and how many cards at most."""

    max_cards: int = Field(default=10, ge=1, le=50, description="The most cards to make.")


class Flashcard(JobOutput):
    """One card that asks for exactly one thing."""

    front: Annotated[str, text_of(1_000)] = Field(
        description="A question or cue about one fact, understandable without seeing the text."
    )
    back: Annotated[str, text_of(4_000)] = Field(
        description="The shortest complete and correct answer to the front, taken from the text."
    )
    source_quote: SourceQuote = None


class FlashcardOutput(JobOutput):
    """The cards, the most important first."""

    cards: list[Flashcard] = Field(
        min_length=1,
        max_length=50,
        description="The cards, most important first, without two that ask the same thing.",
    )


PROMPT: Final = PromptTemplate(
    version="1",
    system=f"""\
You write flashcards that help a learner remember a text.
- Use only what the text says. Add no facts of your own, and do not correct it.
- One fact or idea per card. Prefer "why" and "how" to lists and bare definitions.
- The front never gives the answer away and never refers to "the text" or "the author".
- Begin with what matters most. Fewer good cards are better than many weak ones.
- Make at least one card, and never more than the number asked for.
{COMMON_RULES}""",
    user="""\
Number of cards: at most {{max_cards}}
Language: {{language}}
Title: {{title}}

Material:
{{text}}""",
)

DEFINITION: Final = JobDefinition.simple(
    "flashcard_generation",
    input=FlashcardInput,
    output=FlashcardOutput,
    prompt=PROMPT,
    projector="flashcards",
    queue="ai-background",
    timeout_ms=180_000,
    credential_modes=("platform_key", "user_deepseek_key"),
    label="Flashcards",
    description="Makes question-and-answer cards from a text, each with the passage it rests on.",
    domain="generation",
    content_safety=True,
)
