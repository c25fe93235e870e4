"""Projectors of the built-in job types, each with its business table.

rows ................ what they share: one row per item of the output, owned by the job
flashcards .......... the table flashcard
quiz_questions ...... the table quiz_question
learning_analysis ... the table learning_analysis
"""

from typing import Final

from projectors.builtin.flashcards import FlashcardProjector
from projectors.builtin.learning_analysis import LearningAnalysisProjector
from projectors.builtin.quiz_questions import QuizQuestionProjector
from projectors.protocol import ResultProjector

#: One of each; they hold no state, so every app may share them.
BUILT_IN: Final[tuple[ResultProjector, ...]] = (
    FlashcardProjector(),
    QuizQuestionProjector(),
    LearningAnalysisProjector(),
)

__all__ = ["BUILT_IN"]
