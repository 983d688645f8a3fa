"""Check the quotations and claims that another tool wrote: verify_answer.py ANSWER.md DOCUMENTS

Claims that are not quotations are judged by the evidence model, in the folder of a third argument
or the bundled one.
"""

import sys
from pathlib import Path

import rookery
from rookery.answers.answer_session import EvidenceSources
from rookery.shell import answer_verification as checks

file, documents, *ranker = map(Path, sys.argv[1:])
judge = checks.make_claim_judge(str(*ranker))
with EvidenceSources(rookery.Settings()) as sources:
    pages = checks.CheckedSources(
        checks.DocumentLookup(documents), sources, False, file.absolute().parent
    )
    verdicts = checks.check_saved_answers(file.read_bytes(), file.name, pages)
    claims = checks.judge_saved_claims(file.read_bytes(), file.name, verdicts, pages, judge)
for verdict in verdicts:
    print(verdict.outcome, verdict.detail)
for claim in claims:
    print(claim.outcome, claim.claim)
