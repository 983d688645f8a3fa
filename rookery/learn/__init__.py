"""Rewards, policies and rankers, learnt: the only room with torch. Nothing here yet."""
