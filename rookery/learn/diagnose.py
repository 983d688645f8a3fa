"""What a run's metrics say is wrong, in sentences. It knows nothing of how they were measured."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

History = Sequence[Mapping[str, float | None]]
_LAST = 5
"""steps that are looked at together, since one may be chance"""


def diagnose(history: History) -> list[str]:
    """The likely faults of a run of `reinforce`, from its metrics, step by step; none: all well."""
    if not history:
        return []
    return [said for check in _CHECKS if (said := check(history))]


def _mean(history: History, name: str, steps: int = _LAST) -> float | None:
    """Over the last steps; None where nothing was measured."""
    found = [value for line in history[-steps:] if (value := line.get(name)) is not None]
    return fmean(found) if found else None


def _unanswered(history: History) -> str:
    if _mean(history, "answered") != 0:
        return ""
    return (
        f"no episode of the last {min(_LAST, len(history))} batches has an answer: allow longer "
        "actions, imitate answers first, or look at what is said in samples.jsonl"
    )


def _alike(history: History) -> str:
    if _mean(history, "reward_spread") != 0 or _mean(history, "answered") == 0:
        return ""
    return (
        "all episodes of a batch have the same reward, so that nothing can be learnt from it: look "
        "at the reward, or draw at a higher temperature"
    )


def _mismatch(history: History) -> str:
    worst = max((line.get("mismatch") or 0.0) for line in history[-_LAST:])
    if worst < 0.1:  # bfloat16 makes some hundredths
        return ""
    return (
        f"the ratio is not 1 in the first epoch: what was drawn with one log-probability has "
        f"another when it is read again (they lie {worst:.2g} apart): sampling and training do not "
        "use the same temperature, mask, precision or weights"
    )


def _negative(history: History) -> str:
    kl = _mean(history, "kl")
    if kl is None or kl > -0.05 or len(history) < _LAST:
        return ""
    return (
        f"the KL from the reference is negative ({kl:.2f} nats an episode), which no KL is: tokens "
        "are not drawn from the distribution whose log-probabilities are used (temperature, top-p, "
        "a length that is forced), or the reference is read otherwise"
    )


def _collapse(history: History) -> str:
    first, last = history[0].get("entropy"), _mean(history, "entropy")
    if first is None or last is None or last > 0.05 or last > first / 10:
        return ""
    return (
        f"the entropy fell from {first:.2f} to {last:.3f} nats a token, so that nearly always the "
        "same is said: raise beta, lower the rate, or stop earlier"
    )


def _clipping(history: History) -> str:
    share = _mean(history, "clipped")
    if share is None or share < 0.3:
        return ""
    return (
        f"{share:.0%} of the tokens are clipped (1 or 2 % is usual): lower the rate, or make fewer "
        "epochs"
    )


def _values(history: History) -> str:
    explained = _mean(history, "explained", 4 * _LAST)
    if explained is None or explained > 0.02 or len(history) < 4 * _LAST:
        return ""
    return (
        f"the values explain nothing of the returns ({explained:.2f} of the variance): raise "
        "value_weight or the rate, or begin the value network from the reward model"
    )


def _runaway(history: History) -> str:
    kl, target = _mean(history, "kl"), _mean(history, "target")
    if kl is None or target is None or kl < 3 * target or len(history) < 4 * _LAST:
        return ""
    return (
        f"the KL ({kl:.1f} nats an episode) is far above its target ({target:g}): raise beta or "
        "gain, or lower the rate"
    )


_CHECKS: tuple[Callable[[History], str], ...] = (
    _unanswered,
    _alike,
    _mismatch,
    _negative,
    _collapse,
    _clipping,
    _values,
    _runaway,
)
