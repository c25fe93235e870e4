"""A multiple-choice quiz from a text: one right option per question, with the reason."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field, field_validator, model_validator

from registry.catalog.fields import (
    COMMON_RULES,
    JobOutput,
    OptionalText,
    SourceQuote,
    StudyInput,
    text_of,
)
from registry.definition import JobDefinition
from registry.prompt import PromptTemplate


class QuizInput(StudyInput):
    """The text to ask about, and how many questions at most."""

    max_questions: int = Field(default=5, ge=1, le=30, description="The most questions to ask.")


class QuizQuestion(JobOutput):
    """One question with exactly one correct option."""

    question: Annotated[str, text_of(2_000)] = Field(
        description="The question, understandable without seeing the text."
    )
    options: list[Annotated[str, text_of(1_000)]] = Field(
        min_length=2,
        max_length=6,
        description="2 to 6 different options (4 where possible), alike in length and style; "
        "exactly one is correct. No letters or numbers in front.",
    )
    correct_index: int = Field(
        ge=0, le=5, description="Position of the correct option in `options`, counted from 0."
    )
    explanation: OptionalText = Field(
        default=None,
        description="One or two sentences: why that option is correct and the likeliest wrong "
        "one is not.",
    )
    source_quote: SourceQuote = None

    @field_validator("options")
    @classmethod
    def _options_differ(cls, options: list[str]) -> list[str]:
        # Case is kept apart: "pH" and "PH", or "Polish" and "polish", may be the point.
        if len(set(options)) != len(options):
            raise ValueError("every option must differ from the others")
        return options

    @model_validator(mode="after")
    def _correct_option_exists(self) -> Self:
        last = len(self.options) - 1
        if self.correct_index > last:
            raise ValueError(
                f"correct_index is {self.correct_index}, but the options count from 0 to {last}"
            )
        return self


class QuizOutput(JobOutput):
    """The questions, the most important first."""

    questions: list[QuizQuestion] = Field(
        min_length=1,
        max_length=30,
        description="The questions, most important first, each about something else.",
    )


PROMPT: Final = PromptTemplate(
    version="1",
    system=f"""\
You write multiple-choice questions that test whether a learner understood a text.
- Use only what the text says. Exactly one option is correct, and the text proves it.
- Wrong options are plausible mistakes, clearly wrong to someone who understood the text.
- No "all of the above", no "none of the above", no trick wording, no double negation.
- Ask for understanding before detail. Vary the position of the correct option.
- Ask at least one question, and never more than the number asked for.
{COMMON_RULES}""",
    user="""\
Number of questions: at most {{max_questions}}
Language: {{language}}
Title: {{title}}

Material:
{{text}}""",
)

DEFINITION: Final = JobDefinition.simple(
    "quiz_generation",
    input=QuizInput,
    output=QuizOutput,
    prompt=PROMPT,
    projector="quiz_questions",
    queue="ai-background",
    timeout_ms=180_000,
    credential_modes=("platform_key", "user_deepseek_key"),
    label="Quiz",
    description="Makes multiple-choice questions from a text, with explanations.",
    domain="generation",
    content_safety=True,
)
