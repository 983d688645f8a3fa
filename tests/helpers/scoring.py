"""Rewards of many answers from a reward of one."""

from rookery.learn.rollout_environments import BatchRewardFunction
from rookery.records import Reward


def score_one_by_one(reward: Reward) -> BatchRewardFunction:
    return lambda pairs: [reward(question, answer) for question, answer in pairs]
