"""Train a reward model on comparisons of answers: train_on_judgements.py COMPARISONS MODEL OUT

COMPARISONS are those that `rookery judge export` writes, MODEL is a folder with a language model.
`rookery learn example DIR` makes small ones of both. Needs pip install 'rookery[learn]'.
"""

import sys
from pathlib import Path

from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.pretrained_models import TrainedModelSettings
from rookery.learn.reward_training import RewardTrainingSettings, train_reward_model

comparisons, model, out = sys.argv[1:]
settings = RewardTrainingSettings(
    TrainedModelSettings(model), comparisons, OptimizerSettings(rate=1e-3), context=256
)
learnt = train_reward_model(settings, Path(out))
print("learnt from", learnt.comparisons, "comparisons; the reward model is in", learnt.model)
if learnt.before and learnt.after:
    print(
        f"accuracy on held-out pairs: {learnt.before.accuracy:.2f} -> {learnt.after.accuracy:.2f}"
    )
