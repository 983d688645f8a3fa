"""Choose the best of several answers by a reward of your own (best of n, rejection sampling).

A reward is any function from a question and an answer to a number; a model that
`rookery learn prefer` trained is one too: `RewardModel(folder)` of `rookery.learn.reward_model`.
"""

import rookery
from rookery.answers.best_of_n import choose_best_answer

QUESTION = rookery.Question("1", "How many seeds does a nutcracker hide each autumn?")


def reward_sources(question: rookery.Question, answer: rookery.Answer) -> float:
    return len({quote.url for quote in answer.quotes}) - 0.001 * len(answer.text)


settings = [rookery.Settings(quotes=number) for number in (1, 2, 3, 4)]
answers = [rookery.ask(QUESTION, "rookery:corvids", settings=each) for each in settings]
choice = choose_best_answer(QUESTION, answers, reward_sources)
print("rewards", *(f"{score:.3f}" for score in choice.scores))
print(choice.chosen.text)
