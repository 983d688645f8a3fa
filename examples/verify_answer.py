"""Check the quotations and claims that another tool wrote: verify_answer.py ANSWER.md DOCUMENTS

Claims that are not quotations are judged by the evidence model, in the folder of a third argument
or the bundled one.
"""

import sys
from pathlib import Path

import rookery
from rookery.answers.answer_session import EvidenceSources
from rookery.shell.answer_verification import (
    CheckedSources,
    DocumentLookup,
    check_saved_answers,
    judge_saved_claims,
    make_claim_judge,
)

file, documents, *ranker = map(Path, sys.argv[1:])
judge = make_claim_judge(str(*ranker))
with EvidenceSources(rookery.Settings()) as sources:
    pages = CheckedSources(DocumentLookup(documents), sources, False, file.absolute().parent)
    verdicts = check_saved_answers(file.read_bytes(), file.name, pages)
    claims = judge_saved_claims(file.read_bytes(), file.name, verdicts, pages, judge)
for verdict in verdicts:
    print(verdict.outcome, verdict.detail)
for claim in claims:
    print(claim.outcome, claim.claim)
