"""The forms of WebGPT: demonstrate, compare in seven steps or in one, and the survey.

It knows nothing of what follows from them.
"""

from rookery.judge.fields import VERSUS, Choice, Field, Form, Required, Step

SUPPORT = (
    Choice("strong", "Strong support", "s"),
    Choice("weak", "Weak support", "w"),
    Choice("none", "No support", "n"),
)
RELEVANCE = (
    Choice("core", "Core: answers the question", "c"),
    Choice("side", "Side: helps without answering it", "d"),
    Choice("irrelevant", "Irrelevant", "i"),
)
_TRUST = Field(
    "trust",
    "How far can this source be trusted on this question?",
    "choice",
    "Judge the source and not the answer: who writes there, and would they know?",
    (
        Choice("trustworthy", "Trustworthy", score=1.0),
        Choice("neutral", "Neutral", score=0.5),
        Choice("suspicious", "Suspicious", score=0.0),
    ),
    per="quote",
    required="whole",
    relied=True,
    scale="trust",
)
_CLAIMS = Field(
    "claims",
    "Claims",
    "claims",
    "Mark each claim. Say how well it is supported, by which quotes, and what it is to the "
    "question. What everybody knows is supported without a quote.",
    required="whole",
    support=SUPPORT,
    relevance=RELEVANCE,
)


def _versus(name: str, label: str, help: str, required: Required = "always") -> Field:
    return Field(name, label, "versus", help, VERSUS, required=required)


_COHERENCE = "Which answer is easier to follow?"

COMPARE = Form(
    "compare",
    "Compare two answers",
    10,
    (
        Step(
            "question",
            "Read the question",
            help="If it makes no sense, or should not be answered, flag it: the rest is then left "
            "out.",
        ),
        Step("read", "Read answer A and its references", answer=0),
        Step("trust", "Rate the references that answer A relies on", (_TRUST,), answer=0),
        Step("claims", "Mark the claims of answer A", (_CLAIMS,), answer=0),
        Step("second", "Do the same for answer B", (_TRUST, _CLAIMS), answer=1),
        Step(
            "ratings",
            "Compare the answers, one quality at a time",
            (
                _versus(
                    "unsupported",
                    "Unsupported information",
                    "Better is the answer that says less without support.",
                ),
                _versus(
                    "irrelevant",
                    "Irrelevant information",
                    "Better is the answer with less that has nothing to do with the question.",
                    "whole",
                ),
                _versus(
                    "useful_strong",
                    "Useful information with strong support",
                    "Better is the answer whose strongly supported claims help the asker more.",
                    "whole",
                ),
                _versus(
                    "useful_weak",
                    "Useful information with weak support",
                    "Better is the answer whose weakly supported claims help the asker more.",
                    "whole",
                ),
                _versus("coherence", "Coherence", _COHERENCE + " Wrong citations count here."),
            ),
        ),
        Step(
            "overall",
            "Weigh everything up",
            (
                _versus(
                    "overall",
                    "Overall usefulness",
                    "All in all, which answer is more useful to the person who asked?",
                ),
                Field("comment", "Comment", "text", "If something should be known about this one."),
            ),
        ),
    ),
    answers=2,
    decides="overall",
)

COMPARE_SHORT = Form(
    "compare_short",
    "Compare two answers, in short",
    5,
    (
        Step(
            "ratings",
            "Compare the answers",
            (
                _versus(
                    "accuracy",
                    "Accuracy",
                    "Which answer has its facts right? Look up what is not obvious to you.",
                ),
                _versus("coherence", "Coherence", _COHERENCE),
                _versus(
                    "overall",
                    "Overall usefulness",
                    "All in all, which answer would help the person who asked more?",
                ),
            ),
        ),
    ),
    answers=2,
    shows="alone",
    decides="overall",
)

DEMONSTRATE = Form(
    "demonstrate",
    "Answer a question",
    15,
    (
        Step(
            "question",
            "Read the question",
            help="If it makes no sense, or should not be answered, flag it instead.",
        ),
        Step("browse", "Search, read and quote, then write the answer"),
        Step(
            "end",
            "Hand it in",
            (Field("comment", "Comment", "text", "What was hard, or went wrong, if anything."),),
        ),
    ),
    answers=0,
)

_AGREE = tuple(
    Choice(str(level), label, str(level))
    for level, label in enumerate(
        ("Strongly disagree", "Disagree", "Neither", "Agree", "Strongly agree"), 1
    )
)
_STATEMENTS = {
    "clear": "The instructions made clear what I was to do.",
    "engaging": "The work interested me, and I liked doing it.",
    "repetitive": "The work was repetitive.",
    "fair_pay": "I was paid fairly for the work.",
    "glad": "All in all I am glad that I did this work.",
}
_IF_NOTHING = "If really nothing comes to mind, write N/A."
_QUESTIONS = (
    Field(
        "change",
        "What would you change, to make the work more interesting or pleasant?",
        "text",
        _IF_NOTHING,
        required="always",
    ),
    Field(
        "tools",
        "What else could you be given, to do the work well every time with less effort?",
        "text",
        _IF_NOTHING,
        required="always",
    ),
    Field(
        "shortcuts",
        "Have you found ways to get through the work faster? Which?",
        "text",
        _IF_NOTHING,
        required="always",
    ),
    Field("other", "Is there anything else that you would like to say?", "text"),
)

SURVEY = Form(
    "survey",
    "How the work was",
    5,
    (
        Step(
            "statements",
            "How far do you agree?",
            tuple(
                field
                for name, statement in _STATEMENTS.items()
                for field in (
                    Field(name, statement, "choice", choices=_AGREE, required="always"),
                    Field(f"{name}_comment", "Comment", "text"),
                )
            ),
        ),
        Step("questions", "In your own words", _QUESTIONS),
    ),
    answers=0,
)
