"""A form that somebody wrote, with a bit of everything that a form can ask."""

TONE = '''\
# Does the answer's tone suit a child?
name = "tone"
title = "Tone of an answer"
minutes = 3
answers = 2
decides = "better"
guide = """
# Tone

Judge only how it is said.
"""

[[steps]]
name = "each"
title = "Judge each answer"
questions = ["friendly", "why_not", "marks"]

[[steps]]
name = "both"
title = "Compare them"
questions = ["better", "sure", "comment"]

[questions.friendly]
label = "Is it friendly?"
kind = "choice"
levels = ["Not at all", "Somewhat", "Very"]
per = "answer"
required = "always"
scale = "friendly"

[questions.why_not]
label = "What is not friendly about it?"
kind = "text"
per = "answer"
required = "always"
min_words = 3
shown_when = { question = "friendly", is = ["0"] }

[questions.marks]
label = "Words that a child would not know"
kind = "spans"
help = "Mark each."
choices = [
  { value = "rare", label = "Rare word" },
  { value = "foreign", label = "Foreign word" },
]

[questions.better]
label = "Which is better for a child?"
kind = "versus"
required = "always"

[questions.sure]
label = "How sure are you?"
kind = "choice"
choices = [
  { value = "sure", label = "Sure", key = "s" },
  { value = "guess", label = "I guess", key = "g" },
]
shown_when = { question = "better", is = ["better", "much_better"] }

[questions.comment]
label = "Comment"
kind = "text"
min_words = 5
required_when = { question = "sure", is = ["guess"] }
'''
