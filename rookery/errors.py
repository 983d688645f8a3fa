"""The error that Rookery raises, and the outcomes that it and the ends of episodes may have."""

from enum import StrEnum, auto
from typing import Self

from rookery.records import Failure


class Outcome(StrEnum):
    """Kinds of failures (`Failure.outcome`) and of the ends of episodes (`Episode.stop`).

    A member is the string that is stored. Files of other versions may hold others, and a server's
    refusal of a page is `http_` with its status.
    """

    user_error: bool
    """wrong use, which has to be put right, and not a world that did not answer"""

    def __new__(cls, value: str, user_error: bool = False) -> Self:
        """Make the member of a stored string."""
        member = str.__new__(cls, value)
        member._value_, member.user_error = value, user_error
        return member

    BAD_CALIBRATION = "bad_calibration", True
    BAD_CONTACT = "bad_contact", True
    BAD_ENDPOINT = "bad_endpoint", True
    BAD_MODEL = "bad_model", True
    BAD_NAME = "bad_name", True
    BAD_PATTERN = "bad_pattern", True
    INVALID_URL = "invalid_url", True
    NAME_TAKEN = "name_taken", True
    NO_CALIBRATION = "no_calibration", True
    NO_CLUSTER = "no_cluster", True
    NO_DEVICE = "no_device", True
    NO_FOLDER = "no_folder", True
    NO_KEY = "no_key", True
    NO_LABELS = "no_labels", True
    NO_MODEL = "no_model", True
    NO_OPENAI = "no_openai", True
    NO_PACKAGE = "no_package", True
    NO_TORCH = "no_torch", True
    NOT_A_RECORDING = "not_a_recording", True
    NOT_ADDED = "not_added", True
    NOT_FOUND = "not_found", True
    NOT_INDEXED = "not_indexed", True
    NOT_INSTALLED = "not_installed", True
    NOT_ON_HUB = "not_on_hub", True
    NOT_USABLE = "not_usable", True
    SHARDED = "sharded", True
    UNKNOWN_ENGINE = "unknown_engine", True
    UNREADABLE = "unreadable", True
    UNSUPPORTED_SCHEME = "unsupported_scheme", True
    UNWRITABLE = "unwritable", True

    ALREADY = auto()
    ARCHIVE_BUSY = auto()
    BAD_BATCH = auto()
    BAD_CONFIG = auto()
    BAD_DAYS = auto()
    BAD_DECLINE = auto()
    BAD_FIGURE = auto()
    BAD_FORM = auto()
    BAD_LINE = auto()
    BAD_QUESTION = auto()
    BAD_SAMPLES = auto()
    BAD_SETTINGS = auto()
    BAD_SQUAD = auto()
    BAD_STUDY = auto()
    BAD_SYNTAX = auto()
    BAD_TRIAL = auto()
    BINARY = auto()
    BLOCKED_ADDRESS = auto()
    BLOCKED_DOMAIN = auto()
    BROKEN_OFF = auto()
    BROWSER_FAILED = auto()
    BUSY = auto()
    CENSORED = auto()
    CITATION_NOTED = auto()
    CHANGED = auto()
    CONTROVERSIAL = auto()
    COPY = auto()
    CRASHED = auto()
    DAMAGED = auto()
    DAMAGED_RECORDS = auto()
    DISK_FULL = auto()
    EMPTY = auto()
    EMPTY_AFTER_EXTRACTION = auto()
    EMPTY_LIBRARY = auto()
    ENCRYPTED = auto()
    EXCLUDED = auto()
    FEW_QUESTIONS = auto()
    GIVEN_UP = auto()
    HIDDEN = auto()
    HIDDEN_TEXT = auto()
    HUB_UNREACHABLE = auto()
    IGNORED = auto()
    IN_USE = auto()
    INDEX_BUSY = auto()
    INDEX_FAILED = auto()
    LEADS_OUT = auto()
    LIBRARY_FAILED = auto()
    MALFORMED = auto()
    MANY_MESSAGES = auto()
    MAX_ACTIONS = auto()
    MAX_QUOTES = auto()
    MINIFIED = auto()
    MODEL_BAD_ANSWER = auto()
    MODEL_BROKE_OFF = auto()
    MODEL_FAILED = auto()
    MODEL_NOT_FOUND = auto()
    MODEL_QUOTA = auto()
    MODEL_REFUSED = auto()
    MODEL_REFUSED_KEY = auto()
    MODEL_TIMED_OUT = auto()
    MODEL_UNREACHABLE = auto()
    NEEDS_JAVASCRIPT = auto()
    NEW_STORE = auto()
    NO_ANSWER = auto()
    NO_ANSWERS = auto()
    NO_ARCHIVE = auto()
    NO_BATCH = auto()
    NO_BUDGET = auto()
    NO_CLAIM = auto()
    NO_COMMANDS = auto()
    NO_DATA = auto()
    NO_DESK = auto()
    NO_DROPOUT = auto()
    NO_ENCODER = auto()
    NO_ENVIRONMENT = auto()
    NO_EVIDENCE = auto()
    NO_EXCLUSION = auto()
    NO_FORM = auto()
    NO_GOLD = auto()
    NO_INVITE = auto()
    NO_ITEM = auto()
    NO_JUDGEMENT = auto()
    NO_KEY_NAMED = auto()
    NO_LEASE = auto()
    NO_LINK = auto()
    NO_PAGE = auto()
    NO_PDF = auto()
    NO_PEFT = auto()
    NO_PERSON = auto()
    NO_PROJECT = auto()
    NO_PROMPTS = auto()
    NO_PULL = auto()
    NO_QUOTES = auto()
    NO_READER = auto()
    NO_REASON = auto()
    NO_RENDERER = auto()
    NO_RUN = auto()
    NO_SCORE = auto()
    NO_SESSION = auto()
    NO_SNAPSHOT = auto()
    NO_STORE = auto()
    NO_TARGETS = auto()
    NO_TEXT = auto()
    NONSENSE = auto()
    NOT_A_NUMBER = auto()
    NOT_ALLOWED = auto()
    NOT_DRAWN = auto()
    NOT_EMPTY = auto()
    NOT_IN_ARCHIVE = auto()
    NOT_ON_PAGE = auto()
    NOT_QUOTABLE = auto()
    NOT_RATED = auto()
    NOT_RECORDED = auto()
    NOT_REPLAYABLE = auto()
    NOT_SERVED = auto()
    NOT_WRITTEN = auto()
    NOTHING = auto()
    NOTHING_CHOSEN = auto()
    NOTHING_FOUND = auto()
    NOTHING_OPEN = auto()
    NOTHING_SAID = auto()
    NOTHING_TO_LEARN = auto()
    NOTHING_TO_QUOTE = auto()
    OLD_STORE = auto()
    ONE_QUESTION = auto()
    ONE_SIDED = auto()
    OTHER_MODEL = auto()
    OTHER_RUN = auto()
    OTHER_WEIGHTS = auto()
    OUTSIDE_SITE = auto()
    PAST_THE_END = auto()
    POLICY_FAILED = auto()
    PROMPT_TOO_LONG = auto()
    REFUSED = auto()
    RELEASED = auto()
    REPAIRED = auto()
    ROBOTS = auto()
    RUN_IN_USE = auto()
    SAME_NAME = auto()
    SCRIPT_ENDED = auto()
    SEARCH_BLOCKED = auto()
    SEARCH_FAILED = auto()
    SEARCH_QUOTA = auto()
    SHARD_FAILED = auto()
    SPENDING_CAP = auto()
    STOPPED = auto()
    STORE_BUSY = auto()
    STORE_FAILS = auto()
    STUCK = auto()
    TAKEN = auto()
    TIMED_OUT = auto()
    TLS_FAILED = auto()
    TOO_LARGE = auto()
    TOO_LONG = auto()
    TOO_MANY = auto()
    TOO_MANY_REDIRECTS = auto()
    TRUNCATED = auto()
    UNKNOWN_FORMAT = auto()
    UNKNOWN_ID = auto()
    UNKNOWN_METHOD = auto()
    UNKNOWN_MODEL = auto()
    UNKNOWN_PLACE = auto()
    UNKNOWN_SYSTEM = auto()
    UNREADABLE_ARCHIVE = auto()
    UNRESOLVED = auto()
    UNSUPPORTED = auto()
    UNSUPPORTED_TYPE = auto()
    URL_NOT_SHOWN = auto()
    WORKER_DIED = auto()


USER_ERROR_OUTCOMES = frozenset(each for each in Outcome if each.user_error)
"""outcomes of wrong use, and not of a world that did not answer"""


class Failed(Exception):
    """Something could not be read, searched or done; `failure` says what and why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.what}: {failure.outcome}: {failure.detail}")
        self.failure = failure

    def __reduce__(self) -> tuple[type["Failed"], tuple[Failure]]:
        return Failed, (self.failure,)  # so that it passes from one process to another
