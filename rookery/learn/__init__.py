"""Training of rewards, policies and rankers: the only package with torch.

Importing it raises Failed (no_torch) where torch or transformers is not installed.
"""

from importlib.util import find_spec

from rookery.errors import Failed, Outcome
from rookery.records import Failure

for _name in ("torch", "transformers"):
    if find_spec(_name) is None:
        _detail = (
            f"{_name} is not installed: pip install torch 'rookery[write]', or 'rookery[learn]' to "
            "train"
        )
        raise Failed(Failure("rookery.learn", Outcome.NO_TORCH, _detail))
