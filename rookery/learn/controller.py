"""How much it costs to differ from the reference: fixed, or such that the KL comes near a target.

It knows nothing of how a KL is measured.
"""

import json
from pathlib import Path

_MOST = 0.2
_NAME = "controller.json"


class Controller:
    """The coefficient β of the KL, and how it follows what was measured.

    With a target it is the log-space proportional controller of Ziegler (section 2.2): after each
    batch β grows by the share `gain` · e, where e is how far the KL of an episode lies above the
    target, as a share of it, and never more than 0.2 either way. The paper says that the gain K_β
    is 0.1; the code that came with it comes to 512 / 10,000 = 0.051.
    """

    def __init__(self, beta: float, target: float | None = None, gain: float = 0.1) -> None:
        self.beta = beta
        self._target = target
        self._gain = gain

    def follow(self, kl: float) -> None:
        """Changes β after a batch whose episodes had this KL, in nats."""
        if self._target is not None:
            off = min(max((kl - self._target) / self._target, -_MOST), _MOST)
            self.beta *= 1 + self._gain * off

    def save(self, folder: Path) -> None:
        """Writes β to the last bit."""
        (folder / _NAME).write_text(json.dumps({"beta": self.beta}), "utf-8")

    def load(self, folder: Path) -> None:
        """Goes on from what `save` wrote."""
        self.beta = float(json.loads((folder / _NAME).read_text("utf-8"))["beta"])
