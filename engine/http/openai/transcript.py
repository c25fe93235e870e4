"""What was sent of a streamed answer, and what may follow it.

A stream cannot take words back. After a take-over the new attempt writes its answer from the beginning: as long as
that says what was sent already, nothing is sent; where it goes on, the rest is; where it says something else, the
stream must end with an error rather than become a mixture of two answers.
"""

from __future__ import annotations

from engine.streams.store import Piece


class Diverged(Exception):
    """What follows does not continue what was sent."""


class Transcript:
    """The text of one stream to one client."""

    def __init__(self) -> None:
        self.sent = ""
        self.epoch = 0
        self._attempt = ""
        self._seq = 0

    def take(self, piece: Piece) -> str:
        """What to send after ``piece``; of an attempt that was given up, nothing. Raises :class:`Diverged`."""
        if piece.epoch < self.epoch:
            return ""
        if piece.epoch > self.epoch:
            self.epoch, self._attempt, self._seq = piece.epoch, "", 0
        if piece.seq != self._seq + 1:
            # A piece was lost: the rest comes from the committed output.
            return ""
        self._seq = piece.seq
        self._attempt += piece.text
        return self._catch_up(self._attempt, whole=False)

    def finish(self, content: str) -> str:
        """What is still to be sent of the committed answer. Raises :class:`Diverged`."""
        return self._catch_up(content, whole=True)

    def _catch_up(self, text: str, *, whole: bool) -> str:
        if text.startswith(self.sent):
            rest = text[len(self.sent) :]
            self.sent = text
            return rest
        if not whole and self.sent.startswith(text):
            return ""
        raise Diverged
