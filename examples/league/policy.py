"""A player of connect four: it rates the position after each of its moves."""

import numpy as np

ROWS, COLUMNS = 6, 7
#: The lines of four places, as numbers of places.
LINES = np.array(
    [
        [(row + i * down) * COLUMNS + column + i * right for i in range(4)]
        for row in range(ROWS)
        for column in range(COLUMNS)
        for down, right in ((0, 1), (1, 0), (1, 1), (1, -1))
        if row + 3 * down < ROWS and 0 <= column + 3 * right < COLUMNS
    ]
)


def features(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Count the lines with 1, 2, 3 or 4 stones of one player and none of the other.

    Args:
        own: Whether each of the 42 places has a stone of the player who moved last.
        other: The same of the one who moves next.
    """
    mine, theirs = own[LINES].sum(axis=1), other[LINES].sum(axis=1)
    counts = [np.sum((mine == n) & (theirs == 0)) for n in (1, 2, 3, 4)]
    counts += [np.sum((theirs == n) & (mine == 0)) for n in (1, 2, 3)]
    return np.array([1.0, *counts]) / 4


class Policy:
    """Moves to positions with a high value, which is linear in `features`.

    Args:
        weights: Its weights; by default it knows nothing.
        temperature: How often it moves otherwise.
    """

    def __init__(self, weights=None, temperature: float = 0.1) -> None:
        self.weights = np.zeros(8) if weights is None else np.array(weights)
        self._temperature = temperature

    def moves(self, board: np.ndarray) -> dict[int, np.ndarray]:
        """Return the features after each possible move."""
        own, other = (board[:, :, i].ravel().astype(bool) for i in (0, 1))
        found = {}
        for column in range(COLUMNS):
            stones = np.sum((own | other)[column::COLUMNS])
            if stones < ROWS:
                after = own.copy()
                after[(ROWS - 1 - stones) * COLUMNS + column] = True
                found[column] = features(after, other)
        return found

    def value(self, seen: np.ndarray) -> float:
        """Return the value of a position, from -1 to 1."""
        return float(np.tanh(seen @ self.weights))

    def act(self, board: np.ndarray, dice: np.random.Generator) -> int:
        """Return a move."""
        moves = self.moves(board)
        values = np.array([self.value(seen) for seen in moves.values()])
        chances = np.exp((values - values.max()) / self._temperature)
        return int(dice.choice(list(moves), p=chances / chances.sum()))
