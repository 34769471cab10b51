"""A word game in text, for language models.

A server loads it with ``--import words.py``. The answer to a guess has a mark for
each letter: ``+`` if it is right there, ``?`` if the word has it elsewhere, and else
``-``.
"""

import string
from typing import Any

import gymnasium
from gymnasium import spaces

WORDS = (
    *("apple", "bread", "chair", "dance", "eagle", "flame", "grape", "house", "ivory"),
    *("juice", "knife", "lemon", "mango", "night", "ocean", "piano", "queen", "river"),
    *("stone", "table", "uncle", "voice", "water", "yacht", "zebra", "plant", "crown"),
)
GUESSES = 6


class Words(gymnasium.Env[str, str]):
    """Answers guesses of a secret word of five letters; finding it is worth 1."""

    action_space = spaces.Text(40)
    observation_space = spaces.Text(300, charset=frozenset(string.printable))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Choose a word."""
        super().reset(seed=seed)
        self._word = WORDS[self.np_random.integers(len(WORDS))]
        self._left = GUESSES
        return f"You have {GUESSES} guesses. The word is one of: {' '.join(WORDS)}", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Answer a guess."""
        self._left -= 1
        guess = action.strip().lower()
        if guess == self._word:
            return f"{guess} +++++", 1.0, True, False, {}
        if guess not in WORDS:
            answer = f"{guess!r} is no word that I know."
        else:
            answer = f"{guess} {_marks(guess, self._word)}"
        return answer, 0.0, not self._left, False, {"left": self._left}


def _marks(guess: str, word: str) -> str:
    """Compare a guess with the word, letter by letter."""
    pairs = zip(guess, word, strict=True)
    return "".join("+" if a == b else "?" if a in word else "-" for a, b in pairs)


gymnasium.register("words/Words-v0", Words)
