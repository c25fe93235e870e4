"""Which models chat requests may name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.config import Settings
from engine.http.openai.failure import ModelNotFound

#: The platform's model, whatever it is.
DEFAULT: Final = "default"


@dataclass(frozen=True, slots=True)
class Offer:
    """The models that are offered. ``open`` lets the provider judge every other name."""

    models: tuple[str, ...]
    open: bool

    @classmethod
    def of(cls, settings: Settings) -> Offer:
        """What the settings say: the models named for chat, or else the platform's own."""
        named = settings.http.models or ((settings.model,) if settings.model else ())
        return cls((*named, DEFAULT) if named else (DEFAULT,), open=not named)

    def accept(self, model: str) -> str | None:
        """The name to give to the provider; None for its default. Raises :class:`ModelNotFound`."""
        if model == DEFAULT:
            return None
        if model in self.models or self.open:
            return model
        raise ModelNotFound(
            detail=f"The model is not offered here; there are: {', '.join(self.models)}.",
            param="model",
        )
