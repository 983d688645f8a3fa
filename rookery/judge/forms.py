"""The forms that can be filled in, by name. It knows nothing of who fills them in.

An attention check is an item of any form with gold answers, handed out before the others.
"""

from rookery.judge.fields import Choice
from rookery.judge.forms_rating import BEST_OF_FOUR, CRITERIA, SUPPORTED, THUMBS, TRUTHFUL
from rookery.judge.forms_webgpt import COMPARE, COMPARE_SHORT, DEMONSTRATE, SURVEY

FORMS = {
    form.name: form
    for form in (
        DEMONSTRATE,
        COMPARE,
        COMPARE_SHORT,
        SUPPORTED,
        BEST_OF_FOUR,
        CRITERIA,
        THUMBS,
        TRUTHFUL,
        SURVEY,
    )
}
FLAGS = (
    Choice("senseless", "It makes no sense"),
    Choice("should_not", "It should not be answered"),
)
"""what may be wrong with a question, whatever the form (WebGPT, appendix C.2, step 1)"""
SKIPS = (
    Choice("cannot_judge", "I cannot judge this"),
    Choice("too_long", "It takes too long"),
    Choice("unpleasant", "I would rather not read this"),
    Choice("broken", "Something is not shown as it should be"),
)
"""why a person may leave an item to others"""
