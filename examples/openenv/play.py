"""Plays a word game as trainers of language models do, with a model that is scripted.

    gym-http-server serve --import examples/openenv/words.py
    pip install openenv
    python examples/openenv/play.py http://127.0.0.1:5000

`WordGame` is what TRL's ``GRPOTrainer`` takes as ``environment_factory``: an object
for each rollout, whose methods are tools of the model. Here a function takes the place
of the model, so no GPU is needed. It gets the texts of all games at once and returns a
guess for each, as a model generates them.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor

from openenv import GenericEnvClient

URL = "http://127.0.0.1:5000"


class WordGame:
    """One rollout: a connection, and so an instance."""

    def __init__(self, url: str = URL) -> None:
        address = f"{url}/openenv/words%2FWords-v0/ws?wait_s=50"
        self.client = GenericEnvClient(base_url=address).sync()
        self.reward = 0.0
        self.done = False

    def reset(self, **task: int) -> str:
        """Begin a game; return the text that the model's prompt begins with."""
        result = self.client.reset(seed=task.get("seed"))
        return str(result.observation["observation"])

    def guess(self, word: str) -> str:
        """Guess the secret word.

        Args:
            word: A word of five letters.

        Returns:
            The word with a mark for each letter.
        """
        result = self.client.step({"action": word})
        self.reward, self.done = result.reward, result.done
        return str(result.observation["observation"])


def model(texts: list[str]) -> list[str]:
    """Return a guess for each game, of the words that fit all answers so far."""
    guesses = []
    for text in texts:
        task, *answers = text.splitlines()
        words = task.partition(": ")[2].split()
        tried = [answer.split() for answer in answers]
        guesses.append(next(word for word in words if fits(word, tried)))
    return guesses


def fits(word: str, tried: list[list[str]]) -> bool:
    """Whether a word may be the secret one, after guesses and their marks."""
    return all(
        mark == ("+" if letter == there else "?" if letter in word else "-")
        for guess, marks in tried
        for letter, there, mark in zip(guess, word, marks, strict=True)
    )


def main() -> None:
    """Play."""
    parser = argparse.ArgumentParser(description="Plays a word game.")
    parser.add_argument("url", nargs="?", default=URL)
    parser.add_argument("--games", type=int, default=32)
    options = parser.parse_args()
    games = [WordGame(options.url) for _ in range(options.games)]
    with ThreadPoolExecutor(options.games) as pool:
        texts = list(
            pool.map(lambda each: each[1].reset(seed=each[0]), enumerate(games))
        )
        while playing := [i for i, game in enumerate(games) if not game.done]:
            guesses = model([texts[i] for i in playing])
            answers = pool.map(lambda i, word: games[i].guess(word), playing, guesses)
            for i, answer in zip(playing, answers, strict=True):
                texts[i] += f"\n{answer}"
        list(pool.map(lambda game: game.client.close(), games))
    won = sum(game.reward for game in games)
    turns = sum(text.count("\n") for text in texts)
    print(f"{len(games)} games, {won:.0f} won, in {turns} guesses")


if __name__ == "__main__":
    main()
